package cache

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/kube"
)

// heavyPods are n pods of about 1 KB each as a mirror holds them.
func heavyPods(n int) (items, events []string) {
	for i := range n {
		item := strings.Replace(object(fmt.Sprintf("p%03d", i), fmt.Sprint(i+1), i), `"uid"`,
			fmt.Sprintf(`"labels":{"long":"%0900d"},"uid"`, i), 1)
		items, events = append(items, item), append(events, event("ADDED", item))
	}
	return items, events
}

func TestAServerThatHasMoreThanFitsInMemoryIsAnErrorAndNotTheEndOfTheProcess(t *testing.T) {
	items, events := heavyPods(200)
	for name, serve := range map[string]func(s *server){
		"streamed": func(s *server) { s.on(streamedList, frames(thenHold, append(events, endMark("500"))...)) },
		"paged":    func(s *server) { refuseStreams(s).on(pagedList, list("500", items...)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			serve(s)
			m := startMirror(t, s, Options{MaxBytes: 100 << 10})
			wait(time.Second)
			st := m.state()
			if st.Synced || st.Objects != 0 || !strings.Contains(st.Problem, "raise --mirror-memory-mib") ||
				!strings.Contains(st.Problem, "pods") {
				t.Errorf("%s: state %+v", name, st)
			}
			wait(time.Hour)
			if n := len(s.seen(streamedList, pagedList)); n > 20 {
				t.Errorf("%s: %d lists in an hour", name, n)
			}
			if n := m.logged("raise --mirror-memory-mib"); n != 1 {
				t.Errorf("%s: logged %d times", name, n)
			}
		})
	}
}

func TestAWatchThatBringsMoreThanFitsInMemoryIsEnded(t *testing.T) {
	_, events := heavyPods(300)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, append([]string{endMark("0")}, events...)...),
			frames(thenHold, events[0], endMark("500")))
		m := startMirror(t, s, Options{MaxBytes: 100 << 10})
		wait(time.Second)
		if st := m.state(); st.Objects < 50 || st.Objects > 150 ||
			!strings.Contains(st.Problem, "raise --mirror-memory-mib") {
			t.Errorf("state %+v, want about a hundred objects of 1 KB and the reason", st)
		}
		wait(2 * minTooLarge)
		if st := m.state(); st.Objects != 1 || st.Err != nil {
			t.Errorf("when there is less again: state %+v", st)
		}
	})
}

func TestMirrorsThatAreLargeTogetherAreAnErrorOfTheLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100 << 10
		var all memory
		mirrors := map[string]*mirror{}
		for _, m := range []struct {
			name string
			pods int
		}{{"first", 70}, {"second", 70}, {"small", 5}} {
			_, events := heavyPods(m.pods)
			again := append(events, endMark("600"))
			s := newServer(t).
				on(streamedList, frames(thenEnd, append(events, endMark("500"))...), frames(thenHold, again...)).
				on(watching, frames(thenEnd, errorEvent(410, "Expired")), frames(thenHold))
			mirrors[m.name] = startMirror(t, s, Options{MaxBytes: most, memory: &all})
			wait(minTooLarge / 2) // the first has been listed again by then
		}
		if st := mirrors["first"].state(); !st.Synced || st.Err != nil || st.Counters.Lists["expired"] != 1 {
			t.Errorf("the first: state %+v", st)
		}
		st := mirrors["second"].state()
		if st.Synced || !strings.Contains(st.Problem, "with those of other resources") {
			t.Errorf("the second: state %+v", st)
		}
		if st := mirrors["small"].state(); !st.Synced || st.Err != nil {
			t.Errorf("the small one: state %+v", st)
		}
		var sum int64
		for _, m := range mirrors {
			sum += m.Bytes()
		}
		if got := all.taken.Load(); got != sum {
			t.Errorf("%d bytes are counted, the mirrors take %d", got, sum)
		}
	})
}

func TestObjectsThatDoNotDecodeTakeMemoryToo(t *testing.T) {
	var items, events []string
	for i := range 2_000 {
		items = append(items, object(fmt.Sprint("p", i), fmt.Sprint(i+1), `"x"`))
		events = append(events, event("ADDED", items[i]))
	}
	for name, serve := range map[string]func(s *server){
		"streamed": func(s *server) { s.on(streamedList, frames(thenHold, append(events, endMark("5000"))...)) },
		"paged":    func(s *server) { refuseStreams(s).on(pagedList, list("5000", items...)) },
		"watched": func(s *server) {
			s.on(streamedList, frames(thenHold, append([]string{endMark("0")}, events...)...), frames(thenHold))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			serve(s)
			m := startMirror(t, s, Options{MaxBytes: 100 << 10})
			wait(time.Second)
			if st := m.state(); !strings.Contains(st.Problem, "raise --mirror-memory-mib") || st.Quarantined > 500 {
				t.Errorf("%s: %d in quarantine, %s", name, st.Quarantined, st.Problem)
			}
		})
	}
}

func TestTheSizeOfAnObjectIsAboutWhatItTakes(t *testing.T) {
	inOneTurn(t, "no server is in it")
	const n = 2000
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s, sc := filled()
	s.bytes = 0
	for i := range n {
		p := makePod("default", fmt.Sprintf("pod-%05d", i), i+3, fmt.Sprintf("owner-%d", i))
		p.Labels = kube.Labels{{Key: "app", Value: strings.Repeat("x", i%100)}}
		s.put(sc, p, p.ResourceVersion)
	}
	took, said := heap()-before, s.Bytes()
	if !mutationsAreChecked && (said < took/2 || said > 2*took) {
		t.Errorf("%d bytes are said to be taken, the heap grew by %d", said, took)
	}
	for i := range n {
		s.remove(sc, kube.Key{Namespace: "default", Name: fmt.Sprintf("pod-%05d", i)}, "9999",
			Change[*pod]{Type: Gone})
	}
	if left := s.Bytes(); left != 0 {
		t.Errorf("%d bytes are left of an empty mirror", left)
	}
	runtime.KeepAlive(s)
}

func BenchmarkSizeOf(b *testing.B) {
	p := makePod("default", "a", 1, "u")
	b.ReportAllocs()
	for b.Loop() {
		sizeOf(p)
	}
}
