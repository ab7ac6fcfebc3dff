package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// decision is one child before a decision about its next step: as declared, never seen, and not paused, but for edit.
type decision struct {
	name     string
	strategy Strategy // nil: InPlace
	edit     func(c *child)
	want     string // what the step does, with a standing refusal; and the outcome that is concluded without a step
}

// decided returns the next step about a child, and what was noted on the child.
func (d *decision) decided(t *testing.T) string {
	c := declaredChild(t, configMapsV1, d.strategy, map[string]any{"data": map[string]any{"a": "1"}})
	if d.edit != nil {
		d.edit(c)
	}
	return nextOf(c)
}

// declaredChild is a child of a kind with more fields of its body, which does not exist.
func declaredChild(t *testing.T, r kube.Resource, strategy Strategy, more map[string]any) *child {
	t.Helper()
	if strategy == nil {
		strategy = InPlace
	}
	owner := Owner{Resource: configMapsV1, Namespace: "default", Name: "owner", UID: "u1", Generation: 3}
	kind := Of(mirrorFor[struct{}](nil, r, ""), strategy)
	e := New(nil, Own(), kind)
	a := e.application(owner, false)
	body := map[string]any{"apiVersion": r.APIVersion(), "kind": r.Kind, "metadata": map[string]any{"name": "child",
		"namespace": "default", "labels": map[string]any{ManagedByLabel: ManagedBy},
		"ownerReferences": []any{owner.Reference()}}}
	for name, v := range more {
		body[name] = v
	}
	n, want, err := a.declare(&Child{Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return &child{application: a, kind: n.kind, key: n.key, mem: &memory{kind: n.kind, key: n.key}, want: want}
}

// nextOf decides about one child, and tells the decision in short.
func nextOf(c *child) string {
	var words []string
	for _, s := range c.kind.strategy.plan([]*child{c}, time.Now()) {
		s, ok := s.weigh()
		if !ok {
			break
		}
		if words = append(words, s.does.String()); s.standing != nil {
			words = append(words, "("+s.standing.Error()+")")
		}
		if s.why != nil && s.does == Replaced {
			words = append(words, s.why.Public)
		}
	}
	if c.outcome != Unchanged || c.problem != nil {
		words = append(words, "noted "+c.outcome.String())
	}
	if c.problem != nil && c.problem.Reason != "" {
		words = append(words, c.problem.Reason)
	}
	if c.err != nil {
		words = append(words, "error "+c.err.Error())
	}
	if c.wait > 0 {
		words = append(words, "in "+c.wait.Round(time.Second).String())
	}
	return strings.Join(words, " ")
}

// found is an object of the child's name with one value, our label and our hash; edits come last.
func found(c *child, value string, edit ...func(live *Live[struct{}])) *Live[struct{}] {
	live := &Live[struct{}]{}
	live.Name, live.Namespace, live.UID, live.ResourceVersion = c.key.Name, c.key.Namespace, "7", "9"
	live.Labels = kube.Labels{{Key: ManagedByLabel, Value: ManagedBy}}
	live.Annotations = kube.Labels{{Key: HashAnnotation, Value: c.want.hash}}
	live.Body = kube.Raw(fmt.Sprintf(`{"data":{"a":%q}}`, value))
	for _, e := range edit {
		e(live)
	}
	return live
}

// lives makes found the live child of the owner.
func lives(c *child, value string, edit ...func(live *Live[struct{}])) {
	c.live = found(c, value, append([]func(live *Live[struct{}]){func(live *Live[struct{}]) {
		o := c.owner
		live.OwnerReferences = []kube.OwnerReference{{APIVersion: o.Resource.APIVersion(), Kind: o.Resource.Kind,
			Name: o.Name, UID: o.UID, Controller: true, BlockOwnerDeletion: true}}
	}}, edit...)...)
	c.mem.seen = uidOf(c.live)
}

// refuses has the memory know a refusal.
func refuses(c *child, request string) { c.mem.trouble().refusal.Note(request, errors.New("no")) }

// fights has another writer undo five changes, or as many deletions as it takes.
func fights(c *child, of *contest, p patience) {
	for range p.writes {
		of.add(c.want.hash, p)
	}
}

// The engine's decisions about one child, each without a server.
func TestWhatIsDecidedAboutOneChild(t *testing.T) {
	unlabel := func(live *Live[struct{}]) { live.Labels = nil }
	undeclared := func(edit ...func(live *Live[struct{}])) func(c *child) {
		return func(c *child) { lives(c, "1", edit...); c.want = nil }
	}
	paused := func(edit func(c *child)) func(c *child) { return func(c *child) { edit(c); c.paused = true } }
	differs := func(c *child) { lives(c, "2") }
	other := func(edit ...func(live *Live[struct{}])) func(c *child) {
		return func(c *child) { c.other = found(c, "2", edit...) }
	}
	for _, test := range []decision{
		{"missing", nil, nil, "created"},
		{"missing, paused", nil, func(c *child) { c.paused = true }, "noted paused"},
		{"missing, and the POST was refused", nil, func(c *child) { refuses(c, c.creation()) }, "created (no)"},
		{"missing, and another POST was refused", nil, func(c *child) { refuses(c, requestOf("x", 0)) }, "created"},
		{"missing, seen before, and deleted too often", nil, func(c *child) {
			c.mem.seen = "6"
			fights(c, &c.mem.trouble().losses, withDeletions)
		}, "noted contested in 10s"},
		{"missing, deleted too often, but by us", nil, func(c *child) {
			fights(c, &c.mem.trouble().losses, withDeletions)
		}, "created"},
		{"missing in a namespace over its budget", nil, func(c *child) {
			c.unheld = &cache.NotServed{Problem: health.Problem{Reason: cache.OverBudget, Public: "too much"}}
		}, "error too much"},

		{"as declared", nil, func(c *child) { lives(c, "1") }, ""},
		{"different", nil, differs, "applied"},
		{"different, paused", nil, paused(differs), "noted paused"},
		{"different, never to be changed", OnDelete, differs, "noted outdated"},
		{"different, to be made anew", Recreate, differs, "replaced it differs in data.a"},
		{"different, and the change was refused", nil, func(c *child) {
			differs(c)
			refuses(c, c.changeOf(c.live))
		}, "applied (no)"},
		{"different in another way than when the change was refused", nil, func(c *child) {
			differs(c)
			refuses(c, c.changeOf(found(c, "3")))
		}, "applied"},
		{"different, to be made anew, and that was refused", Recreate, func(c *child) {
			differs(c)
			refuses(c, c.changeOf(c.live))
		}, "replaced (no) it differs in data.a"},
		{"different, to be made anew, and its deletion was refused while it was undeclared", Recreate, func(c *child) {
			differs(c)
			refuses(c, c.deletion())
		}, "replaced it differs in data.a"},
		{"different, and changed back too often", nil, func(c *child) {
			differs(c)
			fights(c, &c.mem.trouble().contest, withChanges)
		}, "contested"},
		{"different, to be made anew, and changed back too often", Recreate, func(c *child) {
			differs(c)
			fights(c, &c.mem.trouble().contest, withChanges)
		}, "contested"},
		{"with another hash alone", nil, func(c *child) {
			lives(c, "1", func(live *Live[struct{}]) { live.Annotations[0].Value = "x" })
		}, "applied"},
		{"different, as the server stores what is declared", nil, func(c *child) {
			differs(c)
			c.markSynced()
		}, ""},
		{"being deleted", nil, func(c *child) { differs(c); c.deleting = true }, "noted waiting in 5s"},

		{"undeclared", nil, undeclared(), "deleted"},
		{"undeclared, without our label", nil, undeclared(unlabel), "released"},
		{"undeclared, and the deletion was refused", nil, func(c *child) {
			undeclared()(c)
			refuses(c, c.deletion())
		}, "deleted (no)"},
		{"undeclared, being deleted", nil, func(c *child) { undeclared()(c); c.deleting = true }, ""},

		{"made by skiff for no owner", nil, other(), "adopted"},
		{"made by skiff for no owner, paused", nil, paused(other()), "noted paused"},
		{"made by skiff, being deleted", nil, other(func(live *Live[struct{}]) {
			live.DeletionTimestamp = time.Now()
		}), "noted foreign Owned in 1m0s"},
		{"another owner's", nil, other(func(live *Live[struct{}]) {
			live.OwnerReferences = []kube.OwnerReference{{Kind: "A", Name: "b", UID: "8", Controller: true}}
		}), "noted foreign Owned in 1m0s"},
		{"made by somebody", nil, other(unlabel), "noted foreign NotManaged in 1m0s"},
		{"made by somebody, and the owner takes it", nil, func(c *child) {
			other(unlabel)(c)
			c.owner.Adopt = true
		}, "adopted"},
		{"made by skiff, and the change was refused", nil, func(c *child) {
			other()(c)
			refuses(c, c.changeOf(c.other))
		}, "adopted (no)"},

		{"not held", nil, func(c *child) { c.uncached = true }, "applied"},
		{"not held, paused", nil, paused(func(c *child) { c.uncached = true }), ""},
		{"not held, applied for this generation", nil, func(c *child) {
			c.uncached, c.application.mem.tried = true, c.owner.Generation
		}, ""},
		{"not held, to be made anew", Recreate, func(c *child) { c.uncached = true }, ""},
		{"not read", nil, func(c *child) { c.err = errors.New("gone") }, "error gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := test.decided(t); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

func TestAnObjectWithAnotherSelectorIsNotAdopted(t *testing.T) {
	for selects, want := range map[string]string{"a": "adopted", "b": "noted foreign Owned in 1m0s"} {
		selector := map[string]any{"matchLabels": map[string]any{"app": "a"}}
		c := declaredChild(t, deploymentsV1, InPlace, map[string]any{"spec": map[string]any{"selector": selector}})
		c.other = found(c, "", func(live *Live[struct{}]) {
			live.Body = kube.Raw(fmt.Sprintf(`{"spec":{"selector":{"matchLabels":{"app":%q}}}}`, selects))
		})
		if got := nextOf(c); got != want {
			t.Errorf("selector app=%s: got %q, want %q", selects, got, want)
		}
	}
}

func TestAChildOfATemplateGetsItsLostLabelBack(t *testing.T) {
	for app, restores := range map[string]bool{"web": false, "lost": true} {
		c := childrenOf(1, "n+")[0]
		c.application = &application{Engine: New(nil, Own())}
		c.kind = &Kind{template: &template{selector: []string{"app"}}}
		c.want.labels = map[string]any{"app": "web", ManagedByLabel: ManagedBy}
		c.live.ObjectMeta().Labels = kube.Labels{{Key: "app", Value: app}, {Key: ManagedByLabel, Value: ManagedBy}}
		s, ok := replace{}.meet(c)
		if ok != restores || s.does != Unchanged {
			t.Errorf("label app=%s: %t %s", app, ok, s.does)
		}
	}
}

// A Service waits while the cluster has no free node port, or while another Service holds the declared port.
func TestWhatIsDecidedAboutAServiceWithoutItsNodePort(t *testing.T) {
	for name, test := range map[string]struct {
		spec map[string]any
		edit func(c *child)
		want string
	}{
		"there are free ones": {map[string]any{"type": "NodePort"}, nil, "created"},
		"there is no free one": {map[string]any{"type": "NodePort"}, func(c *child) { c.kind.scarce.note() },
			"noted no node port NodePort in 1m0s"},
		"it needs none": {map[string]any{"type": "ClusterIP"}, func(c *child) { c.kind.scarce.note() }, "created"},
		"it names one": {map[string]any{"type": "NodePort", "ports": []any{map[string]any{"nodePort": int64(30080)}}},
			func(c *child) { c.kind.scarce.note() }, "created"},
		"it exists without an owner": {map[string]any{"type": "NodePort"}, func(c *child) {
			c.kind.scarce.note()
			c.other = found(c, "1")
			c.other.(*Live[struct{}]).Body = nil
		}, "adopted"},
		"another has its port": {map[string]any{"type": "ClusterIP"}, func(c *child) {
			c.mem.trouble().scarce = portWait{hash: c.want.hash, next: time.Now().Add(time.Minute)}
		}, "noted node port taken NodePort in 1m0s"},
		"another had a port of an earlier declaration": {map[string]any{"type": "ClusterIP"}, func(c *child) {
			c.mem.trouble().scarce = portWait{hash: "x", next: time.Now().Add(time.Minute)}
		}, "created"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.spec["ports"] == nil {
					test.spec["ports"] = []any{map[string]any{"port": int64(80)}}
				}
				c := declaredChild(t, servicesV1, nil, map[string]any{"spec": test.spec})
				if test.edit != nil {
					test.edit(c)
				}
				if got := nextOf(c); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// A child can be lost in one step, to a writer who takes our owner reference off, and the next step finds no child.
func TestAChildThatIsLostInOneStepIsNotRemovedInTheNext(t *testing.T) {
	for _, does := range []Outcome{Deleted, Released, Replaced, Rolled} {
		c := declaredChild(t, configMapsV1, nil, nil)
		lives(c, "1")
		next := step{child: c, does: does}
		c.see(nil)
		if next.do(t.Context()); c.outcome != Unchanged || c.err != nil || c.wait != soon {
			t.Errorf("%s: %s, %v, in %s", does, c.outcome, c.err, c.wait)
		}
	}
}
