package cli

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"
	"github.com/spf13/cobra"

	"skiff/internal/kube"
)

// logFlags set the format and the level of the log.
type logFlags struct {
	format    string
	verbosity int
}

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "`format` of the log on stderr: text or json")
	cmd.Flags().IntVarP(&f.verbosity, "verbosity", "v", 0,
		"log `level`: 0 changes and errors, 1 adds debug detail")
}

// logger makes a logger from the flags.
func (f *logFlags) logger(stderr io.Writer) (logr.Logger, error) {
	if f.verbosity < 0 {
		return logr.Logger{}, usagef("--verbosity %d: must not be negative", f.verbosity)
	}
	switch f.format {
	case "text":
		stdr.SetVerbosity(f.verbosity)
		return stdr.New(log.New(shortLines{stderr}, "", log.LstdFlags)), nil
	case "json":
		// logr's V(n) is slog's level -n.
		return logr.FromSlogHandler(slog.NewJSONHandler(stderr,
			&slog.HandlerOptions{Level: slog.Level(-f.verbosity), ReplaceAttr: shortValue})), nil
	}
	return logr.Logger{}, usagef("--log-format %q: want text or json", f.format)
}

// maxLogged limits a line of the text log, and a value of the JSON log: an error may quote an object of 1.5 MB, and be
// logged again and again. A stack trace fits.
const maxLogged = 16 << 10

// shortLines cuts long lines. Each Write is one line.
type shortLines struct{ out io.Writer }

func (w shortLines) Write(line []byte) (int, error) {
	if len(line) <= maxLogged {
		return w.out.Write(line)
	}
	cut := strings.ToValidUTF8(string(line[:maxLogged]), "")
	if _, err := fmt.Fprintf(w.out, "%s... (%d bytes in all)\n", cut, len(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func shortValue(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch v := a.Value.Any().(type) {
	case string:
		text = v
	case error:
		text = v.Error()
	}
	if len(text) > maxLogged {
		a.Value = slog.StringValue(kube.Printable(text, maxLogged))
	}
	return a
}
