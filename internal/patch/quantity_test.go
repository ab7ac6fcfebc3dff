package patch

import "testing"

func TestQuantitiesAreComparedByValue(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"0.5", "500m", 0}, {"1Gi", "1024Mi", 0}, {"1", "1000m", 0}, {"1e3", "1k", 0}, {"1E3", "1000", 0},
		{"1E", "1000P", 0}, {"2", "10", -1}, {"100m", "0.2", -1}, {"1G", "1Gi", -1}, {"-1", "1", -1},
		{"1.", "1", 0}, {".5", "0.5", 0}, {"+1", "1", 0}, {"0123", "123", 0}, {"0", "-0", 0}, {"1e-3", "1m", 0},
		{"0.0000000001", "1n", 0}, {"-0.0000000001", "-1n", 0}, {"1.5Gi", "1536Mi", 0},
	} {
		a, err := ParseQuantity(c.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseQuantity(c.b)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Cmp(b); got != c.want {
			t.Errorf("%s against %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestWhatIsNoQuantityIsRefused(t *testing.T) {
	for _, s := range []string{"", "x", "1x", "1kI", ".", "-", "--1", "+-1", "1.2.3", "1e", "1e1000000000", "1 ", " 1", "1_0", "0x10", "1/2", "NaN", "m"} {
		if _, err := ParseQuantity(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func FuzzParseQuantity(f *testing.F) {
	for _, s := range []string{"500m", "1.5Gi", "-1e-3", "1E", "..", "+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if q, err := ParseQuantity(s); err == nil && q.Cmp(q) != 0 {
			t.Errorf("%q is not equal to itself", s)
		}
	})
}
