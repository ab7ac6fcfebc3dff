package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"skiff/internal/runtime/process"

	"github.com/go-logr/logr"
)

// Set is controllers that come and go while a process runs. All methods may be called from any goroutine. The failure
// or panic of a controller is logged, and the rest of the Set goes on.
type Set struct {
	log logr.Logger

	mu      sync.Mutex    // guards what follows
	members []*member     // replaced, never changed
	changed chan struct{} // closed, and made anew, when members has changed
}

// member is one controller of a Set.
type member struct {
	*Controller
	started bool          // Run has been called; the Set's lock guards it
	ended   chan struct{} // closed when that has returned
}

// NewSet returns an empty Set. It starts nothing.
func NewSet(log logr.Logger) *Set {
	return &Set{log: log, changed: make(chan struct{})}
}

// All returns the controllers, in the order in which they came.
func (s *Set) All() []*Controller {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Controller, len(s.members))
	for i, m := range s.members {
		all[i] = m.Controller
	}
	return all
}

// Add has Run run a controller, or will have when it is called. The name must not be taken.
func (s *Set) Add(c *Controller) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.members, func(m *member) bool { return m.Name() == c.Name() }) {
		return fmt.Errorf("add controller %s: there is one of this name", c.Name())
	}
	s.members = append(slices.Clip(s.members), &member{Controller: c, ended: make(chan struct{})})
	s.changeLocked()
	return nil
}

// Remove stops a controller and waits until its runs under way have ended, or ctx has.
func (s *Set) Remove(ctx context.Context, c *Controller) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.members, func(m *member) bool { return m.Controller == c })
	if i < 0 {
		s.mu.Unlock()
		return nil
	}
	m := s.members[i]
	started := m.started
	s.members = slices.Delete(slices.Clone(s.members), i, i+1)
	s.changeLocked()
	s.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("remove controller %s: %w", c.Name(), ctx.Err())
	}
}

func (s *Set) changeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Set) snapshot() ([]*member, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members, s.changed
}

// start says whether a member is still to be run, and notes the start.
func (s *Set) start(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.started = slices.Contains(s.members, m)
	return m.started
}

// Run runs the controllers as they come and go, until ctx ends and all have stopped. The error names those that did
// not stop in time.
func (s *Set) Run(ctx context.Context) error {
	return s.follow(ctx, nil, func(ctx context.Context, m *member) error {
		if !s.start(m) {
			return nil
		}
		defer close(m.ended)
		return m.Run(ctx)
	})
}

// Lead calls Controller.Lead of each controller that works only while the process leads, until ctx or leaseCtx ends.
func (s *Set) Lead(ctx, leaseCtx context.Context) error {
	return s.follow(ctx, leaseCtx.Done(), func(ctx context.Context, m *member) error {
		if !m.Elected() {
			return nil // it works anyway
		}
		return m.Lead(ctx, leaseCtx)
	})
}

// follow calls run for each member, on a goroutine of its own, with a context that ends when the member is removed or
// ctx ends, and returns after all calls. Once lost is closed, it calls run for no further member, and the calls under
// way are left to end by themselves: their members go on when run is called for them again.
func (s *Set) follow(ctx context.Context, lost <-chan struct{}, run func(context.Context, *member) error) error {
	stops := map[*member]context.CancelFunc{}
	var mu sync.Mutex // guards errs
	var errs []error
	var calls sync.WaitGroup
	for {
		members, changed := s.snapshot()
		for m, stop := range stops {
			if !slices.Contains(members, m) {
				stop()
				delete(stops, m)
			}
		}
		for _, m := range members {
			if stops[m] != nil || ctx.Err() != nil {
				continue
			}
			running, stop := context.WithCancel(ctx)
			stops[m] = stop
			calls.Go(func() {
				if err := s.contain(m, func() error { return run(running, m) }); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
		select {
		case <-changed:
			continue
		case <-lost:
			calls.Wait()
		case <-ctx.Done():
		}
		break
	}
	for _, stop := range stops {
		stop()
	}
	calls.Wait()
	return errors.Join(errs...)
}

// contain calls run for a member, and logs an error at once, as the other members go on.
func (s *Set) contain(m *member, run func() error) error {
	err := process.Contain("controller "+m.Name(), run)
	if p := new(process.Panic); errors.As(err, &p) {
		s.log.Error(err, "a controller panicked and is not running any more", "stack", string(p.Stack))
	} else if err != nil {
		s.log.Error(err, "a controller did not stop in order", "controller", m.Name())
	}
	return err
}
