package redis

import (
	"sync"
	"time"

	"skiff/internal/apply"
	"skiff/internal/kube"
)

// memories holds what is remembered of each Redis between reconciles. All of it can be lost without harm.
type memories struct {
	mu sync.Mutex // guards of; what an entry points at belongs to the one reconcile of that Redis
	of map[kube.Key]*memory
}

// memory is what is remembered of one Redis.
type memory struct {
	uid      string
	released bool               // our finalizer is off: there is nothing to do any more
	accepted string             // the revision of which the server has said that it would take such a pod
	refused  apply.Refusal      // of a pod, by its revision: what is in it is the same for all of one
	pods     map[int]*podMemory // by ordinal; only where there is something to remember
}

// podMemory is what we know of one pod that the cache may not know yet.
type podMemory struct {
	answer apply.Answer[*pod] // to our POST, or to a live read
	// removed is the uid of a pod that is being deleted or gone, by the server's word. It can never be anything else again,
	// whatever an old copy shows. asked is when the server was last asked about it.
	removed string
	gone    bool
	asked   time.Time
	// foreign is whose pod is in the way, where the cache does not show it; it is looked for again at recheck.
	foreign string
	recheck time.Time
}

// get returns what is remembered of a Redis. One that was created anew begins with nothing.
func (m *memories) get(rd *Redis) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	mem := m.of[rd.Key()]
	if mem == nil || mem.uid != rd.UID {
		mem = &memory{uid: rd.UID, pods: map[int]*podMemory{}}
		m.of[rd.Key()] = mem
	}
	return mem
}

// forget drops what is remembered of a Redis that is gone, which bounds the memory to those that exist.
func (m *memories) forget(k kube.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, k)
}

// pod returns what is remembered of an ordinal, to be added to.
func (m *memory) pod(ordinal int) *podMemory {
	if m.pods[ordinal] == nil {
		m.pods[ordinal] = &podMemory{}
	}
	return m.pods[ordinal]
}

// tidy drops what has become useless: the cache has caught up.
func (m *memory) tidy() {
	for ordinal, p := range m.pods {
		if p.removed == "" && p.foreign == "" && p.answer.Remaining() == 0 {
			delete(m.pods, ordinal)
		}
	}
}
