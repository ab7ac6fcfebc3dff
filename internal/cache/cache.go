// Package cache mirrors one resource of the server into memory and tells who asks what changed.
//
// A Store is the read side: a map and its indexes under one mutex, holding only the fields that the
// declared struct names. A Reflector is the only writer of its part of a Store: it lists, watches, resumes,
// notices what it missed, and never lets the mirror go back in time. Reads of a mirror that is not complete,
// or that does not cover what is asked for, are errors, never a silent "not found".
//
// It does not talk HTTP (package kube does), does not decide what to do about a change (package controller
// does) and never writes to the server. Mirrors of two resources are not consistent with each other: each is
// at a resource version of its own.
//
// Each scope (one namespace, or all of them) has one goroutine, which runs its Reflector and calls the
// OnChange handlers; Store.Run owns and waits for them. Readers come from any goroutine. On the way of an
// event it is steps 3 and 4: (*Reflector).step takes it off the stream, (*Store).put makes it visible.
package cache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/kube"
)

// Options say what to mirror.
type Options struct {
	Resource kube.Resource
	// Namespaces limits the mirror. Empty: all. Several: one Reflector each, which need no right on any other
	// namespace. A cluster-scoped resource is always mirrored whole.
	Namespaces []string
	// LabelSelector and FieldSelector narrow the mirror on the server. What they leave out is not there for
	// readers, and an object whose labels change so that it no longer matches comes as Deleted although it
	// still exists.
	LabelSelector, FieldSelector string

	Client *kube.Client
	Log    logr.Logger

	// WatchIdleTimeout ends a watch that has brought nothing, not even a bookmark, for so long. 0: a little
	// longer than what the server was asked to end the watch after, which needs no bookmarks (servers do not
	// promise any).
	WatchIdleTimeout time.Duration
	// InitialLists bounds how many full lists are in flight at a time. Give all stores of a process the same
	// one. nil: DefaultInitialLists for this store alone.
	InitialLists *Limiter
}

// New returns an empty Store. It sends nothing before Run.
func New[T kube.Object](o Options) *Store[T] {
	if o.InitialLists == nil {
		o.InitialLists = NewLimiter(DefaultInitialLists)
	}
	namespaces := slices.Clone(o.Namespaces)
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	if len(namespaces) == 0 || o.Resource.ClusterScoped {
		namespaces = []string{""}
	}
	s := &Store[T]{
		o:        o,
		only:     onlyName(o.FieldSelector),
		synced:   make(chan struct{}),
		objects:  table[T]{},
		owned:    map[string][]T{},
		bad:      map[kube.Key]*kube.DecodeError{},
		unsynced: len(namespaces),
	}
	for _, ns := range namespaces {
		s.scopes = append(s.scopes, &scope{namespace: ns, phase: stopped, counters: newCounters()})
	}
	return s
}

// Resource returns what the Store mirrors.
func (s *Store[T]) Resource() kube.Resource { return s.o.Resource }

// OnChange adds a handler that hears of every change from the first list on. It must be called before Run.
//
// Changes of one object come in order, after the Store shows them. The handler runs on the goroutine that
// reads the stream, so it must be quick and must not block: it is meant to put a key into a queue. With
// several namespaces it is called by several goroutines.
func (s *Store[T]) OnChange(f func(Change[T])) {
	if s.started.Load() {
		panic("cache: OnChange of " + s.o.Resource.GroupResource() + " after Run: changes would be missing")
	}
	s.handlers = append(s.handlers, f)
}

// Run mirrors until ctx ends, then waits for its goroutines: no handler is called after it has returned. The
// content stays readable. Run returns nil at the end of ctx, and an error only if it has been called before.
func (s *Store[T]) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return fmt.Errorf("run cache of %s: it has been started before", s.o.Resource)
	}
	var running sync.WaitGroup
	for _, sc := range s.scopes {
		running.Go(func() { newReflector(s, sc).run(ctx) })
	}
	running.Wait()
	return nil
}

// Synced reports whether every scope has been listed and every handler has heard of all that was in the
// list. Once true it stays true: a mirror that has fallen behind shows in State.
func (s *Store[T]) Synced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

// WaitSynced waits until Synced. Its error names what is still missing and why.
func (s *Store[T]) WaitSynced(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sc := range s.scopes {
		if !sc.synced {
			return fmt.Errorf("wait for %s: %w: %w", s.query(sc), s.notSyncedLocked(sc), context.Cause(ctx))
		}
	}
	return nil
}

// query is what the Reflector of sc lists and watches.
func (s *Store[T]) query(sc *scope) kube.Query {
	return kube.Query{
		Resource:      s.o.Resource,
		Namespace:     sc.namespace,
		LabelSelector: s.o.LabelSelector,
		FieldSelector: s.o.FieldSelector,
	}
}
