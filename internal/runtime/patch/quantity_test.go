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

func TestQuantitiesAreWrittenInOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"0.5": "500m", "500m": "500m", "1000m": "1", "1.5": "1500m", "1000": "1k",
		"1500": "1500", "0": "0", "0Gi": "0", "-0.1": "-100m", "1Gi": "1Gi", "1.5Gi": "1536Mi", "1024Mi": "1Gi",
		"1023": "1023", "0.5Ki": "512", "0.0001Ki": "102400u", "1000Ki": "1000Ki", "1e3": "1e3", "1000e0": "1e3",
		"1E1": "10", "5e-1": "500e-3", "2E": "2E", "1000E": "1000E", "0.0000000001": "1n", "+1.": "1", "2048": "2048",
	} {
		q, err := ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.String(); got != want {
			t.Errorf("%s is written %s, want %s", text, got, want)
		}
	}
}

func TestWhatIsNoQuantityIsRefused(t *testing.T) {
	for _, s := range []string{"", "x", "1x", "1kI", ".", "-", "--1", "+-1", "1.2.3", "1e", "1e1000000000", "1 ", " 1",
		"1_0", "0x10", "1/2", "NaN", "m"} {
		if _, err := ParseQuantity(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func FuzzParseQuantity(f *testing.F) {
	for _, s := range []string{"500m", "1.5Gi", "-1e-3", "1E", "..", "+", "100E100"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseQuantity(s)
		if err != nil {
			return
		}
		if same, err := ParseQuantity(q.String()); err != nil || q.Cmp(same) != 0 || same.String() != q.String() {
			t.Errorf("%q was written %q, which is %q (%v)", s, q, same, err)
		}
	})
}
