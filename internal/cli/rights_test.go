package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"skiff/internal/install/manifests"
	"skiff/internal/operators/restart"
	"skiff/internal/runtime/labels"
)

var update = flag.Bool("update", false, "write the table of rights in SECURITY.md and the Roles of examples/ anew")

// TestTheWrittenRightsAreTheDeclaredOnes fails where a Role or the table in SECURITY.md is not what the controllers
// declare; with -update it writes them.
func TestTheWrittenRightsAreTheDeclaredOnes(t *testing.T) {
	all := rightsOf(ControllerNames(), restart.Sources{})
	written(t, "SECURITY.md", "| resource | verbs | for |\n|---|---|---|\n", "\n",
		rightsTable(manifests.Rules(append(slices.Clip(all), electionRights...))))
	spec, names := sidecarSpec(t)
	sidecar := manifests.Rules(spec.Rights())
	for i, rule := range sidecar {
		if slices.Contains(rule.Verbs, "patch") {
			sidecar[i].Names = names
		}
	}
	written(t, "examples/sidecar.yaml", "name: predixy-restart\nrules:\n", "---\n", manifests.YAML(sidecar))
	install := printed(t, "manifests")
	if *update {
		noError(t, os.WriteFile(repositoryFile("examples/install.yaml"), []byte(install), 0o644))
	}
	if read(t, "examples/install.yaml") != install {
		t.Error("examples/install.yaml is not what `skiff manifests` prints: run `make generate`")
	}
}

// sidecarSpec has the pods and the targets that the example's sidecar is told, and the targets' names.
func sidecarSpec(t *testing.T) (spec restart.Spec, names []string) {
	t.Helper()
	text := read(t, "examples/sidecar.yaml")
	for _, m := range regexp.MustCompile(`--target=(\S+)`).FindAllStringSubmatch(text, -1) {
		target := must(parseTarget(m[1]))(t)
		spec.Targets, names = append(spec.Targets, target), append(names, target.Name)
	}
	selector := regexp.MustCompile(`--selector=(\S+)`).FindStringSubmatch(text)
	if len(names) == 0 || selector == nil {
		t.Fatal("examples/sidecar.yaml has no --target or no --selector")
	}
	spec.Source.Selector = must(labels.Parse(selector[1]))(t)
	return spec, names
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
	noError(t, os.WriteFile(repositoryFile(name), []byte(before+begin+want+end+after), 0o644))
}

func repositoryFile(name string) string { return filepath.Join("..", "..", name) }

func read(t *testing.T, name string) string {
	t.Helper()
	text := must(os.ReadFile(repositoryFile(name)))(t)
	return string(text)
}

// rightsTable writes rules as the rows of the table in SECURITY.md.
func rightsTable(rules []manifests.Rule) string {
	var b strings.Builder
	for _, r := range rules {
		group := ""
		if r.Group != "" {
			group = " (" + r.Group + ")"
		}
		fmt.Fprintf(&b, "| %s%s | %s | %s |\n", strings.Join(r.Resources, ", "), group, strings.Join(r.Verbs, " "),
			strings.Join(r.Why, "; "))
	}
	return b.String()
}
