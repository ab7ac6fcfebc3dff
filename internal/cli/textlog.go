package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
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

// textLog writes usual lines of the text log, without reflection, as stdr and textLines do: a run that writes makes
// three or four of them. All others it leaves to these two.
type textLog struct {
	logr.LogSink // stdr, with the same values
	out          io.Writer
	verbosity    int    // of stdr it is one for all of the process
	values       []byte // of WithValues
	plain        bool   // values has all of them
}

func (l textLog) Enabled(level int) bool { return level <= l.verbosity }

func (l textLog) Info(level int, message string, values ...any) {
	line, ok := l.line(make([]byte, 0, 512), level, message, values)
	if !ok || len(line) > maxLogged {
		l.LogSink.Info(level, message, values...)
		return
	}
	_, _ = l.out.Write(line) // there is nowhere to report it
}

// Error has the error say what it is: stdr does not survive one whose method panics.
func (l textLog) Error(err error, message string, values ...any) {
	if err != nil {
		err = errors.New(textOf(err.Error))
	}
	l.LogSink.Error(err, message, values...)
}

// line adds a line to text; not ok: something in it is out of the ordinary.
func (l textLog) line(text []byte, level int, message string, values []any) (line []byte, ok bool) {
	if !l.plain {
		return nil, false
	}
	values, warns := kube.Warns(values)
	text = append(text, `time=`...)
	text = time.Now().AppendFormat(text, logTime)
	text = append(text, ` level=`...)
	shown := slog.LevelInfo
	if level > 0 {
		shown = slog.LevelDebug
	} else if warns {
		shown = slog.LevelWarn
	}
	text = append(text, shown.String()...)
	text = appendPair(text, "msg", message)
	text = append(text, l.values...)
	text, ok = appendPlain(text, values)
	return append(text, '\n'), ok
}

// appendPlain adds names and their values in the form of stdr; not ok: one is of a type that is seldom logged.
func appendPlain(text []byte, values []any) (_ []byte, ok bool) {
	if len(values)%2 != 0 {
		return text, false
	}
	for i := 0; i < len(values); i += 2 {
		name, ok := values[i].(string)
		if !ok {
			return text, false
		}
		text = append(appendName(append(text, ' '), name), '=')
		switch v := values[i+1].(type) {
		case string:
			text = appendValue(text, v)
		case kube.Key:
			text = appendValue(text, v.String())
		case int:
			text = strconv.AppendInt(text, int64(v), 10)
		case int64:
			text = strconv.AppendInt(text, v, 10)
		case float64:
			text = strconv.AppendFloat(text, v, 'f', -1, 64)
		default:
			return text, false
		}
	}
	return text, true
}

func (l textLog) WithValues(values ...any) logr.LogSink {
	l.LogSink = l.LogSink.WithValues(values...)
	if l.plain {
		l.values, l.plain = appendPlain(l.values[:len(l.values):len(l.values)], values)
	}
	return l
}

func (l textLog) WithName(name string) logr.LogSink {
	l.LogSink, l.plain = l.LogSink.WithName(name), false
	return l
}
