package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// model is the queue said in the plainest way: no order is kept, everything is searched for.
type model struct {
	keys      map[kube.Key]*modelKey
	seq       int // orders what happens
	overtakes int
	stopped   bool
	turns     [2][]string // the namespaces with waiting keys, by lane, in the order of their turns
}

type modelKey struct {
	namespace         string
	dirty, processing bool
	waiting           bool // in its lane, since seq
	delayed, parked   bool
	ran               []string // the causes of the run
	seq               int      // when it joined its lane
	delaySeq          int
	due               time.Time
	lane, runLane     lane
	causes            map[string]bool
}

func (m *model) want(k kube.Key, cause string, due time.Time, l lane) {
	if m.stopped {
		return
	}
	e := m.keys[k]
	if e == nil {
		e = &modelKey{}
		m.keys[k] = e
	}
	if !e.dirty {
		e.dirty, e.due, e.lane, e.causes = true, due, l, map[string]bool{}
	}
	e.causes[cause] = true
	if due.Before(e.due) {
		e.due = due
	}
	if l > e.lane {
		e.lane = l
		if e.waiting { // leaves the low lane, joins the high one below
			e.waiting = false
			m.left(low, k.Namespace)
		}
	}
	m.settle()
}

// settle lets every due key that is not processing join its lane.
func (m *model) settle() {
	now := time.Now()
	var joining []*modelKey
	for k, e := range m.keys {
		e.namespace = k.Namespace
		if !e.dirty || e.processing || e.waiting || e.parked {
			continue
		}
		if e.due.After(now) {
			if !e.delayed {
				m.seq++
				e.delayed, e.delaySeq = true, m.seq
			}
			continue
		}
		joining = append(joining, e)
	}
	slices.SortFunc(joining, func(a, b *modelKey) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		return a.delaySeq - b.delaySeq
	})
	for _, e := range joining {
		m.seq++
		e.waiting, e.delayed, e.seq = true, false, m.seq
		if !slices.Contains(m.turns[e.lane], e.namespace) {
			m.turns[e.lane] = append(m.turns[e.lane], e.namespace)
		}
	}
}

// left ends the turns of a namespace that has no waiting key in a lane any more.
func (m *model) left(l lane, namespace string) {
	for k, e := range m.keys {
		if e.waiting && e.lane == l && k.Namespace == namespace {
			return
		}
	}
	m.turns[l] = slices.DeleteFunc(m.turns[l], func(n string) bool { return n == namespace })
}

func (m *model) first(l lane) (first kube.Key, ok bool) {
	if len(m.turns[l]) == 0 {
		return first, false
	}
	for k, e := range m.keys {
		if e.waiting && e.lane == l && k.Namespace == m.turns[l][0] && (!ok || e.seq < m.keys[first].seq) {
			first, ok = k, true
		}
	}
	return first, ok
}

func (m *model) get() (kube.Key, bool) {
	h, anyHigh := m.first(high)
	l, anyLow := m.first(low)
	k, ok := h, anyHigh
	switch {
	case !anyLow:
		m.overtakes = 0
	case !anyHigh || m.overtakes == maxOvertakes:
		k, ok, m.overtakes = l, true, 0
	default:
		m.overtakes++
	}
	if ok {
		e := m.keys[k]
		e.dirty, e.waiting, e.processing, e.runLane = false, false, true, e.lane
		turns := append(m.turns[e.lane][1:], k.Namespace)
		m.turns[e.lane] = turns
		m.left(e.lane, k.Namespace)
	}
	return k, ok
}

func (m *model) ownLane(k kube.Key) lane {
	if e := m.keys[k]; e != nil && e.processing {
		return e.runLane
	}
	return high
}

func (m *model) park(k kube.Key) {
	e := m.keys[k]
	e.parked = true
	for _, cause := range e.ran {
		m.want(k, cause, time.Now(), e.runLane)
	}
}

func (m *model) release(namespace string) {
	for _, k := range slices.SortedFunc(maps.Keys(m.keys), kube.Key.Compare) {
		if e := m.keys[k]; e.parked && k.Namespace == namespace {
			e.parked, e.due = false, time.Now()
			m.settle()
		}
	}
}

func (m *model) done(k kube.Key) {
	if e := m.keys[k]; e != nil {
		e.processing = false
		m.settle()
	}
}

