package controller

import (
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

// part is the unit in which a controller starts and stops to work: one namespace, or everything.
type part struct {
	namespace string    // "": all namespaces, or the cluster-scoped objects beside parts with a namespace
	logged    string    // the last problem logged, "" if none; of watchParts alone
	closed    time.Time // time of the end of the work; of watchParts alone

	stage stage
}

// stage is how a controller treats the keys of a part. watchParts alone changes the stage, except that a worker mutes.
type stage struct {
	doing doing
	since time.Time
	why   string // what the status of the objects says while they are not seen
}

type doing int

const (
	waiting   doing = iota // parks them until all mirrors serve the part
	working                // runs the Func
	reporting              // has not seen the part for long: runs the unseenFunc
	muted                  // may not write the status either: drops them
	left                   // no longer selected: drops the keys and their memories
)

// parts are all parts of a controller. A controller without mirrors has none, and works at once.
type parts struct {
	selected bool // namespaces come and go; does not change after New

	mu  sync.Mutex       // guards the rest, and stage of all
	all []*part          // sorted by namespace; the slice is replaced, never changed
	by  map[string]*part // the same by namespace
}

// follow makes a part of each namespace that a mirror follows alone, and drops the parts of namespaces no longer
// followed.
func (p *parts) follow(mirrors []mirror) (gone []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := map[string]*part{}
	var all []*part
	for _, m := range mirrors {
		namespaces := m.Namespaces()
		if len(namespaces) == 0 && !m.Selected() {
			namespaces = []string{""}
		}
		for _, ns := range namespaces {
			if by[ns] != nil {
				continue
			}
			if by[ns] = p.by[ns]; by[ns] == nil {
				by[ns] = &part{namespace: ns, closed: time.Now()}
			}
			all = append(all, by[ns])
		}
		if m.Selected() && !p.selected {
			p.selected = true // in New alone
		}
	}
	for _, one := range p.all {
		if by[one.namespace] == nil {
			gone = append(gone, one.namespace)
		}
	}
	slices.SortFunc(all, func(a, b *part) int { return strings.Compare(a.namespace, b.namespace) })
	p.all, p.by = all, by
	return gone
}

func (p *parts) list() []*part {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// partLocked returns the part of a key, nil for a key outside of the watched namespaces.
func (p *parts) partLocked(k kube.Key) *part {
	if one := p.by[k.Namespace]; one != nil || len(p.all) > 1 || p.selected {
		return one
	}
	return p.by[""]
}

// admit says how to treat a key, and why if the object is not seen. While the part of the key is waiting, admit parks
// the key: under mu, so that no Release comes between.
func (p *parts) admit(item queue.Item, q *queue.Queue) (doing, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.partLocked(item.Key)
	if one == nil && p.selected {
		return left, ""
	} else if one == nil {
		return working, ""
	}
	if one.stage.doing == waiting {
		q.Park(item, one.namespace)
	}
	return one.stage.doing, one.stage.why
}

// works reports whether a namespace is worked on.
func (p *parts) works(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.partLocked(kube.Key{Namespace: namespace})
	return one != nil && one.stage.doing == working
}

func (p *parts) stage(one *part) stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return one.stage
}

// setStage changes what is done with the keys of a part. The caller releases the parked keys, unless to is waiting.
func (p *parts) setStage(one *part, to doing, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if one.stage.doing == working {
		one.closed = now
	}
	one.stage = stage{to, now, why}
}

// left reports whether a namespace is no longer selected.
func (p *parts) left(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.selected && p.by[namespace] == nil
}

const (
	// unseenAfter is how long a part may be without a right or a resource before the status of its objects says so:
	// longer than a starting API server refuses requests by mistake.
	unseenAfter = 2 * time.Minute
	// muteTime is how long no status is written after an answer 403 to such a write. A grant ends the time earlier if
	// the part can be watched again.
	muteTime = 5 * time.Minute

	unseenCause = "its state is not known"
	seenCause   = "watched again"
)

// mute stops reporting in the part of a key, and reports whether it had not been stopped.
func (p *parts) mute(k kube.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.partLocked(k)
	if one == nil || one.stage.doing != reporting {
		return false
	}
	one.stage = stage{muted, time.Now(), one.stage.why}
	return true
}
