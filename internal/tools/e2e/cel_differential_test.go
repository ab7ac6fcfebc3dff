package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/testcluster/cel"
)

// ruled is a definition whose schema has rules of all sorts.
const ruled = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"ruleds.cel.skiff.dev"},"spec":{"group":"cel.skiff.dev","scope":"Namespaced",
"names":{"plural":"ruleds","singular":"ruled","kind":"Ruled","listKind":"RuledList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"selectableFields":[{"jsonPath":".spec.color"},{"jsonPath":".spec.min"}],
"schema":{"openAPIV3Schema":{"type":"object",
"x-kubernetes-validations":[{"rule":"self.metadata.name != 'bad'","message":"no bad names"}],
"properties":{"spec":{"type":"object",
"x-kubernetes-validations":[
{"rule":"!has(self.min) || !has(self.max) || self.min <= self.max","messageExpression":
"'max is below min' + (has(self.color) ? ' for ' + self.color : '')","reason":"FieldValueForbidden","fieldPath":".min"},
{"rule":"!has(oldSelf.color) || has(self.color)","message":"color is needed once it is set"}],
"properties":{"min":{"type":"integer"},"max":{"type":"integer","maximum":100},
"color":{"type":"string","maxLength":20,"x-kubernetes-validations":[{"rule":"self == oldSelf","message":"color is fixed"}]},
"size":{"type":"string","maxLength":20,"x-kubernetes-validations":[
{"rule":"isQuantity(self) && quantity(self).isGreaterThan(quantity('1Mi'))"}]},
"once":{"type":"string","maxLength":20,"x-kubernetes-validations":[
{"rule":"oldSelf.hasValue() || self == 'first'","optionalOldSelf":true,"message":"must start as first"}]},
"list":{"type":"array","maxItems":10,"items":{"type":"string","maxLength":10,"x-kubernetes-validations":[
{"rule":"self.startsWith('a')"}]}},
"map":{"type":"object","maxProperties":5,"additionalProperties":{"type":"integer","x-kubernetes-validations":[
{"rule":"self % 2 == 0","message":"must be even"}]}},
"any":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true,"x-kubernetes-validations":[
{"rule":"type(self) == int ? self < 10 : self == 'all'","message":"below 10, or all"}]},
"words":{"type":"array","maxItems":50,"items":{"type":"string","maxLength":50},"x-kubernetes-validations":[
{"rule":"self.all(x, self.exists(y, y == x))"}]}
}},"status":{"type":"object","x-kubernetes-validations":[{"rule":"self.count >= oldSelf.count","message":"goes down"}],
"properties":{"count":{"type":"integer","default":0}}}}}}}]}}`

// definitionWith is a definition with rules for its spec, which has a string s and a list l.
func definitionWith(rules, more string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":
	"wrongs.cel.skiff.dev"},"spec":{"group":"cel.skiff.dev","scope":"Namespaced","names":{"plural":"wrongs",
	"kind":"Wrong"},"versions":[{"name":"v1","served":true,"storage":true` + more + `,"schema":{"openAPIV3Schema":{
	"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[` + rules + `],"properties":{
	"s":{"type":"string"},"l":{"type":"array","items":{"type":"string"}}}}}}}}]}}`
}

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	ruledPath       = "/apis/cel.skiff.dev/v1/${ns}/ruleds"
)

