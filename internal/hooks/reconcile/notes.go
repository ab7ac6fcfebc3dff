package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"skiff/internal/runtime/kube"
)

const (
	// maxNotes bounds the parents of which something is noted.
	maxNotes = 1000
	// maxShownNotes is how many different notes Problems names.
	maxShownNotes = 3
	// maxNote bounds a note, which quotes fields and names.
	maxNote = 1000
)

// Notes are the problems of children of a hook controller that are no failure, for `skiff status`. All methods may be
// called from any goroutine; set and leave of nil do nothing.
type Notes struct {
	mu sync.Mutex // guards of
	of map[noteKey]string
}

// noteKey is a parent, and the topic of a note.
type noteKey struct {
	resource kube.Resource
	key      kube.Key
	about    topic
}

type topic int

const (
	aboutChildren topic = iota
	aboutFight
	aboutContest
)

// set replaces a note about a parent, "": no note, and reports whether the note has changed.
func (n *Notes) set(parent noteKey, text string) (changed bool) {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before, known := n.of[parent]
	switch text = kube.Printable(text, maxNote); {
	case text == "":
		delete(n.of, parent)
	case !known && len(n.of) >= maxNotes:
		return false
	case n.of == nil:
		n.of = map[noteKey]string{parent: text}
	default:
		n.of[parent] = text
	}
	return before != text
}

// leave forgets the parents of a namespace.
func (n *Notes) leave(resource kube.Resource, namespace string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(k noteKey, _ string) bool {
		return k.resource == resource && k.key.Namespace == namespace
	})
}

// Problems are the notes, those of many parents once.
func (n *Notes) Problems() (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	parents := map[string][]noteKey{}
	for k, text := range n.of {
		parents[text] = append(parents[text], k)
	}
	for _, text := range slices.Sorted(maps.Keys(parents)) {
		if len(out) == maxShownNotes {
			return append(out, fmt.Sprintf("and %d more", len(parents)-maxShownNotes))
		}
		first := slices.MinFunc(parents[text], func(a, b noteKey) int { return a.key.Compare(b.key) })
		of := first.resource.Kind + " " + first.key.String()
		if more := len(parents[text]) - 1; more > 0 {
			of += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, of+": "+text)
	}
	return out
}
