package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

var versions = flag.Bool("versions", false, "compare older versions of Kubernetes with their sources and servers, "+
	"which are downloaded and built")

// The table of versions is that of the sources of Kubernetes, but for what a gate drops, which no source lists.
func TestVersionTableIsThatOfTheSources(t *testing.T) {
	if !*versions {
		t.Skip("downloads five versions of Kubernetes: run it with -versions")
	}
	file := filepath.Join(repository, "internal", "testcluster", "apiserver", "features", "versions.txt")
	have := string(must(os.ReadFile(file))(t))
	var head, drops, named []string
	for line := range strings.Lines(have) {
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "#", "#\n":
			head = append(head, line)
		case "drops", "grant":
			drops = append(drops, line)
		case "version":
			named = append(named, strings.Fields(rest)[1])
		}
	}
	v := versionTable{gates: map[string]string{}}
	for _, version := range named {
		v.add(t, version)
	}
	want := strings.Join(head, "") + "\n" + v.text() + "\n" + strings.Join(drops, "")
	if *update {
		noError(t, os.WriteFile(file, []byte(want), 0o644))
	} else if have != want {
		t.Errorf("%s is not what the sources say: run this test with -update and look at the difference", file)
	}
}

// The roles of a new cluster grant what those of its version do. How the rules put it together differs.
func TestRolesOfOlderVersionsAreThoseOfTheSources(t *testing.T) {
	if !*versions {
		t.Skip("downloads five versions of Kubernetes: run it with -versions")
	}
	for _, version := range features.Versions() {
		set := must(features.New(version, ""))(t)
		file := filepath.Join(downloaded(t, "k8s.io/kubernetes", set.Version()), "plugin", "pkg", "auth", "authorizer",
			"rbac", "bootstrappolicy", "testdata", "cluster-roles.yaml")
		var list struct{ Items []map[string]any }
		noError(t, yaml.Unmarshal(must(os.ReadFile(file))(t), &list))
		want := map[string][]string{}
		for _, role := range list.Items {
			want[obj.String(role, "metadata", "name")] = granted(role)
		}
		for line := range bytes.Lines(auth.Bootstrap) {
			var role map[string]any
			noError(t, json.Unmarshal(line, &role))
			if obj.String(role, "kind") != "ClusterRole" {
				continue
			}
			auth.KeepGranted(role, set)
			name := obj.String(role, "metadata", "name")
			if got := granted(role); !slices.Equal(got, want[name]) {
				t.Errorf("%s: %s grants\n%s\nwant\n%s", version, name, got, want[name])
			}
		}
	}
}

