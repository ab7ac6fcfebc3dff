package call

import (
	"context"
	"fmt"
	"runtime"

	"skiff/internal/runtime/controller"
)

const (
	// smallAnswer is how much of an answer is read without asking for room. Few answers are as long.
	smallAnswer = 1 << 20
	// shareForAnswers is the part of the memory limit that a reconcile may take for answers: garbage takes as much
	// again, and the rest of the process needs room, too.
	shareForAnswers = 3
	// muchGarbage is from how many bytes on the garbage of a reconcile is collected before the room is given back: on
	// a busy machine the garbage would still be there when the next reconcile takes as much. A collection takes less
	// time than such an answer.
	muchGarbage = 8 << 20
)

// Memory bounds the memory of all answers of hooks that a process reads, decodes or applies at a time. Namespaces take
// turns: the large answers of a namespace wait for each other.
type Memory struct {
	inFlight *controller.InFlight
	most     int64 // for a reconcile
}

// NewMemory returns the Memory of a process that may take limit bytes.
func NewMemory(limit int64) *Memory {
	return &Memory{inFlight: controller.NewInFlight(limit), most: limit / shareForAnswers}
}

// Room is the memory of a reconcile's answers, used by the goroutine of the reconcile alone. A nil Room is unlimited.
type Room struct {
	memory    *Memory
	namespace string
	held      int64 // of memory
	taken     int64 // of held, by the answers so far
}

// Room returns the room for a reconcile in a namespace, with the bytes of the reconcile before: a reconcile waits
// before the call of a hook, and not after. The error is a *Later.
func (m *Memory) Room(namespace string, before int64) (*Room, error) {
	if m == nil {
		return nil, nil
	}
	r := &Room{memory: m, namespace: namespace}
	err := r.hold(min(before, m.most))
	return r, err
}

// hold has the room hold so many bytes, and gives back the bytes from before first: two rooms that keep some and wait
// for more would wait for each other.
func (r *Room) hold(bytes int64) error {
	r.giveBack()
	if wait := r.memory.inFlight.Begin(r.namespace, bytes); wait > 0 {
		return &Later{After: wait, Why: "large answers of hooks wait for memory"}
	}
	r.held = bytes
	return nil
}

// Take takes bytes for an answer. The error is a *Later, or the bytes are more than a room can ever have.
func (r *Room) Take(bytes int64) error {
	if r == nil {
		return nil
	}
	r.taken += bytes
	switch {
	case r.taken > r.memory.most:
		return fmt.Errorf("it would take %d MiB of memory, and skiff may take %d MiB for it: make it "+
			"smaller, or raise the memory limit of skiff", r.taken>>20, r.memory.most>>20)
	case r.taken > r.held:
		return r.hold(r.taken)
	}
	return nil
}

// Give frees bytes that an answer did not need, for further answers. The room holds the bytes until Leave.
func (r *Room) Give(bytes int64) {
	if r != nil {
		r.taken -= bytes
	}
}

// Taken is how much the answers take, or would take where there was no room.
func (r *Room) Taken() int64 {
	if r == nil {
		return 0
	}
	return r.taken
}

// Leave gives all bytes back. The answers must not be used any more.
func (r *Room) Leave() {
	if r == nil {
		return
	}
	if r.held >= muchGarbage {
		runtime.GC()
	}
	r.giveBack()
}

func (r *Room) giveBack() {
	r.memory.inFlight.End(r.namespace, r.held)
	r.held = 0
}

type roomKey struct{}

// WithRoom has the calls of a ctx read their answers into a room.
func (r *Room) WithRoom(ctx context.Context) context.Context {
	return context.WithValue(ctx, roomKey{}, r)
}

// RoomOf returns the room of a ctx.
func RoomOf(ctx context.Context) *Room {
	r, _ := ctx.Value(roomKey{}).(*Room)
	return r
}
