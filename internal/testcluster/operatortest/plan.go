package operatortest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/plan"
)

// PlanAndRun changes things while the process is down, and checks that a plan names what the next process writes:
// which children come, go and are replaced, and of those in place each field that changes, but for pods, which others
// write as well. A plan that follows finds nothing to do.
func (h *History) PlanAndRun(children []kube.Resource, edit func()) {
	h.Helper()
	h.Stop()
	edit()
	h.Pass(time.Minute) // others finish what they do
	before := h.childrenNow(children)
	h.Forget()
	planned := h.plan(children)
	if writes := h.storedWrites(); len(writes) > 0 {
		h.Errorf("the plan wrote %v", writes)
	}
	h.Start()
	h.Pass(LongWait)
	h.WantLines("plan", planned, h.changesSince(before, children))
	h.Stop()
	if again := h.plan(children); len(again) > 0 {
		h.Errorf("a plan of what is as declared has %v", again)
	}
	h.Start()
}

// plan returns the lines of a plan about children that exist or are to be, in order.
func (h *History) plan(children []kube.Resource) (lines []string) {
	h.Helper()
	client := h.Connect(Agent)
	defer client.Close()
	p := plan.New(plan.Options{Client: client, Full: true, Books: h.Books})
	setup := h.Setup
	setup.Client, setup.Log = p.Client(), logr.Discard()
	out, err := p.Run(h.Context(), h.withSelection(setup, nil), nil, nil)
	if err != nil {
		h.Fatal(err)
	}
	h.Note("plan:\n%s", out.Text(false))
	for _, o := range out.Owners {
		for _, l := range o.Lines {
			if !slices.Contains(children, l.Resource) {
				h.Errorf("%s: %+v", o.Name, l)
				continue
			}
			lines = append(lines, fmt.Sprintf("%s %s %s", l.Op, l.Resource.Kind, l.Key.Name))
			if l.Op != plan.Change {
				continue
			}
			for _, f := range l.Fields {
				lines = append(lines, fmt.Sprintf("%s %s %s %s", l.Op, l.Resource.Kind, l.Key.Name, f.Path))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// storedWrites are the writes since Forget that were no dry runs.
func (h *History) storedWrites() []string {
	return slices.DeleteFunc(h.Writes(), func(w string) bool { return strings.HasPrefix(w, "TRY ") })
}

// childrenNow returns the children by "KIND NAME", encoded.
func (h *History) childrenNow(children []kube.Resource) map[string]kube.Raw {
	h.Helper()
	all := map[string]kube.Raw{}
	for _, r := range children {
		for _, o := range h.API.List(r, "default") {
			text, err := patch.Encode(o)
			if err != nil {
				h.Fatal(err)
			}
			all[r.Kind+" "+h.metaOf(o).Name] = text
		}
	}
	return all
}

// changesSince says what has become of the children, as lines of plan.
func (h *History) changesSince(before map[string]kube.Raw, children []kube.Resource) (lines []string) {
	h.Helper()
	after := h.childrenNow(children)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is := before[name], after[name]
		var r kube.Resource
		for _, r = range children {
			if strings.HasPrefix(name, r.Kind+" ") {
				break
			}
		}
		switch {
		case was == nil:
			lines = append(lines, fmt.Sprintf("%s %s", plan.Create, name))
		case is == nil:
			lines = append(lines, fmt.Sprintf("%s %s", plan.Delete, name))
		case h.uidOf(was) != h.uidOf(is):
			lines = append(lines, fmt.Sprintf("%s %s", plan.Replace, name))
		case r.Kind != "Pod":
			lines = append(lines, h.fieldsChanged(r, name, was, is)...)
		}
	}
	slices.Sort(lines)
	return lines
}

func (h *History) uidOf(object kube.Raw) string {
	h.Helper()
	var o struct {
		kube.Meta `json:"metadata"`
	}
	if err := kube.Unmarshal(object, &o); err != nil {
		h.Fatal(err)
	}
	return o.UID
}

// hashOf is what skiff notes on a child of what it declares: a write may change nothing else.
func (h *History) hashOf(object kube.Raw) any {
	h.Helper()
	v, err := patch.Decode(object)
	if err != nil {
		h.Fatal(err)
	}
	return At(v, "metadata", "annotations", "skiff.dev/desired-hash")
}

func (h *History) fieldsChanged(r kube.Resource, name string, was, is kube.Raw) (lines []string) {
	fields, err := plan.Differences(r, was, is)
	if err != nil {
		h.Fatal(err)
	}
	fields = slices.DeleteFunc(fields, func(f plan.Field) bool {
		return f.Path == "metadata.finalizers" || strings.Contains(f.Path, "deployment.kubernetes.io/revision")
	})
	for _, f := range fields {
		lines = append(lines, fmt.Sprintf("%s %s %s", plan.Change, name, f.Path))
	}
	if len(fields) > 0 || h.hashOf(was) != h.hashOf(is) {
		lines = append(lines, fmt.Sprintf("%s %s", plan.Change, name))
	}
	return lines
}
