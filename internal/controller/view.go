package controller

import (
	"skiff/internal/cache"
	"skiff/internal/kube"
)

// This file shows how a controller is doing, for metrics and debug pages. Ready and Status are for probes.

// WatchState is the state of one scope of a mirror that controllers have.
type WatchState struct {
	Resource kube.Resource
	Labels   string // the label selector, "" for all
	Bytes    int64  // memory of the whole mirror, about; 0 but for its first scope
	cache.ScopeState
}

// WatchStates returns the scopes of all mirrors of some controllers, a mirror that several share once.
func WatchStates(cs ...*Controller) []WatchState {
	var out []WatchState
	seen := map[mirror]bool{}
	for _, c := range cs {
		for _, m := range c.mirrors {
			if seen[m] {
				continue
			}
			seen[m] = true
			bytes := m.Bytes()
			for _, s := range m.State() {
				out = append(out, WatchState{m.Resource(), m.Labels(), bytes, s})
				bytes = 0
			}
		}
	}
	return out
}

// Part is what a controller works on as a whole: one namespace, or everything.
type Part struct {
	Namespace string // "": all
	Working   bool
	Missing   map[string]bool // what keeps it from working, of MissingReasons
	Problem   string          // the same in words, with the next step; "" if nothing does
}

// The keys of Part.Missing: a right (403), a resource (404), and a list or the server in another way.
const (
	MissingRight    = "forbidden"
	MissingResource = "not_found"
	MissingContent  = "not_synced"
)

// MissingReasons are all of these.
var MissingReasons = []string{MissingRight, MissingResource, MissingContent}

// Parts returns what the controller works on, and what keeps it from that.
func (c *Controller) Parts() []Part {
	var out []Part
	for _, one := range c.parts.all {
		p := Part{Namespace: one.namespace, Working: c.parts.works(one.namespace), Problem: c.problemOf(one),
			Missing: map[string]bool{}}
		for _, m := range c.mirrors {
			for _, s := range m.State() {
				switch ours := s.Namespace == "" || s.Namespace == one.namespace; {
				case !ours, s.Synced && !s.Parked:
				case kube.IsForbidden(s.Err):
					p.Missing[MissingRight] = true
				case kube.IsNotFound(s.Err):
					p.Missing[MissingResource] = true
				default:
					p.Missing[MissingContent] = true
				}
			}
		}
		out = append(out, p)
	}
	return out
}
