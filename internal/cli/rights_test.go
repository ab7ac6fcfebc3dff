package cli

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"skiff/internal/kube"
	"skiff/internal/leader"
	"skiff/internal/operators/restart"
)

var update = flag.Bool("update", false, "write the Roles of examples/ and the README's table anew")

// TestTheWrittenRightsAreTheDeclaredOnes fails where a Role or the README's table is not what the controllers declare;
// with -update it writes them.
func TestTheWrittenRightsAreTheDeclaredOnes(t *testing.T) {
	var all []kube.Right
	for _, op := range operators {
		all = append(all, op.rights...)
	}
	written(t, "README.md", "| resource | verbs | for |\n|---|---|---|\n", "\n",
		rightsTable(union(append(slices.Clip(all), leader.Rights...))))
	written(t, "examples/rbac.yaml", "name: skiff-leader-election\n  namespace: skiff\nrules:\n", "---\n",
		rules(union(leader.Rights), nil))
	written(t, "examples/rbac.yaml", "kind: ClusterRole\nmetadata:\n  name: skiff\nrules:\n",
		"---\n", rules(union(all), nil))
	o, names := sidecarOptions(t)
	written(t, "examples/sidecar.yaml", "name: predixy-restart\nrules:\n", "---\n", rules(union(o.Rights()), names))
}

// sidecarOptions are the targets that the example's sidecar is told, and their names.
func sidecarOptions(t *testing.T) (o restart.StandaloneOptions, names []string) {
	t.Helper()
	text := read(t, "examples/sidecar.yaml")
	for _, m := range regexp.MustCompile(`--target=(\S+)`).FindAllStringSubmatch(text, -1) {
		target, err := restart.ParseTarget(m[1])
		if err != nil {
			t.Fatal(err)
		}
		o.Spec.Targets, names = append(o.Spec.Targets, target), append(names, target.Name)
	}
	if len(names) == 0 {
		t.Fatal("examples/sidecar.yaml has no --target")
	}
	return o, names
}

// written compares the text of a file between two marks with what it should be.
func written(t *testing.T, name, begin, end, want string) {
	t.Helper()
	text := read(t, name)
	before, rest, found := strings.Cut(text, begin)
	have, after, foundEnd := strings.Cut(rest, "\n"+end)
	if !found || !foundEnd {
		t.Fatalf("%s: there is no place for the rights between %q and %q", name, begin, end)
	}
	if have+"\n" == want {
		return
	}
	if !*update {
		t.Errorf("%s is not what the controllers declare: run `make generate`. It has\n%s\nwant\n%s", name, have, want)
		return
	}
	if err := os.WriteFile(repositoryFile(name), []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func repositoryFile(name string) string { return filepath.Join("..", "..", name) }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(repositoryFile(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// row is one rule of a Role: resources of one API group that need the same verbs for the same reasons.
type row struct {
	group     string
	resources []string
	verbs     []string
	why       []string
}

// verbs in the order in which a Role lists them.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

// union makes rows of rights, with one row for a resource that several controllers need.
func union(rights []kube.Right) []row {
	of := map[string]*row{} // by resource
	var order []string
	for _, r := range rights {
		name := r.Resource.Plural
		if r.Subresource != "" {
			name += "/" + r.Subresource
		}
		key := r.Resource.Group + " " + name
		if of[key] == nil {
			of[key] = &row{group: r.Resource.Group, resources: []string{name}}
			order = append(order, key)
		}
		w := of[key]
		w.verbs = append(w.verbs, r.Verbs...)
		if !slices.Contains(w.why, r.Why) {
			w.why = append(w.why, r.Why)
		}
	}
	var out []row
	for _, key := range order {
		w := of[key]
		w.verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return !slices.Contains(w.verbs, v) })
		i := slices.IndexFunc(out, func(o row) bool {
			return o.group == w.group && slices.Equal(o.verbs, w.verbs) && slices.Equal(o.why, w.why)
		})
		if i < 0 {
			out = append(out, *w)
			continue
		}
		out[i].resources = append(out[i].resources, w.resources...)
	}
	first := []string{"skiff.dev", "apps", "", "events.k8s.io", "coordination.k8s.io"}
	slices.SortStableFunc(out, func(a, b row) int {
		return slices.Index(first, a.group) - slices.Index(first, b.group)
	})
	return out
}

// rules writes rows as the rules of a Role. Those that write are for the objects of these names only, if there are
// any.
func rules(rows []row, names []string) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "  # %s\n  - apiGroups: [%s]\n    resources: [%s]\n", strings.Join(r.why, "; "),
			cmp.Or(r.group, `""`), strings.Join(r.resources, ", "))
		if len(names) > 0 && slices.Contains(r.verbs, "patch") {
			fmt.Fprintf(&b, "    resourceNames: [%s] # and no other\n", strings.Join(names, ", "))
		}
		fmt.Fprintf(&b, "    verbs: [%s]\n", strings.Join(r.verbs, ", "))
	}
	return b.String()
}

// rightsTable writes rows as those of the README's table.
func rightsTable(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		group := ""
		if r.group != "" {
			group = " (" + r.group + ")"
		}
		fmt.Fprintf(&b, "| %s%s | %s | %s |\n", strings.Join(r.resources, ", "), group, strings.Join(r.verbs, " "),
			strings.Join(r.why, "; "))
	}
	return b.String()
}
