package kube

import (
	"hash/maphash"
	"sync/atomic"
)

// internSlots is the size of the table of recent strings: labels, owners, phases and nodes of a busy cluster
// repeat within a few thousand different ones. A table of 4,096 pointers is 32 KiB.
const internSlots = 4096

// internMax is the longest string that is shared. Label keys and values are at most 63 bytes plus a prefix;
// longer strings (annotations) are rarely equal and not worth the hash.
const internMax = 128

// intern shares equal strings between objects. It is a table of what was seen last, with two places for each hash: a
// lost entry costs a copy, never a wrong answer, and the table never grows. Package unique forgets a string when
// garbage is collected, unless its handle is kept, which is no string: with it, BenchmarkHeapPerPod has 1,270 bytes in
// place of 533, and BenchmarkWatchEvents 50 allocations in place of 7.
type intern struct {
	seed  maphash.Seed
	slots [internSlots]atomic.Pointer[string]
}

// interned is one per process: the same labels come over many streams.
var interned = &intern{seed: maphash.MakeSeed()}

// of returns a string equal to b, shared with an earlier equal one where the table still has it.
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
