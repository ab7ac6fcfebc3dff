package cli

import (
	"github.com/spf13/cobra"

	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/process"
)

// execFlags say which hooks may be programs, and as whom these run.
type execFlags struct {
	allowed []string
	as      string

	id *process.ID // of as; nil: skiff's own. Set by check
}

func (f *execFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	ListVar(cmd, &f.allowed, "allow-exec", nil,
		"`kind/name` of the controllers of --from-cluster whose hooks may run commands here, separated by commas")
	fs.StringVar(&f.as, "exec-uid", "",
		"`uid` or UID:GID that the programs of hooks run as, where skiff may change it (default as skiff)")
}

func (f *execFlags) check(files *hookFiles) error {
	if len(f.allowed) > 0 && !files.cluster {
		return Usagef("--allow-exec: it is for --from-cluster")
	}
	if err := supervise.CheckAllowed(f.allowed); err != nil {
		return Usagef("--allow-exec: %w", err)
	}
	if f.as == "" {
		return nil
	}
	id, err := process.ParseID(f.as)
	if err == nil {
		err = id.Check()
	}
	if err != nil {
		return Usagef("--exec-uid %q: %w", f.as, err)
	}
	f.id = &id
	return nil
}
