package reload

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"skiff/internal/operators/workload"
	"skiff/internal/runtime/kube"
)

// theirCase is a change of a source beside one workload, and whether Reloader 1.4.21 itself restarted the workload.
type theirCase struct {
	Name        string
	Kind        string            // "": Deployment
	Workload    map[string]string // annotations
	Template    map[string]string // annotations of the pod template
	Refers      []string          // the sources that the pod template refers to
	By          string            // how; "": envFrom of the first of two containers
	Source      string
	Annotations map[string]string // of the source
	Old, New    map[string]string // data of the source; none: a value changes
	Event       string            // "": an update
	Reload      bool
}

// differences has the cases of which the result differs, by the number in the table of examples/reload/RELOADER.md.
var differences = map[int][]string{
	1: {"marker already equal, env-vars", "marker already equal, list, env-vars",
		"name with dot shares the marker variable"},
	3:  {"hash ambiguity"},
	4:  {"delete event, marker present", "delete event, annotations strategy"},
	5:  {"create event, marker absent"},
	7:  {"auto, ConfigMap by unmountedThenMountedVolume"},
	8:  {"list invalid entry before valid one", "list invalid regex and auto true"},
	11: {"pause-period invalid unit", "pause-period invalid text"},
	14: {"auto, CronJob", "auto in pod template, CronJob", "ignored type jobs, CronJob"},
	15: {"auto, Job", "ignored type Jobs (capital) ignores nothing"},
	19: {"all: no annotations, referenced", "all: auto empty", "all: configmap auto false, Secret changes",
		"all: secret auto true only, ConfigMap changes", "all: list names another, referenced",
		"all: search no match, referenced", "all: auto false in template hidden by search key on workload"},
}

func TestReloadersAnnotations(t *testing.T) {
	file, err := os.ReadFile("testdata/reloader-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []theirCase
	if err := json.Unmarshal(file, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d cases: %v", len(all), err)
	}
	differs := map[string]int{}
	for n, names := range differences {
		for _, name := range names {
			differs[name] = n
		}
	}
	for _, c := range all {
		n := differs[c.Name]
		delete(differs, c.Name)
		switch restarts := c.restarts(t); {
		case n == 0 && restarts != c.Reload:
			t.Errorf("%s: restarts is %v, with Reloader %v", c.Name, restarts, c.Reload)
		case n != 0 && restarts == c.Reload:
			t.Errorf("%s: restarts is %v as with Reloader: it is no case of difference %d", c.Name, restarts, n)
		}
	}
	for name, n := range differs {
		t.Errorf("difference %d names %q, which is no case", n, name)
	}
}

func TestTheTableHasTheDifferences(t *testing.T) {
	table, err := os.ReadFile("../../../examples/reload/RELOADER.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(table), -1)
	for i, row := range rows {
		if row[1] != fmt.Sprint(i+1) {
			t.Errorf("row %d has the number %s", i+1, row[1])
		}
	}
	for n := range differences {
		if n > len(rows) {
			t.Errorf("difference %d is not in the table of %d", n, len(rows))
		}
	}
}

// restarts says whether the workload is restarted for the change once it has been recorded.
func (c *theirCase) restarts(t *testing.T) bool {
	kind := c.Kind
	if kind == "" {
		kind = "Deployment"
	}
	if _, ok := workload.Kinds[kind]; !ok {
		return false
	}
	w := c.workload(t)
	_, recorded := c.compare(kind, w, c.Event != "create", values(c.Old, "old"))
	text, err := recorded.encode()
	if err != nil {
		t.Fatal(err)
	}
	w.Annotations = append(slices.Clone(w.Annotations), kube.Label{Key: StateAnnotation, Value: text})
	slices.SortFunc(w.Annotations, func(a, b kube.Label) int { return strings.Compare(a.Key, b.Key) })
	changes, _ := c.compare(kind, w, c.Event != "delete", values(c.New, "new"))
	return len(changes) > 0
}

// compare compares a workload to its sources while the source is there, with some data, or is not.
func (c *theirCase) compare(kind string, w *target, there bool, data []kube.NamedDigest) ([]change, state) {
	heads, contents := map[string]head{}, map[string]*content{}
	if there {
		heads[c.Source] = headOf(labels(c.Annotations))
		contents[c.Source] = &content{values: data}
	}
	return compare(w, wanted(w, kind, heads), contents)
}

// wanted returns what a workload wants, given the heads of the sources that there are.
func wanted(w *target, kind string, heads map[string]head) wants {
	out := (&reader{reloader: true}).wants(kind, w)
	if out.theirs != nil {
		out.add(out.theirs.entries(heads))
	}
	return out
}

// values returns data as a mirror keeps it; nil: one value.
func values(data map[string]string, value string) (out []kube.NamedDigest) {
	if data == nil {
		data = map[string]string{"k": value}
	}
	for _, k := range slices.Sorted(maps.Keys(data)) {
		d := kube.NamedDigest{Name: k}
		sum := sha256.Sum256([]byte(data[k]))
		copy(d.Digest[:], sum[:])
		out = append(out, d)
	}
	return out
}

func labels(of map[string]string) (out kube.Labels) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		out = append(out, kube.Label{Key: k, Value: of[k]})
	}
	return out
}

