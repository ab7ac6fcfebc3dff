package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file is the form of the text log: logfmt, as most collectors of logs read it. Names are bare, values are quoted
// where they have to be, with the escapes of JSON.

// pair is a name and its value.
type pair struct{ name, value string }

// pairsOf reads what stdr writes: "name"=value pairs, where a string is quoted as in Go and any other value is JSON
// without spaces outside of strings.
func pairsOf(line string) (pairs []pair, ok bool) {
	for rest := line; rest != ""; {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, false
		}
		name, _ := strconv.Unquote(quoted)
		value, found := strings.CutPrefix(rest[len(quoted):], "=")
		if !found {
			return nil, false
		}
		end := endOfValue(value)
		rest = strings.TrimPrefix(value[end:], " ")
		value = value[:end]
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}
		pairs = append(pairs, pair{name, value})
	}
	return pairs, true
}

// endOfValue returns where the first space is that is not within quotes.
func endOfValue(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ':
			return i
		case '"':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return len(text)
			}
			i += len(quoted) - 1
		}
	}
	return len(text)
}

// appendPair adds " name=value".
func appendPair(text []byte, name, value string) []byte {
	text = appendName(append(text, ' '), name)
	return appendValue(append(text, '='), value)
}

// appendName adds a name, with _ for what cannot be in one.
func appendName(text []byte, name string) []byte {
	if name == "" {
		return append(text, '_')
	}
	for _, r := range name {
		if r <= ' ' || r == '=' || r == '"' || r == utf8.RuneError || !strconv.IsPrint(r) {
			r = '_'
		}
		text = utf8.AppendRune(text, r)
	}
	return text
}

// appendValue adds a value, in quotes unless it is a plain word.
func appendValue(text []byte, value string) []byte {
	bare := value != ""
	for _, r := range value {
		if r <= ' ' || r == '=' || r == '"' || r == '\\' || r == utf8.RuneError || !strconv.IsPrint(r) {
			bare = false
			break
		}
	}
	if bare {
		return append(text, value...)
	}
	text = append(text, '"')
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			text = append(text, '\\', byte(r))
		case r == '\n':
			text = append(text, `\n`...)
		case r == '\t':
			text = append(text, `\t`...)
		case strconv.IsPrint(r):
			text = utf8.AppendRune(text, r)
		case r > 0xffff: // in JSON two escapes
			text = fmt.Appendf(text, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			text = fmt.Appendf(text, `\u%04x`, r)
		}
	}
	return append(text, '"')
}