// granted has each verb on each resource of each group, and on each path, in order.
func granted(role map[string]any) (out []string) {
	for _, rule := range obj.Maps(role, "rules") {
		for _, verb := range obj.Texts(rule, "verbs") {
			for _, path := range obj.Texts(rule, "nonResourceURLs") {
				out = append(out, verb+" "+path)
			}
			for _, group := range obj.Texts(rule, "apiGroups") {
				for _, resource := range obj.Texts(rule, "resources") {
					out = append(out, fmt.Sprint(verb, " ", group, "/", resource, rule["resourceNames"]))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// versionTable collects the lines of the table, the oldest version first.
type versionTable struct {
	versions, kinds, fields []string
	gates                   map[string]string // the line of each
	before                  map[string]Object // the schemas of the version before
	last                    map[string]bool   // its gates
}

func (v *versionTable) text() string {
	slices.Sort(v.kinds)
	slices.Sort(v.fields)
	var gates []string
	for _, name := range slices.Sorted(maps.Keys(v.gates)) {
		gates = append(gates, "gate "+name+v.gates[name])
	}
	var out []string
	for _, part := range [][]string{v.versions, v.kinds, v.fields, gates} {
		out = append(out, strings.Join(part, "\n")+"\n")
	}
	return strings.Join(out, "\n")
}

// add reads the sources of a version: its OpenAPI document, and the defaults of its feature gates.
func (v *versionTable) add(t *testing.T, version string) {
	minor := strings.Split(version, ".")[1]
	v.versions = append(v.versions, "version "+minor+" "+version)
	source := downloaded(t, "k8s.io/kubernetes", version)
	var document struct{ Definitions map[string]Object }
	noError(t, json.Unmarshal(must(os.ReadFile(filepath.Join(source, "api", "openapi-spec", "swagger.json")))(t),
		&document))
	types := map[string]Object{}
	for name, schema := range document.Definitions {
		types[tableName(name)] = schema
	}
	if v.before != nil {
		v.came(minor, types)
	}
	v.before = types

	gates := map[string]bool{}
	for module, version := range map[string]string{"k8s.io/kubernetes": version,
		"k8s.io/apiserver":               "v0" + strings.TrimPrefix(version, "v1"),
		"k8s.io/apiextensions-apiserver": "v0" + strings.TrimPrefix(version, "v1")} {
		readGates(t, filepath.Join(downloaded(t, module, version), "pkg", "features"), minor, gates)
	}
	for name, on := range gates {
		if was, known := v.last[name]; !known || was != on {
			v.gates[name] += " " + minor + map[bool]string{true: " on", false: " off"}[on]
		}
	}
	v.last = gates
}

// came adds the kinds and fields, of those that the embedded server has, that the version before did not have.
func (v *versionTable) came(minor string, types map[string]Object) {
	for _, k := range kinds.Builtin(features.Set{}) {
		of := tableKind{k.APIVersion(), k.Kind}
		if schemas(types).of(of) != "" && schemas(v.before).of(of) == "" {
			v.kinds = append(v.kinds, "kind "+minor+" "+of.apiVersion+" "+of.kind)
		}
	}
	for name, fields := range tableFields() {
		was, is := v.before[name], types[name]
		var came []string
		for _, field := range fields {
			if was != nil && is["properties"] != nil && objectAt(is, "properties")[field] != nil &&
				objectAt(was, "properties")[field] == nil {
				came = append(came, field)
			}
		}
		if len(came) > 0 {
			v.fields = append(v.fields, "field "+minor+" "+name+" "+strings.Join(came, " "))
		}
	}
}

// tableName is the name of a type in the table of fields.
func tableName(schema string) string {
	for _, prefix := range []string{"io.k8s.apiextensions-apiserver.pkg.apis.", "io.k8s.kube-aggregator.pkg.apis.",
		"io.k8s.apimachinery.pkg.apis.", "io.k8s.api."} {
		if rest, ok := strings.CutPrefix(schema, prefix); ok {
			return rest
		}
	}
	return schema
}

// tableFields are the fields of each type of the built-in kinds, in order.
func tableFields() map[string][]string {
	all := map[string]any{}
	for _, k := range kinds.Builtin(features.Set{}) {
		k.Type.Schemas(all)
	}
	out := map[string][]string{}
	for name, schema := range all {
		out[tableName(name)] = slices.Sorted(maps.Keys(objectAt(schema.(map[string]any), "properties")))
	}
	return out
}

// downloaded returns the directory of a module's source.
func downloaded(t *testing.T, module, version string) string {
	t.Helper()
	out := must(goTool(t.Context(), t.TempDir(), nil, "mod", "download", "-json", module+"@"+version))(t)
	var of struct{ Dir string }
	noError(t, json.Unmarshal([]byte(out), &of))
	return of.Dir
}

// readGates adds the gates that the files of a directory declare, with their defaults in a version.
func readGates(t *testing.T, dir, minor string, gates map[string]bool) {
	var files []*ast.File
	for _, name := range must(filepath.Glob(filepath.Join(dir, "*.go")))(t) {
		files = append(files, must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t))
	}
	names := map[string]string{} // of the gates, by their constants
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, value := range spec.Values {
					if text, ok := value.(*ast.BasicLit); ok && text.Kind == token.STRING {
						names[spec.Names[i].Name], _ = strconv.Unquote(text.Value)
					}
				}
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			entry, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			specs, ok := entry.Value.(*ast.CompositeLit)
			if !ok || specs.Type != nil {
				return true
			}
			constant := ""
			switch key := entry.Key.(type) {
			case *ast.Ident:
				constant = key.Name
			case *ast.SelectorExpr:
				constant = key.Sel.Name
			}
			if on, ok := defaultIn(specs, minor); ok && constant != "" {
				gates[cmp.Or(names[constant], constant)] = on // those of other modules are named as their constants
			}
			return true
		})
	}
}

// defaultIn returns the default of a gate in a version, from {Version: version.MustParse("1.33"), Default: true, ...}
// for each version that changed it.
func defaultIn(specs *ast.CompositeLit, minor string) (on, ok bool) {
	want, _ := strconv.Atoi(minor)
	for _, element := range specs.Elts {
		spec, isLit := element.(*ast.CompositeLit)
		if !isLit {
			continue
		}
		since, state := -1, false
		for _, field := range spec.Elts {
			pair, isPair := field.(*ast.KeyValueExpr)
			if !isPair {
				continue
			}
			switch fmt.Sprint(pair.Key) {
			case "Version":
				if call, isCall := pair.Value.(*ast.CallExpr); isCall && len(call.Args) == 1 {
					text, _ := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
					since, _ = strconv.Atoi(strings.TrimPrefix(text, "1."))
				}
			case "Default":
				state = fmt.Sprint(pair.Value) == "true"
			}
		}
		if since >= 0 && since <= want {
			on, ok = state, true
		}
	}
	return on, ok
}
