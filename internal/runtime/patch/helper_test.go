package patch

import "testing"

// decode turns a literal of a test into a value. A test writes ' for ".
func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := Decode([]byte(quotes(text)))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func quotes(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c == '\'' {
			b[i] = '"'
		}
	}
	return string(b)
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	return decode(t, text).(map[string]any)
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