type object = map[string]any

// workload returns the workload as the mirror has it.
func (c *theirCase) workload(t *testing.T) *target {
	text, err := json.Marshal(object{"metadata": object{"name": "web", "namespace": "default", "uid": "u",
		"annotations": c.Workload}, "spec": object{"template": object{"metadata": object{"annotations": c.Template},
		"spec": c.podSpec()}}})
	if err != nil {
		t.Fatal(err)
	}
	w := new(target)
	if err := kube.Unmarshal(text, w); err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return w
}

// podSpec returns the pod spec with the references.
func (c *theirCase) podSpec() object {
	main, side, init := object{"name": "main"}, object{"name": "side"}, object{"name": "init"}
	volumes := []object{}
	spec := object{"containers": []object{main, side}, "initContainers": []object{init}}
	mount := func(into object, v object) {
		v["name"] = fmt.Sprint("v", len(volumes))
		volumes = append(volumes, v)
		if into != nil {
			into["volumeMounts"] = []object{{"name": v["name"]}}
		}
	}
	for _, source := range c.Refers {
		kind, name, _ := strings.Cut(source, "/")
		ofEnv, field, key := "configMap", "configMap", "name"
		if kind == "secret" {
			ofEnv, field, key = "secret", "secret", "secretName"
		}
		volume := func() object { return object{field: object{key: name}} }
		envFrom := []object{{ofEnv + "Ref": object{"name": name}}}
		env := []object{{"name": "X", "valueFrom": object{ofEnv + "KeyRef": object{"name": name, "key": "k"}}}}
		switch c.By {
		case "":
			main["envFrom"] = append(envFrom, asList(main["envFrom"])...)
		case "env":
			main["env"] = env
		case "volume":
			mount(main, volume())
		case "projected":
			mount(main, object{"projected": object{"sources": []object{{field: object{"name": name}}}}})
		case "sidecarVolume":
			mount(side, volume())
		case "initEnvFrom":
			init["envFrom"] = envFrom
		case "initEnv":
			init["env"] = env
		case "initVolume":
			mount(init, volume())
		case "unmountedVolume":
			mount(nil, volume())
		case "unmountedThenMountedVolume":
			mount(nil, volume())
			mount(main, volume())
		case "imagePullSecret":
			spec["imagePullSecrets"] = []object{{"name": name}}
		case "csiNodePublishSecret":
			mount(main, object{"csi": object{"driver": "d", "nodePublishSecretRef": object{"name": name}}})
		default:
			panic(c.By)
		}
	}
	spec["volumes"] = volumes
	return spec
}

func asList(v any) []object {
	list, _ := v.([]object)
	return list
}
