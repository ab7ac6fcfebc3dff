package kube

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// internSlots is the size of the table of recent strings: labels, owners, phases and nodes of a busy cluster
// repeat within a few thousand different ones. A table of 4,096 pointers is 32 KiB.
const internSlots = 4096

// internMax is the longest shared string. Label keys and values are at most 63 bytes plus a prefix; longer strings
// (annotations) are rarely equal and not worth the hash.
const internMax = 128

// intern shares equal strings between objects. The table holds recent strings, two for each hash: a lost entry costs a
// copy, never a wrong answer, and the table never grows. Package unique forgets a string at garbage collection, unless
// its handle is kept, which is no string: with unique, a pod of BenchmarkDecodePods keeps 1,270 bytes in place of 533,
// and BenchmarkWatchEvents has 50 allocations in place of 7.
type intern struct {
	seed  maphash.Seed
	slots [internSlots]atomic.Pointer[string]
}

// interned is one per process: the same labels come over many streams.
var interned = &intern{seed: maphash.MakeSeed()}

// of returns a string equal to b, shared with an earlier equal string if still in the table.
func (t *intern) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > internMax {
		return string(b)
	}
	at := maphash.Bytes(t.seed, b) % internSlots
	last := t.slots[at].Load()
	if last != nil && *last == string(b) {
		return *last
	}
	if p := t.slots[at^1].Load(); p != nil && *p == string(b) {
		return *p
	}
	s := string(b)
	t.slots[at^1].Store(last)
	t.slots[at].Store(&s)
	return s
}

// Pods of a Deployment have equal labels and the same owner, adjacent in a list and repeated in each change: a third
// of the memory of such a pod in a mirror.
var (
	sharedLabels = sharing[Label]{seed: maphash.MakeSeed()}
	sharedOwners = sharing[OwnerReference]{seed: maphash.MakeSeed()}
)

// sharedSlots is the size of a table: 8 KiB of pointers.
const sharedSlots = 1024

// sharedMax bounds the elements of a shared slice, and sharedMaxText their texts, and so the memory held by the table.
const (
	sharedMax     = 16
	sharedMaxText = 2 << 10
)

// sharing shares equal slices, like intern for strings.
type sharing[E interface {
	comparable
	textLen() int
}] struct {
	seed  maphash.Seed
	slots [sharedSlots]atomic.Pointer[[]E]
}

// of returns a slice equal to s, shared with an earlier slice if still in the table, else a copy of the exact size.
// The result must not be changed.
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
