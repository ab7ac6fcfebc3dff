package kube

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// The pods of a Deployment have the same labels and the same owner: those of one list follow each other, and each
// change brings them again. Of such a pod they are a third of what a mirror keeps.
var (
	sharedLabels = sharing[Label]{seed: maphash.MakeSeed()}
	sharedOwners = sharing[OwnerReference]{seed: maphash.MakeSeed()}
)

// sharedSlots is the size of a table: 8 KiB of pointers.
const sharedSlots = 1024

// sharedMax is how many elements a slice may have that is shared, and how long their texts may be together: what the
// table keeps alive is bounded.
const (
	sharedMax     = 16
	sharedMaxText = 2 << 10
)

// sharing lets equal slices be one, as intern does for strings, by a table of what was seen last.
type sharing[E interface {
	comparable
	textLen() int
}] struct {
	seed  maphash.Seed
	slots [sharedSlots]atomic.Pointer[[]E]
}

// of returns a slice equal to s, shared with an earlier one where the table still has that, else a copy of the exact
// size. The result must not be changed.
func (t *sharing[E]) of(s []E) []E {
	if len(s) == 0 {
		return nil
	}
	var hash uint64
	text := 0
	for _, e := range s {
		text += e.textLen()
		hash = hash*31 + maphash.Comparable(t.seed, e)
	}
	at := hash % sharedSlots
	last := t.slots[at].Load()
	if last != nil && slices.Equal(*last, s) {
		return *last
	}
	if p := t.slots[at^1].Load(); p != nil && slices.Equal(*p, s) {
		return *p
	}
	exact := append(make([]E, 0, len(s)), s...)
	if len(s) <= sharedMax && text <= sharedMaxText {
		t.slots[at^1].Store(last)
		t.slots[at].Store(&exact)
	}
	return exact
}

func (l Label) textLen() int { return len(l.Key) + len(l.Value) }

func (o OwnerReference) textLen() int {
	return len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID)
}
