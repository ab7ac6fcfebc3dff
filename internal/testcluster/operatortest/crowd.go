package operatortest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// mirrorBytes and objectBytes are the memory limits of a history with little memory: enough without a crowd.
	mirrorBytes = 64 << 10
	objectBytes = 8 << 10

	// largeLabels is how many labels make an object large; twice as many are too many.
	largeLabels = 60

	// Elsewhere is a namespace with few objects, all small.
	Elsewhere = "elsewhere"
)

// Crowd is many or large objects, which take the namespace of a history over the memory limit; and beside the crowd, a
// custom resource in the namespace Elsewhere, which must not suffer.
type Crowd struct {
	Kinds  []Member
	Create func()        // creates the custom resource in Elsewhere
	Change func()        // changes its spec, at most once
	Check  func()        // checks its children after Change
	Within time.Duration // how long this takes
	Delete []string      // custom resources to delete while memory is short
}

// Member is a kind of objects in a crowd.
type Member struct {
	Resource kube.Resource
	Body     func(name string) string
	Delays   bool // a finalizer may wait while the memory for the kind is short
}

// member is an object of the crowd, or a large object beside the crowd.
type member struct {
	resource kube.Resource
	name     string
	uid      string // "": beside the crowd
	labels   int    // 0: small again
}

