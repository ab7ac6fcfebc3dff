package controller

import (
	"slices"
	"strings"
	"sync"

	"skiff/internal/runtime/queue"
)

const (
	// maxCauses bounds the sorts of causes that are counted by themselves: each is a time series.
	maxCauses = 64
	// otherCause stands for the causes that operators give by themselves: these may name objects.
	otherCause = "other"
)

// sort is a cause without the name of an object: "Deployment" and "MODIFIED", or "initial list" and "".
type sort struct{ what, change string }

// causes count runs by the sorts of their causes.
type causes struct {
	mu sync.Mutex // guards of
	of map[sort]uint64
}

func (c *causes) count(item queue.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range item.Causes {
		s := sortOf(text)
		n, known := c.of[s]
		switch {
		case known:
		case c.of == nil:
			c.of = map[sort]uint64{}
		case len(c.of) >= maxCauses:
			s = sort{what: otherCause}
			n = c.of[s]
		}
		if !known {
			s.what = strings.Clone(s.what) // not to keep the whole text of the first one
		}
		c.of[s] = n + 1
	}
}

// all returns the counts by what a label can say: "Deployment MODIFIED".
func (c *causes) all() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]uint64, len(c.of))
	for s, n := range c.of {
		out[strings.TrimSpace(s.what+" "+s.change)] = n
	}
	return out
}

// ownCauses are the causes that this package gives.
var ownCauses = []string{initialList, startCause, recheckCause, retryCause, refusedCause, manyErrorsCause, worksCause,
	cutCause, unseenCause, seenCause}

// changes are the ends of a cause that is the change of an object; see add.
var changes = []string{"ADDED", "MODIFIED", "DELETED"}

func sortOf(text string) sort {
	if i := strings.LastIndexByte(text, ' '); i > 0 {
		if at := slices.Index(changes, text[i+1:]); at >= 0 {
			kind, _, _ := strings.Cut(text, " ")
			return sort{kind, changes[at]}
		}
	}
	if at := slices.Index(ownCauses, text); at >= 0 {
		return sort{what: ownCauses[at]}
	}
	return sort{what: otherCause}
}
