package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func put(s *Store, name string) (o *Object) {
	s.Update(func(tx *Tx) error {
		o = tx.Put("t", Key{Name: name}, map[string]any{"metadata": map[string]any{"name": name}}, nil)
		return nil
	})
	return o
}

func remove(s *Store, name string) (o *Object) {
	s.Update(func(tx *Tx) error { o = tx.Delete("t", Key{Name: name}, nil); return nil })
	return o
}

func names(objects []*Object) string {
	out := ""
	for _, o := range objects {
		out += o.Name
	}
	return out
}

func TestEachRevisionInTheHistoryCanBeListed(t *testing.T) {
	s := New(Options{HistoryEvents: 100, MaxGap: 3, FirstRevision: 10})
	var at []int64
	for _, n := range []string{"b", "a", "c"} {
		at = append(at, put(s, n).Revision)
	}
	at = append(at, remove(s, "a").Revision)
	for i, want := range []string{"b", "ab", "abc", "bc"} {
		got, c, err := s.ListAndWatch("t", "", at[i])
		if err != nil || names(got) != want || c.Revision() != at[i] {
			t.Errorf("at %d: %s (%v), want %s", at[i], names(got), err, want)
		}
	}
	if _, _, err := s.ListAndWatch("t", "", at[3]+1); !errors.Is(err, ErrFuture) {
		t.Errorf("the future: %v", err)
	}
	s.Compact()
	if _, _, err := s.ListAndWatch("t", "", at[2]); !errors.Is(err, ErrCompacted) {
		t.Errorf("after compaction: %v", err)
	}
}

func TestStoredVersionsDoNotChangeWhenTheObjectDoes(t *testing.T) {
	s := New(Options{HistoryEvents: 100})
	first := put(s, "a")
	body := first.JSON()
	put(s, "a")
	gone := remove(s, "a")
	if again := first.JSON(); string(again) != string(body) {
		t.Errorf("%s became %s", body, again)
	}
	if v := first.Value()["metadata"].(map[string]any)["resourceVersion"]; v != fmt.Sprint(first.Revision) {
		t.Errorf("the first version says %v, is %d", v, first.Revision)
	}
	if v := gone.Value()["metadata"].(map[string]any)["resourceVersion"]; v != fmt.Sprint(gone.Revision) {
		t.Errorf("the deleted one says %v, is %d", v, gone.Revision)
	}
}

func TestACursorIsToldOfEachChangeOnceInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{HistoryEvents: 1000, MaxGap: 3})
		_, c, _ := s.ListAndWatch("t", "", 0)
		var writer sync.WaitGroup
		defer writer.Wait()
		writer.Go(func() {
			for i := range 100 {
				put(s, fmt.Sprint(i))
				time.Sleep(time.Millisecond)
			}
		})
		last := int64(0)
		for n := 0; n < 100; {
			events, rev, wait, err := c.Next(7)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Object.Revision <= last || e.Object.Name != fmt.Sprint(n) {
					t.Fatalf("event %d is %s at %d after %d", n, e.Object.Name, e.Object.Revision, last)
				}
				last = e.Object.Revision
				n++
			}
			if rev < last {
				t.Fatalf("known up to %d, seen %d", rev, last)
			}
			if wait != nil && n < 100 {
				<-wait
			}
		}
	})
}

func TestACursorThatMissedAChangeIsTold(t *testing.T) {
	s := New(Options{HistoryEvents: 2})
	_, lagging, _ := s.ListAndWatch("t", "", 0)
	_, current, _ := s.ListAndWatch("t", "", 0)
	for _, n := range []string{"a", "b"} {
		put(s, n)
	}
	if events, _, _, err := current.Next(10); err != nil || len(events) != 2 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	put(s, "c")
	if _, _, _, err := lagging.Next(10); !errors.Is(err, ErrSlow) {
		t.Errorf("the lagging cursor: %v", err)
	}
	if events, _, _, err := current.Next(10); err != nil || len(events) != 1 {
		t.Errorf("the current cursor: %d events, %v", len(events), err)
	}
	s.Compact()
	if _, _, _, err := current.Next(10); err != nil {
		t.Errorf("a cursor that missed nothing: %v", err)
	}
	if _, oldest, err := s.Watch("t", 1); !errors.Is(err, ErrCompacted) || oldest == 0 {
		t.Errorf("from the beginning: %v, oldest %d", err, oldest)
	}
}

func TestHistoryEndsByAgeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{HistoryEvents: 100, HistoryAge: time.Minute})
		first := put(s, "a").Revision
		put(s, "b")
		time.Sleep(2 * time.Minute)
		if _, _, err := s.Watch("t", first); !errors.Is(err, ErrCompacted) {
			t.Errorf("after two minutes: %v", err)
		}
	})
}

func TestListsStayInOrderWhileObjectsComeAndGo(t *testing.T) {
	s := New(Options{})
	write := func(namespace, name string) {
		s.Update(func(tx *Tx) error {
			if k := (Key{Namespace: namespace, Name: name}); tx.Get("t", k) != nil {
				tx.Delete("t", k, nil)
			} else {
				tx.Put("t", k, map[string]any{"metadata": map[string]any{}}, nil)
			}
			return nil
		})
	}
	for _, step := range []struct{ namespace, name, all, a string }{
		{"a", "m", "m", "m"}, {"a-b", "x", "xm", "m"}, {"a", "z", "xmz", "mz"}, {"", "c", "cxmz", "mz"},
		{"a", "m", "cxz", "z"}, {"b", "b", "cxzb", "z"}, {"a", "a", "cxazb", "az"}, {"a-b", "x", "cazb", "az"},
	} {
		write(step.namespace, step.name)
		if all, a := names(s.List("t", "")), names(s.List("t", "a")); all != step.all || a != step.a {
			t.Errorf("after %s/%s: %s and %s, want %s and %s", step.namespace, step.name, all, a, step.all, step.a)
		}
	}
}

func TestWhatIsUniqueIsTakenUntilItsObjectGoesOrLetsItGo(t *testing.T) {
	s := New(Options{Unique: map[string]func(map[string]any) []string{"t": func(o map[string]any) []string {
		ip, _ := o["ip"].(string)
		return []string{ip}
	}}})
	set := func(name, ip string) {
		s.Update(func(tx *Tx) error {
			tx.Put("t", Key{Name: name}, map[string]any{"ip": ip, "metadata": map[string]any{}}, nil)
			return nil
		})
	}
	check := func(when string, want ...bool) {
		t.Helper()
		s.Update(func(tx *Tx) error {
			for i, ip := range []string{"1", "2", "3"} {
				if have := tx.Taken("t", Key{Name: "own"}, ip); have != want[i] {
					t.Errorf("%s: %s is taken: %v", when, ip, have)
				}
			}
			return nil
		})
	}
	set("a", "1")
	set("own", "2")
	check("at first", true, false, false)
	first := s.Snapshot()
	set("a", "3")
	check("changed", false, false, true)
	s.Restore(first)
	check("restored", true, false, false)
	remove(s, "a")
	check("deleted", false, false, false)
	s.Revert(first)
	check("reverted", true, false, false)
	set("b", "3")
	second := s.Snapshot()
	set("a", "2")
	set("b", "1")
	set("a", "3")
	s.Revert(second)
	check("reverted to what two have exchanged since", true, false, true)
}
