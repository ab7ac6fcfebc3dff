package supervise

import (
	"context"
	"time"

	"skiff/internal/runtime/controller"
)

// lookEvery is how often the files of a program are looked at: a change that was just saved runs all parents within
// two seconds. It is one stat of each.
const lookEvery = time.Second

// watch runs all parents when the program of a hook has changed, and notes what the controllers come to lack, until
// ctx ends.
func (s *supervised) watch(ctx context.Context, running []*controller.Controller) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			for _, h := range s.currentHooks() {
				h.changed(h.caller.Version(), 0)
			}
			s.waits(lackOf(running))
		case <-ctx.Done():
			return
		}
	}
}

// lackOf returns what a controller does not work at all without, a resource or a right; "": they all work.
func lackOf(running []*controller.Controller) string {
	for _, c := range running {
		lack := ""
		for _, part := range c.Parts() {
			if !part.Missing[controller.MissingResource] && !part.Missing[controller.MissingRight] {
				lack = ""
				break
			}
			lack = part.Brief
		}
		if lack != "" {
			return lack
		}
	}
	return ""
}
