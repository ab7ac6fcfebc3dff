package offline

import (
	"fmt"
	"maps"
	"slices"

	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// doing are the verbs for a child that differs.
var doing = map[spec.Method]string{spec.OnDelete: "keep", spec.InPlace: "change", spec.RollingInPlace: "change",
	spec.Recreate: "recreate", spec.RollingRecreate: "recreate"}

// Differences returns the changes by an answer, a line each: the children in the order of the answer, the children to
// be deleted, and the parent. The files do not show which fields the controller has set before, and so a field no
// longer declared is no difference.
func (t *Trial) Differences(answer *wire.Answer, children []apply.Child) (lines []string, err error) {
	wanted := map[*reconcile.Object]bool{}
	for i, c := range answer.Children {
		r := t.options.Children[c.Kind]
		at := slices.IndexFunc(t.children, func(o *object) bool { return o.is(r) && o.Key() == c.Key })
		if at < 0 {
			lines = append(lines, fmt.Sprintf("create %s %s", r.Kind, c.Key))
			continue
		}
		live := t.children[at].Object
		wanted[live] = true
		same, path, err := compare(r, live, children[i].Body)
		if err != nil {
			return nil, err
		}
		if method := t.spec.Children[c.Kind].Method; !same {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s (%s)", doing[method], r.Kind, c.Key, path, method))
		}
	}
	for _, o := range t.children {
		if !wanted[o.Object] && !o.Deleting() && slices.ContainsFunc(t.options.Children, o.is) {
			lines = append(lines, fmt.Sprintf("delete %s %s", o.Kind, o.Key()))
		}
	}
	own, err := t.parentDifferences(answer)
	for _, field := range own {
		lines = append(lines, fmt.Sprintf("change %s %s: %s", t.options.Parent.Kind, t.parent.Key(), field))
	}
	return lines, err
}

// compare says whether an object is as declared; if not, path names the first difference. The owner references are
// left out: in a file, they have the uid of another parent.
func compare(r kube.Resource, live *reconcile.Object, body map[string]any) (same bool, path string, err error) {
	have, err := reconcile.Decode(r, live)
	if err != nil {
		return false, "", err
	}
	want := maps.Clone(body)
	meta, _ := want["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	delete(meta, "ownerReferences")
	want["metadata"] = meta
	same, path = patch.Covered(patch.SchemaFor(r.APIVersion(), r.Kind), want, have)
	return same, path, nil
}

// parentDifferences returns the fields of the parent changed by an answer.
func (t *Trial) parentDifferences(answer *wire.Answer) (fields []string, err error) {
	have, err := reconcile.Decode(t.options.Parent.Resource, t.parent)
	if err != nil {
		return nil, err
	}
	for name, changes := range map[string]map[string]*string{"annotations": answer.Annotations,
		"labels": answer.Labels} {
		meta, _ := have["metadata"].(map[string]any)
		now, _ := meta[name].(map[string]any)
		for key, value := range changes {
			if old, ok := now[key].(string); ok != (value != nil) || ok && old != *value {
				fields = append(fields, "metadata."+name+"."+key)
			}
		}
	}
	slices.Sort(fields)
	status, _ := have["status"].(map[string]any)
	want := answer.Status
	if t.spec.IsComposite() {
		want = maps.Clone(want)
		if want == nil {
			want = map[string]any{}
		}
		want["observedGeneration"] = t.parent.Generation
	}
	if want != nil && !patch.Equal(status, want) {
		fields = append(fields, "status")
	}
	return fields, nil
}
