package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"
	"github.com/spf13/cobra"

	"skiff/internal/runtime/kube"
)

// logFlags set the format and the level of the log.
type logFlags struct {
	format    string
	verbosity int
}

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "`format` of the log on stderr: text (logfmt) or json")
	cmd.Flags().IntVarP(&f.verbosity, "verbosity", "v", 0,
		"log `level`: 0 changes, warnings and errors, 1 adds debug detail and drops no line")
	InGroup(cmd, groupLog, "log-format", "verbosity")
}

// logger makes a logger from the flags.
func (f *logFlags) logger(stderr io.Writer) (logr.Logger, error) {
	if f.verbosity < 0 {
		return logr.Logger{}, Usagef("--verbosity %d: must not be negative", f.verbosity)
	}
	var log logr.Logger
	switch f.format {
	case "text":
		log = stdr.New(textLines{stderr})
		log = log.WithSink(textLog{LogSink: log.GetSink(), out: stderr, verbosity: f.verbosity, plain: true})
	case "json":
		// logr's V(n) is slog's level -n.
		log = logr.FromSlogHandler(jsonLines{slog.NewJSONHandler(stderr,
			&slog.HandlerOptions{Level: slog.Level(-f.verbosity), ReplaceAttr: plainValue})})
	default:
		return logr.Logger{}, Usagef("--log-format %q: want text or json", f.format)
	}
	if f.verbosity == 0 {
		log = log.WithSink(limitedLog{LogSink: log.GetSink(), limit: &logLimit{}})
	}
	return log, nil
}

// WarnIn returns a function that logs each warning as a line of level WARN.
func WarnIn(log logr.Logger) func(string) {
	return func(text string) { log.Info("warning", kube.Warn("text", text)...) }
}

// logTime is RFC 3339 with milliseconds and the zone. Both formats begin with time, level and msg, and have the same
// names and values after them.
const logTime = "2006-01-02T15:04:05.000Z07:00"

// maxLogged limits a line of the text log, and a value of the JSON log: an error may quote an object of 1.5 MB, and be
// logged again and again. A stack trace fits.
const maxLogged = 16 << 10

// textLines writes the text log. It cuts long lines.
type textLines struct{ out io.Writer }

// Output writes a line of stdr, which begins with a numeric level unless it is an error.
func (w textLines) Output(_ int, line string) error {
	pairs, ok := pairsOf(strings.TrimSuffix(line, "\n"))
	if !ok { // a logger with a name: none of ours has one
		pairs = []pair{{"msg", line}}
	}
	level := slog.LevelError
	if len(pairs) > 0 && pairs[0].name == "level" {
		level = slog.LevelDebug
		if pairs[0].value == "0" {
			level = slog.LevelInfo
		}
		pairs = pairs[1:]
		if i := slices.Index(pairs, pair{"level", slog.LevelWarn.String()}); i >= 0 { // kube.Warn
			pairs, level = slices.Delete(pairs, i, i+1), slog.LevelWarn
		}
	}
	// stdr writes the error behind the message; the JSON log has it at the end, because it is the longest part.
	if level == slog.LevelError && len(pairs) > 1 && pairs[1].name == "error" {
		pairs = append(append(pairs[:1:1], pairs[2:]...), pairs[1])
	}
	text := fmt.Appendf(nil, "time=%s level=%s", time.Now().Format(logTime), level)
	for _, p := range pairs {
		left := maxLogged - len(text)
		if n := len(p.value); n > left {
			p.value = fmt.Sprintf("%s... (%d bytes in all)", strings.ToValidUTF8(p.value[:max(left, 0)], ""), n)
		}
		text = appendPair(text, p.name, p.value)
		if len(text) > maxLogged {
			break
		}
	}
	_, err := w.out.Write(append(text, '\n'))
	return err
}

// jsonLines gives warnings their level.
type jsonLines struct{ slog.Handler }

func (h jsonLines) Handle(ctx context.Context, r slog.Record) error {
	if r.Level != slog.LevelInfo {
		return h.Handler.Handle(ctx, r)
	}
	values := make([]any, 0, 2*r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		values = append(values, a.Key, a.Value.Any())
		return true
	})
	if rest, warns := kube.Warns(values); warns {
		r = slog.NewRecord(r.Time, slog.LevelWarn, r.Message, r.PC)
		r.Add(rest...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h jsonLines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return jsonLines{h.Handler.WithAttrs(attrs)}
}

// plainValue writes a value of the JSON log as the text log does: a key as "namespace/name", a duration with its unit.
func plainValue(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch v := a.Value.Any().(type) {
	case time.Time:
		return slog.String(a.Key, v.Format(logTime))
	case slog.Level:
		if v < slog.LevelInfo {
			v = slog.LevelDebug
		}
		return slog.String(a.Key, v.String())
	case string:
		text = v
	case error:
		text = textOf(v.Error)
		if a.Key == "err" {
			a.Key = "error"
		}
	case fmt.Stringer:
		text = textOf(v.String)
	default:
		return a
	}
	if len(text) > maxLogged {
		text = kube.Printable(text, maxLogged)
	}
	return slog.String(a.Key, text)
}

// textOf returns what the method of a value says of it, or how that panicked: on a nil pointer, mostly.
func textOf(say func() string) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("<panic: %v>", p)
		}
	}()
	return say()
}
