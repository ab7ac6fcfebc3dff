package cli

import (
	"io"
	"log"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"
	"github.com/spf13/cobra"
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
		return stdr.New(log.New(stderr, "", log.LstdFlags)), nil
	case "json":
		// logr's V(n) is slog's level -n.
		return logr.FromSlogHandler(slog.NewJSONHandler(stderr,
			&slog.HandlerOptions{Level: slog.Level(-f.verbosity)})), nil
	}
	return logr.Logger{}, usagef("--log-format %q: want text or json", f.format)
}