// FuzzQueueAgainstModel runs random operations on a queue and on the model and compares every answer: keys,
// order, causes, waiting times.
//
// Rules: WQ-01, WQ-02, WQ-03, WQ-05, WQ-10, WQ-11, WQ-12, WQ-13, WQ-14, WQ-17
func FuzzQueueAgainstModel(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2)) // a fixed seed: the corpus is the same in each run
	for range 60 {
		ops := make([]byte, 600)
		for i := range ops {
			ops[i] = byte(random.Uint32())
		}
		f.Add(ops)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) { playAgainstModel(t, ops) })
	})
}

// namespaces have 6, 3 and 3 of the keys.
var namespaces = [...]string{"one", "two", "three"}

func playAgainstModel(t *testing.T, ops []byte) {
	q := New(0)
	defer q.ShutDown()
	m := &model{keys: map[kube.Key]*modelKey{}}
	for i := 0; i+1 < len(ops); i += 2 {
		op, arg := ops[i], ops[i+1]
		k := kube.Key{Namespace: namespaces[int(arg%12)/3%3], Name: string('a' + rune(arg%12))}
		d := time.Duration(arg/12) * time.Millisecond
		cause := fmt.Sprint("cause ", arg%5)
		switch op % 16 {
		case 0, 1:
			q.Add(k, cause)
			m.want(k, cause, time.Now(), high)
		case 2, 3, 4:
			q.AddLow(k, cause)
			m.want(k, cause, time.Now(), low)
		case 5, 6:
			q.AddAfter(k, d, cause)
			m.want(k, cause, time.Now().Add(d), m.ownLane(k))
		case 7:
			if e := m.keys[k]; e != nil && e.processing && !e.parked && !m.stopped {
				q.Park(Item{Key: k, Causes: e.ran}, k.Namespace)
				m.park(k)
			}
		case 8, 9, 10, 11:
			compareGet(t, q, m)
		case 14:
			q.Release(k.Namespace)
			m.release(k.Namespace)
		case 12, 13:
			q.Done(k)
			m.done(k)
		case 15:
			if arg == 255 && i > len(ops)/2 {
				q.ShutDown()
				m.shutDown()
			}
			time.Sleep(d)
			synctest.Wait()
			m.settle()
		}
		compareState(t, q, m)
	}
}

func (m *model) shutDown() {
	m.stopped, m.turns = true, [2][]string{}
	for _, e := range m.keys {
		e.dirty, e.waiting, e.parked = false, false, false
	}
}

func compareGet(t *testing.T, q *Queue, m *model) {
	t.Helper()
	item, ok, stopped := q.take()
	want, wantOK := m.get()
	if ok != wantOK || item.Key != want || stopped && !m.stopped {
		t.Fatalf("got %v %v, want %v %v", item.Key, ok, want, wantOK)
	}
	if !ok {
		return
	}
	e := m.keys[want]
	if len(item.Causes) != len(e.causes) || item.More != 0 {
		t.Fatalf("%v: causes %q, want %v", want, item.Causes, e.causes)
	}
	e.ran = item.Causes
	for _, c := range item.Causes {
		if !e.causes[c] {
			t.Fatalf("%v: cause %q, want one of %v", want, c, e.causes)
		}
	}
	if waited := time.Since(e.due); item.Waited != waited {
		t.Fatalf("%v: waited %v, want %v", want, item.Waited, waited)
	}
}

func compareState(t *testing.T, q *Queue, m *model) {
	t.Helper()
	var waiting, delayed, kept int
	var processing []kube.Key
	for k, e := range m.keys {
		if e.waiting {
			waiting++
		}
		if e.dirty && !e.waiting && !e.processing && !e.parked {
			delayed++
		}
		if e.processing {
			processing = append(processing, k)
		}
		if e.dirty || e.processing {
			kept++
		}
	}
	slices.SortFunc(processing, kube.Key.Compare)
	if q.Len() != waiting || len(q.delayed) != delayed || len(q.entries) != kept ||
		!slices.Equal(q.Processing(), processing) {
		t.Fatalf("%d waiting, %d delayed, %d kept, %v processing; want %d, %d, %d, %v",
			q.Len(), len(q.delayed), len(q.entries), q.Processing(), waiting, delayed, kept, processing)
	}
}