// celScript writes definitions with rules, right and wrong ones, and objects that keep to them and do not.
var celScript = Script{Name: "cel", Steps: slicesOf(
	refusedDefinitions(),
	[]Step{
		{Name: "define", Method: "POST", Path: definitionsPath, Body: ruled},
		{Name: "is served", Path: ruledPath, Until: "RuledList"},
		ruledStep("good", `{"min":1,"max":2,"color":"red","size":"1Gi","list":["a","ab"],"map":{"a":2},"any":"all",
			"once":"first"}`),
		ruledStep("bad", `{}`),
		ruledStep("min", `{"min":3,"max":2}`),
		ruledStep("blocked", `{"min":"x","max":2}`),
		ruledStep("beside", `{"min":300,"max":200}`),
		ruledStep("size", `{"size":"1k"}`),
		ruledStep("list", `{"list":["a","b","c"]}`),
		ruledStep("map", `{"map":{"x":3,"y":2,"z z":5}}`),
		ruledStep("any", `{"any":10}`),
		ruledStep("once", `{"once":"second"}`),
		change("color", `{"spec":{"color":"blue"}}`),
		change("no color", `{"spec":{"color":null}}`),
		change("once", `{"spec":{"once":"second"}}`),
		change("minimum", `{"spec":{"min":7}}`),
		change("unrelated", `{"metadata":{"labels":{"a":"b"}}}`),
		{Name: "status", Method: "PATCH", Path: ruledPath + "/good/status", Type: "application/merge-patch+json",
			Body: `{"status":{"count":3}}`},
		{Name: "status goes down", Method: "PATCH", Path: ruledPath + "/good/status",
			Type: "application/merge-patch+json", Body: `{"status":{"count":2}}`},
		{Name: "apply", Method: "PATCH", Path: ruledPath + "/good?fieldManager=f&force=true",
			Type: "application/apply-patch+yaml", Body: `{"apiVersion":"cel.skiff.dev/v1","kind":"Ruled",
			"metadata":{"name":"good"},"spec":{"min":8,"max":4}}`},
		{Name: "by color", Path: ruledPath + "?fieldSelector=spec.color%3Dred"},
		{Name: "by another", Path: ruledPath + "?fieldSelector=spec.color%3Dblue,spec.min%3D1"},
		{Name: "by what is not selectable", Path: ruledPath + "?fieldSelector=spec.size%3D1"},
	},
)}

// selectableScript is for both servers without CEL.
var selectableScript = Script{Name: "selectable", Steps: []Step{
	{Name: "wrong", Method: "POST", Path: definitionsPath, Body: definitionWith("", `,"selectableFields":[
		{"jsonPath":".spec.x"},{"jsonPath":".spec.l"},{"jsonPath":".metadata.name"},{"jsonPath":".spec.s"},
		{"jsonPath":".spec.s"},{"jsonPath":""}]`)},
	{Name: "define", Method: "POST", Path: definitionsPath, Body: definitionWith("",
		`,"selectableFields":[{"jsonPath":".spec.s"}]`)},
	{Name: "is served", Path: "/apis/cel.skiff.dev/v1/${ns}/wrongs", Until: "WrongList"},
	{Name: "create a", Method: "POST", Path: "/apis/cel.skiff.dev/v1/${ns}/wrongs", Body: `{"apiVersion":
		"cel.skiff.dev/v1","kind":"Wrong","metadata":{"name":"a"},"spec":{"s":"x"}}`},
	{Name: "create b", Method: "POST", Path: "/apis/cel.skiff.dev/v1/${ns}/wrongs", Body: `{"apiVersion":
		"cel.skiff.dev/v1","kind":"Wrong","metadata":{"name":"b"},"spec":{}}`},
	{Name: "x", Path: "/apis/cel.skiff.dev/v1/${ns}/wrongs?fieldSelector=spec.s%3Dx"},
	{Name: "not x", Path: "/apis/cel.skiff.dev/v1/${ns}/wrongs?fieldSelector=spec.s!%3Dx"},
	{Name: "another", Path: "/apis/cel.skiff.dev/v1/${ns}/wrongs?fieldSelector=spec.l%3Dx"},
	{Name: "watch", Path: "/apis/cel.skiff.dev/v1/${ns}/wrongs?watch=1&fieldSelector=spec.s%3Dx", Events: 1},
}}

func slicesOf(lists ...[]Step) (out []Step) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func refusedDefinitions() (out []Step) {
	for name, d := range map[string][2]string{
		"no rule":           {`{"rule":""}`, ""},
		"not CEL":           {`{"rule":"self.s =="}`, ""},
		"no such field":     {`{"rule":"self.t == 'a'"}`, ""},
		"no boolean":        {`{"rule":"self.s"}`, ""},
		"costly":            {`{"rule":"self.l.all(x, self.l.all(y, x != y))"}`, ""},
		"bad message":       {`{"rule":"true","messageExpression":"self.t"}`, ""},
		"bad reason":        {`{"rule":"true","reason":"Because"}`, ""},
		"bad path":          {`{"rule":"true","fieldPath":".t"}`, ""},
		"optional for none": {`{"rule":"true","optionalOldSelf":true}`, ""},
		"unknown selectable field": {`{"rule":"true"}`, `,"selectableFields":[{"jsonPath":".spec.x"},{"jsonPath":".spec.l"},
			{"jsonPath":".metadata.name"},{"jsonPath":".spec.s"},{"jsonPath":".spec.s"}]`},
	} {
		out = append(out, Step{Name: "refused: " + name, Method: "POST", Path: definitionsPath,
			Body: definitionWith(d[0], d[1])})
	}
	return out
}

