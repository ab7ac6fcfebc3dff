package cli

import (
	"context"
	"io"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
)

// HookDir runs the hook controllers of a directory as `skiff hooks run` does, on the cluster of the caller: `skiff-dev
// hooks`. A reader of the live page may read the hooks, too.
type HookDir struct {
	flags       hooksRunFlags
	controllers []*spec.Controller
}

// Add adds the flags to a command.
func (h *HookDir) Add(cmd *cobra.Command) {
	f := &h.flags
	f.manager, f.answerMiB, f.found = reconcile.Manager, defaultAnswerMiB, true
	f.files.verbosity = &f.log.verbosity
	f.ServePage()
	cmd.Flags().IntVar(&f.workers, "workers", defaultHookWorkers,
		"how many parents each controller reconciles in parallel")
	f.memory.add(cmd, hookObjectBytes)
	f.servingFlags.add(cmd)
	f.log.add(cmd)
	InGroup(cmd, groupControllers, "workers")
}

// Read checks the flags, reads the controllers of a directory, and prints the problems.
func (h *HookDir) Read(cmd *cobra.Command, dir string) (err error) {
	f := &h.flags
	f.found = !cmd.Flags().Changed("health-probe-bind-address")
	f.files.paths, f.files.flag = []string{dir}, dir
	if err := f.check(); err != nil {
		return err
	}
	h.controllers, err = f.files.read(cmd)
	return err
}

// Directories are those whose files are read.
func (h *HookDir) Directories() []string { return spec.Directories(h.flags.files.flag) }

// Names are those of the controllers.
func (h *HookDir) Names() (names []string) {
	for _, c := range h.controllers {
		names = append(names, c.Name)
	}
	return names
}

// Resources are the plurals of the parents and children of the controllers, as `kubectl get` takes them.
func (h *HookDir) Resources() (names []string) {
	add := func(t spec.Type) {
		if !slices.Contains(names, t.Resource) {
			names = append(names, t.Resource)
		}
	}
	for _, c := range h.controllers {
		for _, p := range c.Parents {
			add(p.Type)
		}
		for _, child := range c.Children {
			add(child.Type)
		}
	}
	return names
}

// Hooks are the files of programs, as far as commands name them, and the URLs of webhooks.
func (h *HookDir) Hooks() (names []string) {
	for _, c := range h.controllers {
		for _, hook := range c.Hooks() {
			named := call.Files(hook.Hook)
			if hook.Webhook != nil {
				named = []string{hook.Webhook.URL}
			}
			for _, name := range named {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// Logger makes a logger from the flags: for the author of a hook, without how the process starts and ends, unless
// --log-format asks for another form.
func (h *HookDir) Logger(stderr io.Writer) (logr.Logger, error) {
	log := h.flags.log
	if log.brief = true; log.format == "auto" {
		log.format = "console"
	}
	return log.logger(stderr)
}

// OnPage has opened called with the URL of the live page as soon as the page is served; false: no page will be.
func (h *HookDir) OnPage(opened func(url string)) bool { return h.flags.OnPage(opened) }

// Run runs the controllers until ctx ends. Their files are read again when they change.
func (h *HookDir) Run(ctx context.Context, on Cluster, log logr.Logger) error {
	return h.flags.runOn(ctx, on, h.controllers, log)
}
