package kube

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxText bounds a shown text from a server or a user of the cluster. The longest messages of an API server, about
	// objects with many invalid fields, are a few KiB.
	maxText = 4 << 10
	// maxQuoted bounds a value quoted in an error text.
	maxQuoted = 100
)

// Text is Printable for a whole message.
func Text(s string) string { return Printable(s, maxText) }

// Printable returns s for a terminal or a log line: at most limit bytes, on one line, with escapes for all characters
// that move the cursor, change the display or set the clipboard (control characters, and changes of the writing
// direction). All foreign text goes through Printable: Event and Status messages, warnings, names in broken objects.
func Printable(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	if isPrintable(s) {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			out.WriteByte(' ')
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case unicode.IsGraphic(r):
			out.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// PrintableJSON escapes the characters in JSON strings with an effect on a terminal.
func PrintableJSON(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == ' ' || r < 0x7f || unicode.IsGraphic(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// isPrintable is the answer for almost all texts.
func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
