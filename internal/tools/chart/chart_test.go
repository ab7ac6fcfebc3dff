package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const repository = "../../.."

// bin is a directory with helm, skiff and skiff-dev.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if bin, err = os.MkdirTemp("", "skiff-chart-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(bin)
		for dir, packages := range map[string]string{".": "helm.sh/helm/v4/cmd/helm", repository: "./cmd/..."} {
			cmd := exec.Command("go", "build", "-trimpath", "-o", bin+"/", packages)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build %s: %v\n%s", packages, err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// command is one that finds the programs of bin, in the repository, with a home of its own.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	if path := filepath.Join(bin, name); exec.Command(path).Err == nil {
		name = path
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=",
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return cmd
}

// output is what a program prints, which has to end well.
func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := command(t, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.Bytes())
	}
	return out.Bytes()
}

type object = map[string]any

// objects reads documents by kind, namespace and name. The rules of a role are a set of what it grants.
func objects(t *testing.T, text []byte) map[string]object {
	t.Helper()
	out := map[string]object{}
	for docs := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc object
		if err := docs.Decode(&doc); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if doc == nil {
			continue
		}
		meta, _ := doc["metadata"].(object)
		id := fmt.Sprintf("%v %v/%v", doc["kind"], meta["namespace"], meta["name"])
		if out[id] != nil {
			t.Fatalf("%s is there twice", id)
		}
		if rules, ok := doc["rules"].([]any); ok {
			doc["rules"] = grants(rules)
		}
		out[id] = doc
	}
}

// grants are "apps/deployments/ get" for each resource and verb of the rules.
func grants(rules []any) map[string]bool {
	out := map[string]bool{}
	list := func(v any) []any { l, _ := v.([]any); return l }
	for _, rule := range rules {
		r, _ := rule.(object)
		for _, group := range list(r["apiGroups"]) {
			for _, resource := range list(r["resources"]) {
				for _, verb := range list(r["verbs"]) {
					out[fmt.Sprintf("%v/%v %v", group, resource, verb)] = true
				}
			}
		}
	}
	return out
}

// The Namespace is helm's: `helm install --create-namespace`.
func TestTheChartRendersWhatManifestsPrints(t *testing.T) {
	for _, c := range []struct{ flags, values []string }{
		{},
		{[]string{"--crds"}, []string{"--include-crds"}},
		{[]string{"--image=example.com/skiff:v1", "--replicas=3", "-n=ops"},
			[]string{"--set=image=example.com/skiff:v1,replicas=3", "-n=ops"}},
		{[]string{"--controllers=redis"}, []string{"--set=controllers={redis}"}},
		{[]string{"--controllers=webserver,restart", "--namespaced=shop,blog,shop", "-n=blog"},
			[]string{"--set=controllers={webserver,restart},namespaced={shop,blog,shop}", "-n=blog"}},
		{[]string{"--watch-namespace-selector=team in (a,b)", "--controllers=webserver,redis"},
			[]string{`--set=watchNamespaceSelector=team in (a\,b),controllers={webserver,redis}`}},
		{[]string{"--rbac-only"}, []string{"--set=rbacOnly=true"}},
		{[]string{"--restart-sources=pods,secrets"}, []string{"--set=restartSources={pods,secrets}"}},
		{[]string{"--restart-sources=configmaps", "--controllers=restart"},
			[]string{"--set=restartSources={configmaps},controllers={restart}"}},
		{nil, []string{"--set=restartSources=null"}},
		{[]string{"--", "--template-policy=restricted", "-v=1"},
			[]string{"--set=args[0]=--template-policy=restricted", "--set-string=args[1]=-v=1"}},
	} {
		want := objects(t, output(t, "skiff", append([]string{"manifests"}, c.flags...)...))
		maps.DeleteFunc(want, func(id string, _ object) bool { return strings.HasPrefix(id, "Namespace ") })
		values := append([]string{"template", "skiff", "examples/chart", "-n=skiff"}, c.values...)
		have := objects(t, output(t, "helm", values...))
		if len(have) < 5 {
			t.Errorf("%q: there are only %d objects", c.values, len(have))
		}
		for id := range maps.Keys(union(want, have)) {
			if !reflect.DeepEqual(have[id], want[id]) {
				t.Errorf("%q: %s is\n%v\nand of `skiff manifests`\n%v", c.values, id, have[id], want[id])
			}
		}
	}
}

func union(a, b map[string]object) map[string]object {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func TestValuesThatCannotBeRightAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"controllers={web}":    "'/controllers/0'",
		"replica=3":            "'replica'",
		"restartSources={pod}": "'/restartSources/0'",
		"replicas=0":           "'/replicas'",
		"namespaced={a},watchNamespaceSelector=a": "give one of them",
	} {
		cmd := command(t, "helm", "template", "skiff", "examples/chart", "--set", values)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}

// The commands are those of the chart's README, from top to bottom.
func TestTheChartIsInstalledOnSkiffDev(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl on this machine")
	}
	text, err := os.ReadFile(filepath.Join(repository, "examples/chart/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^    ((?:helm|kubectl|skiff) .*)`).FindAllStringSubmatch(string(text), -1)
	if len(commands) < 5 {
		t.Fatalf("%d commands were found: this test no longer understands the README of the chart", len(commands))
	}
	script := "set -eux\n"
	for _, c := range commands {
		script += c[1] + "\n"
	}
	output(t, "skiff-dev", "--controllers", "none", "--", "sh", "-c", script)
}
