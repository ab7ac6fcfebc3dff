package cli

import (
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/operators/restart"
)

// floorFlags bound what a RestartTrigger may ask for: the operator of skiff sets them, a tenant writes the trigger.
type floorFlags struct{ minDebounce, minCooldown time.Duration }

func (f *floorFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.minDebounce, "min-debounce", restart.MinDebounce,
		"the shortest debounce of a restart trigger; a shorter one is raised, and the trigger's status says so")
	cmd.Flags().DurationVar(&f.minCooldown, "min-cooldown", restart.MinCooldown,
		"the shortest cooldown of a restart trigger; a shorter one is raised, and the trigger's status says so")
	InGroup(cmd, GroupAdvanced, "min-debounce", "min-cooldown")
}

func (f *floorFlags) check() error {
	switch {
	case f.minDebounce < 0:
		return Usagef("--min-debounce %s: must not be negative", f.minDebounce)
	case f.minCooldown < 0:
		return Usagef("--min-cooldown %s: must not be negative", f.minCooldown)
	}
	return nil
}
