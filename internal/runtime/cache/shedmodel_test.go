package cache

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// A Store with budgets against a plain map: whatever is put, removed and listed, an object that exists is held or
// reported as shed, never missing; what handlers heard is what there is, of an object being deleted each version; and
// the accounts add up.
func TestAStoreWithBudgetsAgainstAPlainMap(t *testing.T) {
	inOneTurn(t, "no server is in it")
	place, _ := newLimiter(1).acquire(t.Context())
	defer place.release()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, sc := budgeted()
		model := map[kube.Key]*pod{}
		heard := map[kube.Key]kube.Meta{}
		s.OnChange(func(c Change[*pod]) {
			m := c.Object().ObjectMeta()
			if heard[m.Key()] = *m; c.Type == Gone {
				delete(heard, m.Key())
			}
		})
		for step := range 150 {
			rv := fmt.Sprint(step + 3)
			p := randomPod(r, rv)
			switch k := p.Key(); r.IntN(10) {
			case 0:
				if old := model[k]; old != nil {
					s.remove(sc, k, kube.Part{}, rv, Change[*pod]{Type: Gone, Old: old})
					delete(model, k)
				}
			case 1:
				l := newReflector(s, sc).newListing(state[*pod]{}, place)
				for k := range model {
					if r.IntN(8) == 0 {
						delete(model, k)
					}
				}
				for _, old := range model {
					listed := *old
					l.add(&listed, kube.Part{})
				}
				l.content.rv = rv
				s.replace(sc, l.content, func([]Change[*pod], int) {})
				l.close()
				s.relieve()
			case 2:
				s.try(p.Namespace) // the next list brings it
			default:
				if old := model[k]; old != nil && r.IntN(4) > 0 {
					p.UID = old.UID
				}
				model[k] = p
				copied := *p
				s.bring(sc, &copied, rv)
			}
			checkStore(t, s, model, heard)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func budgeted() (*Store[*pod], *scope) {
	s := New[*pod](Options{Resource: pods, MaxBytes: 20 << 10, MaxObjectBytes: 4 << 10})
	sc := s.scopes[0]
	s.replace(sc, content[*pod]{objects: table[*pod]{}, rv: "2"}, func([]Change[*pod], int) {})
	return s, sc
}

func randomPod(r *rand.Rand, rv string) *pod {
	p := &pod{}
	p.Namespace, p.Name = fmt.Sprint("n", r.IntN(3)), fmt.Sprint("p", r.IntN(12))
	p.UID, p.ResourceVersion = fmt.Sprint("u", r.IntN(1_000_000)), rv
	size := r.IntN(2 << 10)
	if r.IntN(20) == 0 {
		size = 5 << 10
	}
	p.Labels = kube.Labels{{Key: "l", Value: strings.Repeat("x", size)}}
	if r.IntN(6) == 0 { // a change of it is heard in any case
		p.DeletionTimestamp, p.Finalizers = time.Unix(1, 0), []string{"skiff.dev/test"}
	}
	return p
}

func checkStore(t *testing.T, s *Store[*pod], model map[kube.Key]*pod, heard map[kube.Key]kube.Meta) {
	t.Helper()
	for k, want := range model {
		got, ok, err := s.Get(k)
		switch {
		case Unheld(err) != nil:
			if Unheld(err).Deleting != want.Deleting() {
				t.Errorf("%s is being deleted: %t, its answer says %t", k, want.Deleting(), Unheld(err).Deleting)
			}
		case err != nil || !ok || got.ResourceVersion != want.ResourceVersion || got.UID != want.UID:
			t.Errorf("%s is %v, %t, %v, want version %s", k, got, ok, err, want.ResourceVersion)
		}
		if h := heard[k]; h.UID != want.UID || want.Deleting() && h.ResourceVersion != want.ResourceVersion {
			t.Errorf("of %s the handlers have heard as %q in version %s, want %s in version %s", k, h.UID,
				h.ResourceVersion, want.UID, want.ResourceVersion)
		}
	}
	for k := range heard {
		if model[k] == nil {
			t.Errorf("the handlers have not heard that %s is gone", k)
		}
	}
	sums := map[string]portion{}
	for e := range s.objects.entries("") {
		of := sums[e.key().Namespace]
		of.held += sizeOf(e.obj)
		sums[e.key().Namespace] = of
	}
	total := int64(0)
	for namespace, sh := range s.shed {
		of := sums[namespace]
		of.keys += sh.keys.bytes()
		sums[namespace] = of
		if sh.whole && of.held > 0 {
			t.Errorf("%d bytes of %s are held, which is shed", of.held, namespace)
		}
	}
	for namespace, want := range sums {
		total += want.held + want.keys
		if want.held+want.keys == 0 && s.account.shares[namespace] == nil {
			continue
		}
		if got := s.account.shares[namespace]; got == nil || got.held != want.held || got.keys != want.keys ||
			got.listed != 0 {
			t.Errorf("the account of %s is %+v, want %+v", namespace, got, want)
		}
	}
	if s.Bytes() != total || total > 20<<10+int64(len(model))*512 {
		t.Errorf("%d bytes are counted, there are %d", s.Bytes(), total)
	}
}

// Another mirror that is over the budget of all may choose a namespace that is being listed.
func TestANamespaceThatAnotherMirrorShedsWhileItIsListedIsNotHeld(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s, sc := budgeted()
	place, _ := newLimiter(1).acquire(t.Context())
	defer place.release()
	s.shedNamespace("n0", victim{})
	s.try("n0")
	l := newReflector(s, sc).newListing(state[*pod]{}, place)
	p := &pod{}
	p.Namespace, p.Name, p.UID, p.ResourceVersion = "n0", "p", "u", "3"
	l.add(p, kube.Part{})
	s.account.add("n1", 19<<10, 0) // more than that of n0, which is on trial
	s.account.add("n1", 2<<10, 0)
	if v, over := s.account.over(); !over || v.namespace != "n0" {
		t.Fatalf("%+v is to be shed, %t", v, over)
	}
	s.account.add("n1", -10<<10, 0)
	s.shedNamespace("n0", victim{})
	l.content.rv = "3"
	s.replace(sc, l.content, func([]Change[*pod], int) {})
	l.close()
	if _, err := s.List("n0"); !isShed(err, OverBudget) || s.onTrial(sc) {
		t.Errorf("it is held: %v", err)
	}
}
