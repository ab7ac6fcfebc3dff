package cache

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"weak"

	"skiff/internal/runtime/kube"
)

// otherPod is the same resource in another form.
type otherPod struct {
	kube.Meta `json:"metadata"`
}

// Rules: RFL-13
func TestControllersThatWantTheSameShareOneMirror(t *testing.T) {
	client := new(kube.Client)
	m := NewMirrors()
	o := Options{Resource: pods, Client: client, Namespaces: []string{"a", "b"}, LabelSelector: "app=web"}
	first := Shared[*pod](m, o)
	same := o
	same.Namespaces = []string{"b", "a", "b"}
	if Shared[*pod](m, same) != first {
		t.Error("the same objects in the same form gave another mirror")
	}
	if first.o.lists != Shared[*pod](m, Options{Resource: pods, Client: client}).o.lists {
		t.Error("two mirrors do not share the bound on lists in flight")
	}
	for name, change := range map[string]func(o *Options){
		"namespaces": func(o *Options) { o.Namespaces = []string{"a"} },
		"labels":     func(o *Options) { o.LabelSelector = "app=db" },
		"fields":     func(o *Options) { o.FieldSelector = "metadata.name=a" },
		"resource":   func(o *Options) { o.Resource.Version = "v2" },
	} {
		o := o
		change(&o)
		if Shared[*pod](m, o) == first {
			t.Errorf("other %s gave the same mirror", name)
		}
	}
	if any(Shared[*otherPod](m, o)) == any(first) {
		t.Error("another form gave the same mirror")
	}
	one, other := Shared[*pod](nil, o), Shared[*pod](nil, o)
	if one == other {
		t.Error("without a registry a mirror was shared")
	}
}

func TestARegistryKeepsNoMirrorThatNobodyHas(t *testing.T) {
	m := NewMirrors()
	w := weak.Make(Shared[*pod](m, Options{Resource: pods, LabelSelector: "app=gone"}))
	for range 10 {
		runtime.GC()
	}
	if w.Value() != nil {
		t.Error("the mirror is still there")
	}
	Shared[*pod](m, Options{Resource: pods})
	if len(m.stores) != 1 {
		t.Errorf("%d entries, want only the new one", len(m.stores))
	}
}

// users runs a store for several users.
type users struct {
	t     *testing.T
	store *Store[*pod]
}

func (u users) join() (leave func()) {
	ctx, cancel := context.WithCancel(u.t.Context())
	var running sync.WaitGroup
	running.Go(func() { u.store.Run(ctx) })
	leave = func() {
		cancel()
		running.Wait()
	}
	u.t.Cleanup(leave)
	synctest.Wait()
	return leave
}

func TestASharedMirrorRunsFromItsFirstUserToItsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		u := users{t, New[*pod](Options{Resource: pods, Client: s.client})}
		if len(s.seen()) != 0 {
			t.Error("a request before the first user")
		}
		leaveFirst := u.join()
		live.send(added("a", "5", 1), endMark("20"))
		leaveSecond := u.join()
		leaveFirst()
		live.send(added("b", "21", 1))
		if all, err := u.store.List(""); err != nil || len(all) != 2 {
			t.Errorf("after the first user has left: %v, %v", all, err)
		}
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d requests, want one watch for both", n)
		}
		leaveSecond()
		if _, err := u.store.List(""); err == nil || u.store.Synced() {
			t.Error("a mirror that nobody runs says that it is synced")
		}
		if st := u.store.State()[0]; st.Phase != string(stopped) {
			t.Errorf("phase %s, want stopped", st.Phase)
		}
	})
}

func TestAMirrorThatIsRunAgainTellsWhatChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newFeed(t), newFeed(t)
		s := newServer(t).on(streamedList, first.reply, second.reply)
		u := users{t, New[*pod](Options{Resource: pods, Client: s.client})}
		leave := u.join()
		first.send(added("a", "5", 1), added("b", "6", 1), added("c", "7", 1), endMark("20"))
		leave()
		var heard []string
		u.store.OnChange(func(c Change[*pod]) { heard = append(heard, c.Type.String()+" "+c.Object().Name) })
		heard = nil
		u.join()
		if u.store.Synced() {
			t.Error("synced before it was listed anew")
		}
		second.send(added("b", "6", 1), added("c", "25", 2), added("d", "26", 1), endMark("30"))
		if want := []string{"DELETED a", "MODIFIED c", "ADDED d"}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
		if v := s.seen()[1].query.Get("resourceVersion"); v != "20" {
			t.Errorf("the second list asked for %q, want not older than 20", v)
		}
		if !u.store.Synced() {
			t.Error("not synced")
		}
	})
}

// A handler has no buffer: what is removed leaves nothing behind.
//
// Rules: RFL-08, RFL-09
func TestALateHandlerHearsOfWhatIsThereAndThenOfEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		m := startMirror(t, s, Options{})
		live.send(added("b", "5", 1), added("a", "6", 1), endMark("20"), deleted("b", "21", 1), added("c", "22", 1))
		m.heard()
		var late []string
		remove := m.OnChange(func(c Change[*pod]) {
			text := c.Type.String() + " " + c.Object().Name
			if c.Initial {
				text += " initial"
			}
			late = append(late, text)
		})
		live.send(modified("a", "23", 2))
		remove()
		live.send(modified("a", "24", 3))
		m.wantHeard("MODIFIED a", "MODIFIED a")
		if want := []string{"ADDED a initial", "ADDED c initial", "MODIFIED a"}; !slices.Equal(late, want) {
			t.Errorf("the late handler heard %q, want %q", late, want)
		}
	})
}

// However handlers come and go while objects change, each sees a history without a gap.
//
// Rules: RFL-08
func TestHandlersThatComeAndGoWhileObjectsChangeMissNothing(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s := New[*pod](Options{Resource: pods})
	sc := s.scopes[0]
	replace(s, newContent[*pod]())
	var writing, coming sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				s.bring(sc, makePod("default", "a", n), "1")
			}
		}
	})
	for range 4 {
		coming.Go(func() {
			for range 200 {
				last := 0
				remove := s.OnChange(func(c Change[*pod]) {
					if last != 0 && c.New.Spec.N != last+1 {
						t.Errorf("%d after %d", c.New.Spec.N, last)
					}
					last = c.New.Spec.N
				})
				runtime.Gosched()
				remove()
				last = -1 // a call after remove would race with this
			}
		})
	}
	coming.Wait()
	close(stop)
	writing.Wait()
}

func TestAHandlerOfALateControllerThatPanicsHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, func(w http.ResponseWriter, r *http.Request) {
			frames(thenHold, added("a", "5", 1), endMark("20"))(w, r)
		})
		m := startMirror(t, s, Options{})
		m.OnChange(func(Change[*pod]) { panic("poison") })
		if n := m.state().Counters.Panics; n != 1 {
			t.Errorf("%d panics counted, want 1", n)
		}
	})
}
