package apply

import (
	"reflect"
	"slices"

	"skiff/internal/runtime/kube"
)

// owned is what is remembered of the children of one owner.
type owned struct {
	uid      string
	children []*memory // the first wanted of them are those that the last Apply has declared, in its order
	wanted   int
	replaced []*replaceMemory // of the kinds that are replaced

	// settledFor is the Spec of the owner when the last Apply left all children as they are declared, and no others;
	// nil: it did not. As long as the spec and the children stay the same, there is nothing to do: see Settled.
	settledFor any

	// tried is the generation of the owner for which what it declares was applied to the children that the cache does
	// not hold; 0: none. See unheld.
	tried int64
}

// declare returns what is remembered of a child that is declared, to be added to; nil if it is declared already. Most
// often the child before it was the same in the last Apply, too.
func (o *owned) declare(kind *Kind, k kube.Key) *memory {
	is := func(m *memory) bool { return m.kind == kind && m.key == k }
	if slices.ContainsFunc(o.children[:o.wanted], is) {
		return nil
	}
	at := o.wanted + slices.IndexFunc(o.children[o.wanted:], is)
	if at < o.wanted {
		at = len(o.children)
		o.children = append(o.children, &memory{kind: kind, key: k})
	}
	m := o.children[at]
	o.children[at], o.children[o.wanted] = o.children[o.wanted], m
	o.wanted++
	return m
}

// undeclared returns what is remembered of a child that is not declared, to be added to; nil if it is declared.
func (o *owned) undeclared(kind *Kind, k kube.Key) *memory {
	at := slices.IndexFunc(o.children, func(m *memory) bool { return m.kind == kind && m.key == k })
	switch {
	case at < 0:
		m := &memory{kind: kind, key: k}
		o.children = append(o.children, m)
		return m
	case at < o.wanted:
		return nil
	}
	return o.children[at]
}

// Settled returns the report of an Apply that has nothing to do, without the children that it would be given: the
// owner has the same Spec as when an Apply left all of them as they are declared; and by what the cache shows they are
// as they were then, but for their status, and there are no others. False: it takes an Apply.
func (e *Engine) Settled(owner Owner) (Report, bool) {
	o := e.remembered(owner)
	if o.settledFor == nil || o.settledFor != owner.Spec && !reflect.DeepEqual(o.settledFor, owner.Spec) {
		return Report{}, false
	}
	a := &application{Engine: e, owner: owner, mem: o}
	r := Report{Children: make([]Result, o.wanted+o.settledReplaced())}
	t := operation{application: a}
	for _, m := range o.children[:o.wanted] {
		t.kind, t.mem = m.kind, m
		t.want = declared{apiVersion: m.kind.apiVersion, kind: m.kind.resource.Kind, key: m.key, hash: m.settled.hash}
		live, err := t.known()
		if err != nil || live == nil || !t.isChild(live.content()) || !t.isSame(live.content()) {
			return Report{}, false
		}
		r.Children[m.at] = t.finish(t.unchanged(live))
	}
	others := -o.wanted
	for i := range e.kinds {
		if e.kinds[i].replacing != nil {
			if !a.replacement(&e.kinds[i]).settled(r.Children) {
				return Report{}, false
			}
			continue
		}
		n, err := e.kinds[i].mirror.countOwned(owner.Namespace, owner.UID)
		if others += n; err != nil || others > 0 {
			return Report{}, false
		}
	}
	o.settledFor = owner.Spec // the copy that the cache has, and not one that nobody else keeps
	return r, true
}

// settledReplaced returns how many declared children of kinds that are replaced are as they are declared.
func (o *owned) settledReplaced() int {
	n := 0
	for _, m := range o.replaced {
		n += len(m.settled)
	}
	return n
}

// remember notes the declared children for settled, if all of them are in place. at says where each is in the report.
func (r *replacement) remember(at []int) {
	r.mem.settled = nil
	settled := make([]settledChild, 0, len(at))
	for i, s := range r.slots {
		if s.want == nil && s.live == nil {
			continue // only its name is remembered
		}
		if s.want == nil || s.err != nil || s.ended || !s.current() || len(r.lost(s, s.live.ObjectMeta())) > 0 {
			return
		}
		settled = append(settled, settledChild{key: s.key, at: at[i], revision: s.revision, minReady: s.minReady,
			labels: s.live.ObjectMeta().Labels})
	}
	r.mem.settled = settled
}

// settled adds the results of the declared children; false if they are not what they were when they were remembered,
// but for their status, or if one has ended, or anything else is known of them or of others.
func (r *replacement) settled(into []Result) bool {
	n, err := r.count(r.owner.Namespace, r.owner.UID)
	if err != nil || n != len(r.mem.settled) || n != len(r.owner.Known) || len(r.mem.children) > 0 {
		return false
	}
	for _, c := range r.mem.settled {
		live, ok, err := r.get(c.key)
		if err != nil || !ok || !r.ours(live) || !slices.Equal(live.ObjectMeta().Labels, c.labels) {
			return false
		}
		uid := uidOf(live)
		if r.mem.seen[c.key] != uid || r.owner.Known[c.key] != uid {
			return false
		}
		s := slot{key: c.key, revision: c.revision, minReady: c.minReady}
		if r.settle(&s, live); s.deleting || s.ended {
			return false
		}
		into[c.at] = r.result(&s)
	}
	return true
}
