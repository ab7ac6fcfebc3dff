package cli

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/runtime/kube"
)

// logFlags set the format and the level of the log.
type logFlags struct {
	format    string
	verbosity int
	brief     bool // the console shows lines about objects and hooks only, not how the process starts and ends
}

// formatOn returns the format for a log that stderr takes.
func (f *logFlags) formatOn(stderr io.Writer) string {
	switch {
	case f.format != "auto":
		return f.format
	case isTerminal(Direct(stderr)):
		return "console"
	}
	return "text"
}

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "auto", "`format` of the log on stderr: console (a line for a run "+
		"that changed something), text (logfmt), json, or auto (console on a terminal, else text)")
	cmd.Flags().IntVarP(&f.verbosity, "verbosity", "v", 0,
		"log `level`: 0 changes, warnings and errors, 1 adds debug detail and limits no message")
	InGroup(cmd, groupLog, "log-format", "verbosity")
}

// logger makes the logger of a command that runs until stopped: no line waits for a reader of stderr.
func (f *logFlags) logger(stderr io.Writer) (logr.Logger, error) {
	log, err := f.plainLogger(stderr)
	if s, ok := stderr.(*Stderr); ok && err == nil {
		s.queue(func(lines int) {
			log.Info("lines of the log were dropped, because stderr was not read", kube.Warn("lines", lines)...)
		})
	}
	return log, err
}

// plainLogger makes a logger from the flags.
func (f *logFlags) plainLogger(stderr io.Writer) (logr.Logger, error) {
	if f.verbosity < 0 {
		return logr.Logger{}, Usagef("--verbosity %d: must not be negative", f.verbosity)
	}
	var log logr.Logger
	// logr's V(n) is slog's level -n.
	options := &slog.HandlerOptions{Level: slog.Level(-f.verbosity), ReplaceAttr: plainValue}
	switch format := f.formatOn(stderr); format {
	case "console":
		log = newConsole(stderr, f.verbosity, f.brief)
	case "text":
		log = logr.FromSlogHandler(slog.NewTextHandler(stderr, options))
	case "json":
		log = logr.FromSlogHandler(slog.NewJSONHandler(stderr, options))
	default:
		return logr.Logger{}, wrongChoice("--log-format", f.format, []string{"auto", "console", "text", "json"})
	}
	lines := logLines{LogSink: log.GetSink()}
	if f.verbosity == 0 {
		lines.limit = &logLimit{}
	}
	return log.WithSink(lines), nil
}

// WarnIn returns a function that logs each warning as a line of level WARN.
func WarnIn(log logr.Logger) func(string) {
	return func(text string) { log.Info("warning", kube.Warn("text", text)...) }
}

// logTime is RFC 3339 with milliseconds and the zone. Text and JSON begin with time, level and msg, and have the same
// names and values afterwards.
const logTime = "2006-01-02T15:04:05.000Z07:00"

// maxLogged limits a value: a repeated error may quote an object of 1.5 MB. A stack trace fits.
const maxLogged = 16 << 10

// levelWarn is logr's level for a line of kube.Warn, which slog and the console take as WARN.
const levelWarn = -int(slog.LevelWarn)

// plainValue makes text and JSON write a value in the same way: a key as "namespace/name", a duration with a unit.
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

// textOf returns the text of a value's method, or of the panic in the method: on a nil pointer, mostly.
func textOf(say func() string) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("<panic: %v>", p)
		}
	}()
	return say()
}
