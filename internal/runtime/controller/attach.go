package controller

import (
	"context"
	"slices"
	"sync"

	"skiff/internal/runtime/kube"
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

// Attach adds a source while the controller runs, for a kind that its Func has just learnt of; the Func calls it. No
// part waits for its mirror: the Func has to see to it that what it reads is listed. served names the keys that are to
// run when the mirror may have become readable. detach takes the source away, and returns when its mirror has
// stopped, unless others run that, too. The end of Run does so for all sources.
func (c *Controller) Attach(s Source, served func() []kube.Key) (detach func()) {
	disconnect := s.connect(c)
	unhear := s.mirror.OnServes(func() {
		for _, k := range served() {
			c.queue.AddLow(k, listedCause)
		}
	})
	stop := func() {}
	one := &attachment{mirror: s.mirror, end: sync.OnceFunc(func() {
		disconnect()
		unhear()
		stop()
	})}
	a := &c.attached
	a.mu.Lock()
	running := a.run != nil
	if running {
		stop = a.run(s.mirror)
		a.all = append(slices.Clip(a.all), one)
	}
	a.mu.Unlock()
	if !running {
		one.end()
	}
	return func() {
		one.end()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = slices.DeleteFunc(slices.Clone(a.all), func(o *attachment) bool { return o == one })
	}
}

// open lets Attach run mirrors, and returns what ends all of that.
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

// everyMirror returns the mirrors of all sources.
func (c *Controller) everyMirror() []mirror {
	c.attached.mu.Lock()
	defer c.attached.mu.Unlock()
	all := slices.Clone(c.mirrors)
	for _, one := range c.attached.all {
		all = append(all, one.mirror)
	}
	return all
}