func ruledStep(name, spec string) Step {
	return Step{Name: "create " + name, Method: "POST", Path: ruledPath, Body: `{"apiVersion":"cel.skiff.dev/v1",
		"kind":"Ruled","metadata":{"name":"` + name + `"},"spec":` + spec + `}`}
}

func change(name, body string) Step {
	return Step{Name: "change " + name, Method: "PATCH", Path: ruledPath + "/good",
		Type: "application/merge-patch+json", Body: body}
}

// What skiff-dev does with rules in CEL is what a real server does, in its words.
func TestSkiffDevEvaluatesRulesAsTheRealServer(t *testing.T) {
	cluster := ownCluster(t)
	runDifferential(t, selectableScript, cluster.Admin, startFake(t), nil)
	if !t.Failed() {
		runDifferential(t, celScript, cluster.Admin, startWithCEL(t), nil)
	}
}

// others are Go modules with definitions that have rules in CEL, and where the definitions are. The modules' proxy has
// their files; nothing of them is built.
var others = map[string][]string{
	"sigs.k8s.io/gateway-api@v1.4.0": {"config/crd/standard/*.yaml"},
	"sigs.k8s.io/karpenter@v1.8.0":   {"pkg/apis/crds/*.yaml"},
	"sigs.k8s.io/cluster-api@v1.11.0": {"config/crd/bases/*.yaml", "controlplane/kubeadm/config/crd/bases/*.yaml",
		"bootstrap/kubeadm/config/crd/bases/*.yaml"},
}

// The definitions of well-known projects get the same answer as from a real server, and so do the objects that the
// authors of one know to be wrong.
func TestSkiffDevServesTheDefinitionsOfOthers(t *testing.T) {
	cluster := ownCluster(t)
	fake := startWithCEL(t)
	script := Script{Name: "others"}
	add := func(path, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split("\n"+string(text), "\n---") {
			if strings.Contains(part, "kind:") {
				script.Steps = append(script.Steps, Step{Name: fmt.Sprint(filepath.Base(file), " ", i), Method: "POST",
					Path: path, Type: "application/yaml", Body: part})
			}
		}
	}
	for _, module := range slices.Sorted(maps.Keys(others)) {
		dir := downloadModule(t, module)
		for _, pattern := range others[module] {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("no files %s in %s: %v", pattern, module, err)
			}
			for _, file := range files {
				add(definitionsPath, file)
			}
		}
	}
	definitions := len(script.Steps)
	const gateway = "/apis/gateway.networking.k8s.io/v1/"
	wrong := filepath.Join(downloadModule(t, "sigs.k8s.io/gateway-api@v1.4.0"), "hack", "invalid-examples", "standard")
	for kind, plural := range map[string]string{"gatewayclass": "", "gateway": "gateways", "httproute": "httproutes"} {
		files, err := filepath.Glob(filepath.Join(wrong, kind, "*.yaml"))
		if err != nil || plural != "" && len(files) == 0 {
			t.Fatalf("no wrong %s: %v", kind, err)
		}
		if plural != "" {
			script.Steps = append(script.Steps, Step{Name: kind + " is served", Path: gateway + "${ns}/" + plural,
				Until: "resourceVersion"})
		}
		for _, file := range files {
			if plural != "" {
				add(gateway+"${ns}/"+plural, file)
			}
		}
	}
	t.Logf("%d definitions, %d wrong objects", definitions, len(script.Steps)-definitions)
	runDifferential(t, script, cluster.Admin, fake, nil)
}

// downloadModule returns the directory of a module's files.
func downloadModule(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v: %s", module, err, out)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

// startWithCEL is startFake with CEL.
func startWithCEL(t *testing.T) *API {
	t.Helper()
	return startFakeWith(t, cel.New())
}
