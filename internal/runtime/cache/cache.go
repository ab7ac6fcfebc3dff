// Package cache keeps a copy of one resource of the server in memory (a mirror) and reports its changes.
//
// A Store is the read side: a map and its indexes under one mutex, holding only the fields that the
// declared struct names. A Reflector is the only writer of its part of a Store: it lists, watches, resumes,
// detects missed changes, and never replaces a version by an older one. A read of a mirror that is not complete,
// or that does not cover what is asked for, is an error, never a silent "not found".
//
// It does not talk HTTP (package kube does), does not decide what to do about a change (package controller
// does) and never writes to the server. Mirrors of two resources are not consistent with each other: each is
// at its own resource version.
//
// Controllers that want the same objects in the same form share one Store: Mirrors finds it for them.
//
// Each scope (one namespace, or all of them) has one goroutine, which runs its Reflector and calls the
// OnChange handlers; Store.Run owns and waits for them. Readers come from any goroutine. On the way of an
// event it is (*Reflector).stream and handle, which take it off the stream, and (*Store).put, which makes it visible.
package cache

import (
	"context"
	"math"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// Options say what to mirror.
type Options struct {
	Resource kube.Resource
	// Namespaces limits the mirror. Empty: all. Several: one Reflector each, which need no right on any other
	// namespace. A cluster-scoped resource is always mirrored whole.
	Namespaces []string
	// Selected says that the namespaces are those of Mirrors.Select instead, which come and go.
	Selected bool
	// LabelSelector and FieldSelector narrow the mirror on the server. What they leave out is not there for
	// readers, and an object whose labels change so that it no longer matches comes as Gone although it
	// still exists.
	LabelSelector, FieldSelector string

	Client *kube.Client
	Log    logr.Logger

	// WatchIdleTimeout ends a watch on which nothing has arrived, not even a bookmark, for so long. 0: a little longer
	// than the lifetime that the server was asked for, which works without bookmarks (servers do not promise any).
	WatchIdleTimeout time.Duration
	// MaxBytes is how much memory the objects may take, about. Where there is more, the namespace that takes most is
	// shed: reads about its objects are not served until they fit. 0: a third of the process's memory limit.
	MaxBytes int64
	// MaxObjectBytes is how much memory one object may take, about. A larger one is shed alone. 0: any.
	MaxObjectBytes int64
	// Owners says that the objects are what controllers work for: of one that is being deleted, what its finalizers
	// need is held also where there is no room for the rest.
	Owners bool
	// QuietParking says that the owner of the mirror logs a missing right or resource, with the help of State: one
	// missing grant may concern several mirrors.
	QuietParking bool
	Advice       Advice

	// What the mirrors of a process share; nil: this one shares it with none.
	lists   *limiter
	contact *contact
	memory  *memory
}

// Advice is what a user of the program can do, as the end of a message; "" adds nothing.
type Advice struct {
	ObjectBytes string // an object is larger than one may be: "raise ..."
	MirrorBytes string // a namespace takes more than there is: "raise ..."
	Server      string // the API server has never answered
}

// New returns an empty Store. It sends nothing before Run.
func New[T kube.Object](o Options) *Store[T] {
	if o.lists == nil {
		o.lists = newLimiter(initialLists)
	}
	if o.contact == nil {
		o.contact = &contact{}
	}
	if o.memory == nil {
		o.memory = &memory{}
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes()
	}
	if o.MaxObjectBytes <= 0 {
		o.MaxObjectBytes = math.MaxInt64
	}
	s := &Store[T]{
		o:        o,
		only:     onlyName(o.FieldSelector),
		selects:  selectsOf(o.LabelSelector),
		objects:  table[T]{},
		indexes:  []*index[T]{newOwnerIndex[T]()},
		bad:      map[kube.Key]*kube.DecodeError{},
		shed:     map[string]*shed[T]{},
		shedNews: make(chan struct{}, 1),
	}
	s.account = &account{of: o.memory, most: o.MaxBytes, shed: s.shedNamespace, shares: map[string]*portion{}}
	for _, ns := range scopesOf(o) {
		s.scopes = append(s.scopes, newScope(ns))
	}
	return s
}

// Resource returns what the Store mirrors.
func (s *Store[T]) Resource() kube.Resource { return s.o.Resource }

// Labels returns the label selector of what the Store mirrors, "" for all.
func (s *Store[T]) Labels() string { return s.o.LabelSelector }

// Run keeps the mirror up to date until ctx ends. Several users may run it at the same time: the first one starts
// the Reflectors, the last one to leave stops them and waits for their goroutines. A mirror that was stopped is not
// synced, because its content may be old. It can be run again: handlers then hear of what changed meanwhile.
func (s *Store[T]) Run(ctx context.Context) {
	s.join(ctx)
	<-ctx.Done()
	s.leave()
}

// join starts the Reflectors for the first user.
func (s *Store[T]) join(ctx context.Context) {
	s.runMu.Lock()
	defer s.runMu.Unlock()
	s.users++
	if s.users > 1 {
		return
	}
	// The Reflectors outlive this user where another one joins.
	s.account.count(true)
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.start = func(sc *scope) { s.reflect(ctx, sc) }
	for _, sc := range s.scopes {
		s.start(sc)
	}
	s.reflectors.Go(func() { s.readmit(ctx) })
}

// reflect runs the Reflector of a scope until ctx ends, or sc.end is called.
func (s *Store[T]) reflect(ctx context.Context, sc *scope) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	sc.end = func() {
		stop()
		<-ended
	}
	s.reflectors.Go(func() {
		defer close(ended)
		defer stop()
		newReflector(s, sc).run(ctx)
	})
}

// leave stops the Reflectors after the last user.
func (s *Store[T]) leave() {
	s.runMu.Lock()
	defer s.runMu.Unlock()
	s.users--
	if s.users == 0 {
		s.stop()
		s.reflectors.Wait()
		s.start = nil
		s.account.count(false)
		for _, sc := range s.scopes {
			s.setSynced(sc, false)
		}
	}
}

// query is what the Reflector of a namespace, "" for all, lists and watches.
func (s *Store[T]) query(namespace string) kube.Query {
	return kube.Query{
		Resource:      s.o.Resource,
		Namespace:     namespace,
		LabelSelector: s.o.LabelSelector,
		FieldSelector: s.o.FieldSelector,
		Selects:       s.selects,
	}
}

// selectsOf returns what LabelSelector selects; nil for all, and for a selector that only the server can refuse.
func selectsOf(selector string) func(kube.Labels) bool {
	parsed, err := labels.Parse(selector)
	if err != nil || selector == "" {
		return nil
	}
	return parsed.Requirements().Match
}
