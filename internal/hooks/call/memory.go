package call

import (
	"context"
	"fmt"
	"runtime"

	"skiff/internal/runtime/controller"
)

const (
	// smallAnswer is what is read of an answer without asking for room. Few are as long.
	smallAnswer = 1 << 20
	// shareForAnswers is the part of the memory limit that a reconcile may take for answers: garbage takes as much
	// again, and the rest of the process needs room beside it.
	shareForAnswers = 3
	// muchGarbage is from how many bytes on the garbage of a reconcile is collected before others get its room: on a
	// busy machine it would still be there when the next one takes as much. A collection takes less than such an
	// answer.
	muchGarbage = 8 << 20
)

// Memory bounds what the answers of all hooks of a process take at a time, while they are read, decoded and applied.
// Namespaces take turns: the large answers of one wait for each other.
type Memory struct {
	inFlight *controller.InFlight
	most     int64 // that one reconcile may take
}

// NewMemory returns the Memory of a process that may take limit bytes.
func NewMemory(limit int64) *Memory {
	return &Memory{inFlight: controller.NewInFlight(limit), most: limit / shareForAnswers}
}

// Room is what the answers of one reconcile take. It belongs to the goroutine of that; nil has room for all.
type Room struct {
	memory    *Memory
	namespace string
	held      int64 // of memory
	taken     int64 // of held, by the answers so far
}

// Room returns the room for a reconcile in a namespace that took this many bytes before: it waits before it calls a
// hook, and not after. The error is a *Later.
func (m *Memory) Room(namespace string, before int64) (*Room, error) {
	if m == nil {
		return nil, nil
	}
	r := &Room{memory: m, namespace: namespace}
	err := r.hold(min(before, m.most))
	return r, err
}

// hold has the room hold this many bytes. What it held before is given back first: two that wait for more and hold on
// to what they have would wait for each other.
func (r *Room) hold(bytes int64) error {
	r.giveBack()
	if wait := r.memory.inFlight.Begin(r.namespace, bytes); wait > 0 {
		return &Later{After: wait, Why: "large answers of hooks wait for memory"}
	}
	r.held = bytes
	return nil
}

// Take takes bytes for an answer. The error is a *Later, or says that they are more than there can ever be.
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

// Give says that an answer takes fewer bytes than were taken for it. They stay the room's until it is left.
func (r *Room) Give(bytes int64) {
	if r != nil {
		r.taken -= bytes
	}
}

// Taken is what the answers take, or would take where there was no room.
func (r *Room) Taken() int64 {
	if r == nil {
		return 0
	}
	return r.taken
}

// Leave gives all back. What was read into the room must not be used any more.
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
