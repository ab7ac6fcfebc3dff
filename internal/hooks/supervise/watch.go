package supervise

import (
	"context"
	"reflect"
	"slices"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// lookEvery is how often the files of a program are looked at: a saved change runs all parents within two seconds, for
// one stat of each file.
const lookEvery = time.Second

// watch runs all parents when the program of a hook has changed, and notes new gaps of the controllers, until ctx ends
// or a definition has come back different from f.
func (s *supervised) watch(ctx context.Context, running []*controller.Controller, f found) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var missed bool
	var looked time.Time
	for {
		select {
		case <-look.C:
			for _, h := range s.currentHooks() {
				h.look(h.caller.Version())
			}
			s.waits(lackOf(running))
			missing := missesResource(running)
			if (missing || missed || s.misplaced.Load()) && time.Since(looked) >= findEvery {
				looked, missed = time.Now(), missing
				s.misplaced.Store(false)
				if s.differs(ctx, f) {
					return
				}
			}
			missed = missed || missing
		case <-ctx.Done():
			return
		}
	}
}

// differs says whether the server has the resources of the rules, and a resource is different from f: a definition
// that was deleted and installed again may have another scope or kind.
func (s *supervised) differs(ctx context.Context, f found) bool {
	now, err := s.find(ctx)
	if err != nil || reflect.DeepEqual(now, f) {
		return false
	}
	s.log.Info("the definition of a resource has changed: the controller starts again", kube.Warn()...)
	return true
}

// missesResource says whether the server has come to lack a resource of the controllers.
func missesResource(running []*controller.Controller) bool {
	return slices.ContainsFunc(running, func(c *controller.Controller) bool {
		return slices.ContainsFunc(c.Parts(), func(p controller.Part) bool {
			return p.Missing[controller.MissingResource]
		})
	})
}

// lackOf returns the missing resource or right without which a controller does not work at all; nil: all work.
func lackOf(running []*controller.Controller) *health.Problem {
	for _, c := range running {
		var lack *health.Problem
		for _, part := range c.Parts() {
			if !part.Missing[controller.MissingResource] && !part.Missing[controller.MissingRight] {
				lack = nil
				break
			}
			lack = &part.Problems[0]
		}
		if lack != nil {
			return lack
		}
	}
	return nil
}
