package cli

import (
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/operators/reload"
)

// reloadFlags are the flags of the controllers that restart workloads when ConfigMaps and Secrets change.
type reloadFlags struct {
	reload.Options
	share string
}

func (f *reloadFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.share, "max-unavailable-workloads", reload.DefaultShare.String(),
		"how many `workloads` of a namespace and of the cluster reload has rolling at a time: a number, or 20%")
	fs.DurationVar(&f.Debounce, "reload-debounce", reload.DefaultDebounce,
		"reload restarts a workload when its ConfigMaps and Secrets have not changed for this long")
	fs.BoolVar(&f.Reloader, "reloader-annotations", false,
		"reload restarts for the annotations of Stakater's Reloader as well: see examples/reload/RELOADER.md")
	InGroup(cmd, groupControllers, "max-unavailable-workloads", "reload-debounce", "reloader-annotations")
}

// maxReloadDebounce refuses what must be a mistake in the unit.
const maxReloadDebounce = time.Hour

func (f *reloadFlags) check() (err error) {
	if f.Debounce < time.Second || f.Debounce > maxReloadDebounce {
		return Usagef("--reload-debounce %s: must be within 1s and %s", f.Debounce, maxReloadDebounce)
	}
	if f.Share, err = reload.ParseShare(f.share); err != nil {
		return Usagef("--max-unavailable-workloads %w", err)
	}
	return nil
}
