// Package call calls the hooks of a controller, on the goroutine of the worker that reconciles a parent.
package call

import (
	"fmt"
	"time"
)

// Later is the error of a hook that asks for another call after a while, and has decided nothing.
type Later struct {
	After time.Duration
}

func (e *Later) Error() string {
	return fmt.Sprintf("the hook asks for another call after %s", e.After)
}
