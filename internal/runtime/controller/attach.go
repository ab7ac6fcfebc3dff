package controller

import (
	"context"
	"sync"
)

// attached are sources that came while a controller runs.
type attached struct {
	mu  sync.Mutex                   // guards what follows
	run func(m mirror) (stop func()) // runs a mirror until stop has returned; nil: the controller does not run
	all []*attachment                // replaced, never changed
}

type attachment struct {
	mirror mirror
	end    func() // disconnects the source and stops the mirror
}

// open lets Attach run mirrors, and returns a function that ends all attachments.
func (a *attached) open(ctx context.Context) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run = func(m mirror) func() {
		mirroring, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.Run(mirroring)
		}()
		return func() {
			cancel()
			<-ended
		}
	}
	return func() {
		a.mu.Lock()
		all := a.all
		a.run, a.all = nil, nil
		a.mu.Unlock()
		for _, one := range all {
			one.end()
		}
	}
}
