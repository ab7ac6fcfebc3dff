package controller

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// maxRestartPause bounds the pause before a part of a controller that panicked is run again.
const maxRestartPause = 30 * time.Second

// contained runs a part of the controller until it returns. A panic in it is counted and logged, and the part is run
// again after a pause that doubles: no mistake of ours ends the process, and with it the other controllers.
func (c *Controller) contained(ctx context.Context, part string, run func()) {
	for pause := time.Second; !c.survives(part, run); pause = min(2*pause, maxRestartPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// survives reports whether run returned by itself.
func (c *Controller) survives(part string, run func()) (survived bool) {
	defer func() {
		if p := recover(); p != nil {
			c.stats.crashes.Add(1)
			c.log.Error(fmt.Errorf("%s: panic: %v", part, p), "a part of the controller panicked; it is run again",
				"stack", string(debug.Stack()))
		}
	}()
	run()
	return true
}