// UseCrowd sets the crowd of a history with little memory, and does nothing in other histories.
func (h *History) UseCrowd(c Crowd) {
	h.Helper()
	if h.Setup.MirrorBytes == 0 {
		return
	}
	h.crowd = &c
	h.PostIn("", namespaceResource, fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{%q:"yes"}}}`,
		Elsewhere, selector))
	c.Create()
}

// crowdAct is a random action of users who create many or large objects, or remove them.
func (h *History) crowdAct() {
	switch n := h.Rand.IntN(10); {
	case n < 4 && len(h.members) > 8: // a crowd of small objects must fit
		h.disperse()
	case n < 3:
		h.fill(Pick(h, h.crowd.Kinds...), Pick(h, 1, 1, 5), Pick(h, largeLabels, 2*largeLabels))
	case n < 4:
		h.overfill()
	case n < 7:
		h.enlarge()
	case n < 9:
		h.shrink()
	default:
		h.disperse()
	}
}

// overfill takes the namespace over its memory limit: with large objects, or with more that are smaller.
func (h *History) overfill() (with Member) {
	h.Helper()
	with = Pick(h, h.crowd.Kinds...)
	if h.Rand.IntN(2) == 0 {
		h.fill(with, 14, largeLabels)
	} else {
		h.fill(with, 20, largeLabels*2/3)
	}
	return with
}

// fill creates n objects of a kind with many labels.
func (h *History) fill(kind Member, n, labels int) {
	h.Helper()
	h.Note("create %d %s with %d labels", n, kind.Resource.Plural, labels)
	for range n {
		h.crowded++
		name := fmt.Sprint("crowd-", h.crowded)
		body := h.JSON(kind.Body(name))
		meta, _ := body["metadata"].(map[string]any)
		with, _ := meta["labels"].(map[string]any)
		meta["labels"] = manyLabels(with, labels, strings.Repeat("x", 60))
		if err := h.User.Create(h.Context(), kind.Resource, "default", body, nil, asUser); err != nil {
			h.Fatal(err)
		}
		uid, _ := At(h.API.Get(kind.Resource, Named(name)), "metadata", "uid").(string)
		h.members = append(h.members, member{kind.Resource, name, uid, labels})
	}
	h.WaitIdle()
}

// manyLabels adds n labels. Every mirror keeps labels, whatever fields of an object are left out.
func manyLabels(to map[string]any, n int, value any) map[string]any {
	all := map[string]any{}
	for k, v := range to {
		all[k] = v
	}
	for i := range n {
		all[fmt.Sprint("crowd-", i)] = value
	}
	return all
}

// enlarge makes an object of the controller or of a user large, or too large.
func (h *History) enlarge() {
	kind := Pick(h, h.crowd.Kinds...).Resource
	var names []string
	for _, o := range h.API.List(kind, "default") {
		if name := h.metaOf(o).Name; !strings.HasPrefix(name, "crowd-") && name != "kubernetes" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	m := member{resource: kind, name: Pick(h, names...), labels: Pick(h, largeLabels, 2*largeLabels)}
	h.Note("add %d labels to %s %s", m.labels, kind.Kind, m.name)
	h.label(m, strings.Repeat("x", 60))
	h.members = append(h.members, m)
}

// label sets the labels of an object, which may be gone.
func (h *History) label(m member, value any) {
	h.Helper()
	body := map[string]any{"metadata": map[string]any{"labels": manyLabels(nil, m.labels, value)}}
	h.try(h.User.Patch(h.Context(), m.resource, Named(m.name), kube.MergePatch, body, nil, asUser))
}

// shrink makes all large objects small again.
func (h *History) shrink() {
	h.Helper()
	h.Note("shrink all")
	for i, m := range h.members {
		if m.labels > 0 {
			h.label(m, nil)
		}
		h.members[i].labels = 0
	}
	h.members = slices.DeleteFunc(h.members, func(m member) bool { return m.uid == "" })
}

// disperse deletes the crowd, and makes all other objects small.
func (h *History) disperse() {
	h.Helper()
	if len(h.members) == 0 {
		return
	}
	h.shrink()
	h.Note("delete the crowd")
	for _, m := range h.members {
		now := h.metaOf(h.API.Get(m.resource, Named(m.name)))
		if now.UID != m.uid || now.ControllerUID() != "" || now.Deleting() {
			h.Errorf("%s %s, which nobody has deleted, is now %+v", m.resource.Kind, m.name, now)
		}
		h.try(h.User.Delete(h.Context(), m.resource, Named(m.name), kube.DeleteOptions{}))
	}
	h.members = nil
}

// Overfill takes the namespace over the memory limit, in a history with little memory, and checks three promises:
// statuses say so, another namespace is worked on, and deletions end. Then Overfill makes room again.
func (h *History) Overfill() {
	h.Helper()
	if h.crowd == nil {
		return
	}
	h.Pass(LongWait)
	with := h.overfill()
	h.crowd.Change()
	h.Pass(h.crowd.Within)
	h.crowd.Check()
	h.Pass(LongWait)
	h.crowd.Check()
	h.wantLeftAlone()
	h.finish(with.Delays)
	if h.Rand.IntN(2) == 0 {
		h.shrink()
		h.Pass(LongWait)
		h.wantWorkedOn()
	}
	h.disperse()
}

// wantLeftAlone checks that the custom resources of a crowd say why nothing is done for them. Custom resources beside
// the crowd may be complete.
func (h *History) wantLeftAlone() {
	h.Helper()
	for _, m := range h.members {
		c := h.Condition(m.name, "Ready")
		if m.resource == h.Resource && c != "none" && !reasonIsMemory(c) {
			h.Errorf("%s is one of too many, but has Ready=%s", m.name, c)
		}
	}
}

func reasonIsMemory(condition string) bool {
	return strings.HasSuffix(condition, "/OverBudget") || strings.HasSuffix(condition, "/TooLarge")
}

// wantWorkedOn checks that no custom resource lacks memory any more.
func (h *History) wantWorkedOn() {
	h.Helper()
	for _, o := range h.API.List(h.Resource, "default") {
		name := h.metaOf(o).Name
		if c := h.Condition(name, "Ready"); reasonIsMemory(c) {
			h.Errorf("%s is small, and has still Ready=%s", name, c)
		}
	}
}

// finish deletes custom resources, and checks that nothing is left, unless the finalizer is delayed.
func (h *History) finish(delayed bool) {
	h.Helper()
	names := h.crowd.Delete
	if i := slices.IndexFunc(h.members, func(m member) bool { return m.resource == h.Resource }); i >= 0 {
		names = append(slices.Clone(names), h.members[i].name)
		h.members = slices.Delete(h.members, i, i+1)
	}
	for _, name := range names {
		uid := h.metaOf(h.API.Get(h.Resource, Named(name))).UID
		if !h.TryDelete(h.Resource, name, kube.DeleteOptions{}) {
			continue
		}
		h.Pass(LongWait)
		if delayed {
			continue
		}
		for _, kind := range h.crowd.Kinds {
			for _, o := range h.API.List(kind.Resource, "default") {
				if m := h.metaOf(o); m.UID == uid || m.ControllerUID() == uid {
					h.Errorf("%s %s is left of %s: %+v", kind.Resource.Kind, m.Name, name, m)
				}
			}
		}
	}
}

var namespaceResource = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
