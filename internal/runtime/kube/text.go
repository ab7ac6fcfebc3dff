package kube

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxText is how much is shown of a text that a server or a user of the cluster wrote. An API server's longest
	// messages, of an object with many invalid fields, are a few KiB.
	maxText = 4 << 10
	// maxQuoted is how much of one value goes into an error text.
	maxQuoted = 100
)

// Text is Printable for a whole message.
func Text(s string) string { return Printable(s, maxText) }

// Printable returns s as it may go to a terminal or a log line: at most limit bytes of it, on one line, with all
// characters escaped that move the cursor, change how text is shown or set the clipboard (control characters, and
// those that turn the direction of writing). Everything that others wrote goes through it: Event and Status messages,
// warnings, names in broken objects.
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

// PrintableJSON escapes the characters that JSON allows in its strings and a terminal acts upon.
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
