// Package cache keeps a copy of one resource of the server in memory (a mirror) and reports its changes.
//
// A Store is the read side: a map and indexes under one mutex, holding only the fields that the declared struct
// names. A Reflector is the only writer of a part of a Store: it lists, watches, resumes, detects missed changes, and
// never replaces a version by an older version. A read of an incomplete mirror, or outside the options of the mirror,
// is an error, never a silent "not found".
//
// Package kube talks HTTP, package controller decides what to do about a change; package cache does neither, and
// never writes to the server. Mirrors of two resources are not consistent with each other: each has a resource
// version of its own.
//
// Controllers that want the same objects in the same form share one Store, which Mirrors finds.
//
// Each scope (one namespace, or all) has one goroutine, which runs the Reflector and calls the OnChange handlers;
// Store.Run owns and waits for the goroutines. Readers come from any goroutine. On the way of an event stand
// (*Reflector).stream and handle, which take the event off the stream, and (*Store).put, which makes it visible.
package cache

import (
	"math"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// Options describe a mirror.
type Options struct {
	Resource kube.Resource
	// Namespaces limits the mirror. Empty: all. Several: a Reflector each, which need no right on any other
	// namespace. A cluster-scoped resource is always mirrored whole.
	Namespaces []string
	// Selected says that Mirrors.Select names the namespaces instead, which come and go.
	Selected bool
	// LabelSelector and FieldSelector narrow the mirror on the server. Readers do not see the objects left out, and
	// an object whose labels change so that the selector no longer matches comes as Gone although the object still
	// exists.
	LabelSelector, FieldSelector string

	Client *kube.Client
	Log    logr.Logger

	// WatchIdleTimeout ends a watch on which nothing has arrived, not even a bookmark, for so long. 0: a little
	// longer than the lifetime asked of the server, which works without bookmarks (servers do not promise any).
	WatchIdleTimeout time.Duration
	// MaxBytes is how much memory the objects may take, about. Where there is more, the largest namespace is shed:
	// reads about the objects are not served until they fit. 0: a third of the process's memory limit.
	MaxBytes int64
	// MaxObjectBytes is how much memory an object may take, about. A larger object is shed alone. 0: any.
	MaxObjectBytes int64
	// QuietParking says that the owner of the mirror logs a missing right or resource, with the help of State: a
	// missing grant may concern several mirrors.
	QuietParking bool
	// Optional says that the server need not serve the resource, nor allow it: the mirror is empty meanwhile, and asks
	// again about once a minute. A refusal is shown where the server does serve the resource.
	Optional bool
	Advice   Advice

	// lists, contact and memory serve all mirrors of a process; nil: a single mirror.
	lists   *limiter
	contact *contact
	memory  *memory
}

// Advice is the end of a message: the next step for a user of the program; "" adds nothing.
type Advice struct {
	ObjectBytes string // an object is larger than allowed: "raise ..."
	MirrorBytes string // a namespace takes more than there is: "raise ..."
	Server      string // the API server has never answered
}

// New returns an empty Store. Nothing is sent before Run.
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

// selectsOf returns the match of LabelSelector; nil for all, and for a selector only the server can refuse.
func selectsOf(selector string) func(kube.Labels) bool {
	parsed, err := labels.Parse(selector)
	if err != nil || selector == "" {
		return nil
	}
	return parsed.Requirements().Match
}
