package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"skiff/internal/kube"
)

const (
	// wakeEvery bounds how often a key is tried because the requests of others work again: it may fail for a reason of
	// its own.
	wakeEvery = 30 * time.Second
	// wakeScan is the least time between two searches for such keys.
	wakeScan = time.Second
)

// streak is the failures of a key since it succeeded, or became another object. Failures are counted by class: a
// server that is away says nothing of the key.
type streak struct {
	failures  int       // of all classes
	first     time.Time // of them
	failing   int       // of class failing
	since     time.Time // of the first of those
	forbidden time.Time // of the first of class forbidden

	class   class     // of the last one
	text    string    // of the last one
	stalled bool      // since the last one, it is tried at the longest interval
	woken   time.Time // when it was last tried because the requests of others worked again
}

// streaks are the keys that fail.
type streaks struct {
	mu      sync.Mutex // guards all below
	of      map[kube.Key]streak
	scanned time.Time
}

func (s *streaks) get(k kube.Key) streak {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[k]
}

// count returns how many keys fail, and how many of these are tried at the longest interval.
func (s *streaks) count() (failing, stalled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.of {
		if one.stalled {
			stalled++
		}
	}
	return len(s.of), stalled
}

func (s *streaks) forget(k kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, k)
}

// leave drops the keys of a namespace.
func (s *streaks) leave(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(k kube.Key, _ streak) bool { return k.Namespace == namespace })
}

// add counts a failure.
func (s *streaks) add(k kube.Key, n Next, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[kube.Key]streak{}
	}
	one := s.of[k].and(n.class, time.Now())
	one.stalled, one.text = n.Stalled, kube.Printable(kube.Explain(err), maxReason)
	s.of[k] = one
}

// maxFailing is how many objects that fail are named.
const maxFailing = 10

// describe says what fails, in lines for people. What should pass by itself, and is recent, is left out.
func (s *streaks) describe(now time.Time) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []kube.Key
	for k, one := range s.of {
		if one.class != passing || one.failures >= newsAfter {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, kube.Key.Compare)
	for i, k := range keys {
		if i == maxFailing {
			return append(lines, fmt.Sprintf("failing: %d more", len(keys)-i))
		}
		one, what := s.of[k], "failing"
		if one.class == terminal || one.class == forbidden {
			what = "refused"
		}
		lines = append(lines, fmt.Sprintf("%s: %s for %s, %s: %s", what, k, now.Sub(one.first).Round(time.Second),
			times(one.failures), one.text))
	}
	return lines
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// and is the streak with one more failure.
func (s streak) and(c class, now time.Time) streak {
	if s.failures++; s.failures == 1 {
		s.first = now
	}
	s.class = c
	switch {
	case c == failing:
		s.failing++
		if s.failing == 1 {
			s.since = now
		}
	case c == forbidden && s.forbidden.IsZero():
		s.forbidden = now
	}
	return s
}

// wake returns the keys that waited for what works now: the server, and requests in the namespaces that in names.
func (s *streaks) wake(in func(namespace string) bool) (keys []kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.of) == 0 || now.Sub(s.scanned) < wakeScan {
		return nil
	}
	s.scanned = now
	for k, one := range s.of {
		waits := one.class == passing || one.class == forbidden && in(k.Namespace)
		if waits && now.Sub(one.woken) >= wakeEvery {
			one.woken = now
			s.of[k] = one
			keys = append(keys, k)
		}
	}
	return keys
}

// requestsWork runs the keys that failed because requests did not work.
func (c *Controller) requestsWork(in func(namespace string) bool) {
	for _, k := range c.streaks.wake(in) {
		c.queue.Add(k, worksCause)
	}
}

// forget clears the failures of a key.
func (c *Controller) forget(k kube.Key) {
	c.streaks.forget(k)
	c.queue.Forget(k)
}
