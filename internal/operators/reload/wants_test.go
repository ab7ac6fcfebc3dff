package reload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// workloadOf returns a workload with annotations and a pod template's spec.
func workloadOf(t *testing.T, annotations map[string]string, spec string) *target {
	t.Helper()
	w := new(target)
	if err := kube.Unmarshal([]byte(`{"metadata":{"name":"web","namespace":"shop","uid":"u"},"spec":{"template":{"spec":`+
		spec+`}}}`), w); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		w.Annotations = append(w.Annotations, kube.Label{Key: name, Value: annotations[name]})
	}
	return w
}

const everything = `{"imagePullSecrets":[{"name":"pull"}],
	"initContainers":[{"envFrom":[{"secretRef":{"name":"init","optional":true}}]}],
	"containers":[{"env":[{"name":"A","value":"x"},{"name":"B","valueFrom":{"configMapKeyRef":{"name":"c","key":"k"}}},
		{"name":"C","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}},
		{"name":"D","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],"envFrom":[{"configMapRef":{"name":"all"}}],
		"volumeMounts":[{"name":"v"},{"name":"w"},{"name":"e"},{"name":"p"}]}],
	"volumes":[{"name":"unseen","secret":{"secretName":"unseen"}},{"name":"v","secret":{"secretName":"tls"}},{"name":"w","configMap":{"name":"c","items":[{"key":"f","path":"f"}]}},
		{"name":"e","emptyDir":{}},{"name":"p","projected":{"sources":[{"secret":{"name":"s"}},{"configMap":{"name":"p",
		"items":[{"key":"x","path":"x"}],"optional":true}}]}}]}`

func TestWhatAWorkloadDependsOn(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
		faults      []string // their annotations
	}{
		"all that the template refers to": {map[string]string{AutoAnnotation: "auto"},
			"configmap/all configmap/c:f configmap/c:k configmap/p:x? secret/init? secret/s secret/tls", nil},
		"lists": {map[string]string{ConfigMapsAnnotation: " a, b:key ,,", SecretsAnnotation: "s:x,s:y"},
			"configmap/a? configmap/b:key? secret/s:x secret/s:y", nil}, // the pods do not start without s
		"a list beside auto adds, and a whole source stands for its keys": {
			map[string]string{AutoAnnotation: "auto", ConfigMapsAnnotation: "c"},
			"configmap/all configmap/c configmap/p:x? secret/init? secret/s secret/tls", nil},
		"another value than auto": {map[string]string{AutoAnnotation: "true"}, "", []string{AutoAnnotation}},
		"wrong entries cost themselves alone": {
			map[string]string{ConfigMapsAnnotation: "other/a,A,ok,x:,y:a b", SecretsAnnotation: "*"}, "configmap/ok?",
			append(slices.Repeat([]string{ConfigMapsAnnotation}, 4), SecretsAnnotation)},
		"order and cooldown": {map[string]string{AutoAnnotation: "auto", CooldownAnnotation: "soon",
			AfterAnnotation: "deploy/a,pod/b,statefulsets/c,daemonset/"},
			"configmap/all configmap/c:f configmap/c:k configmap/p:x? secret/init? secret/s secret/tls",
			[]string{AfterAnnotation, AfterAnnotation, CooldownAnnotation}},
	} {
		w := workloadOf(t, c.annotations, everything)
		got := w.wants(w.Annotations)
		var entries, faults []string
		for _, e := range got.entries {
			text := e.String()
			if e.optional {
				text += "?"
			}
			entries = append(entries, text)
		}
		for _, f := range got.faults {
			faults = append(faults, f.annotation)
		}
		if strings.Join(entries, " ") != c.want || !slices.Equal(faults, c.faults) || !optsIn(w.Annotations) {
			t.Errorf("%s:\ngot  %q, faults of %q\nwant %q, %q", name, entries, faults, c.want, c.faults)
		}
	}
	w := workloadOf(t, map[string]string{AfterAnnotation: "deploy/a,sts/c", CooldownAnnotation: "5m"}, `{}`)
	got := w.wants(w.Annotations)
	if fmt.Sprint(got.after) != "[deployment/a statefulset/c]" || got.cooldown != 5*time.Minute {
		t.Errorf("got after %v and cooldown %s", got.after, got.cooldown)
	}
}

func TestManySourcesAreBounded(t *testing.T) {
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprint("n", i))
	}
	w := workloadOf(t, map[string]string{ConfigMapsAnnotation: strings.Join(names, ","),
		AfterAnnotation: strings.Repeat("deployment/a,", 100)}, `{}`)
	got := w.wants(w.Annotations)
	if len(got.entries) != maxSources || len(got.after) != maxAfter || len(got.faults) != 2 {
		t.Errorf("got %d sources, %d before it and %d faults", len(got.entries), len(got.after), len(got.faults))
	}
}

// digests are the values of a source.
func digests(values ...string) *content {
	c := new(content)
	for i := 0; i < len(values); i += 2 {
		d := kube.NamedDigest{Name: values[i]}
		copy(d.Digest[:], values[i+1])
		c.values = append(c.values, d)
	}
	return c
}

func TestWhatCountsAsAChange(t *testing.T) {
	whole, key := entry{kind: "configmap", name: "a"}, entry{kind: "configmap", name: "a", key: "k"}
	optional := whole
	optional.optional = true
	none := map[string]*content{}
	of := func(values ...string) map[string]*content {
		return map[string]*content{"configmap/a": digests(values...)}
	}
	for name, c := range map[string]struct {
		entry    entry
		was, is  map[string]*content
		unknown  bool // nothing is written down
		of       string
		changes  int
		recorded bool // what there is now follows
	}{
		"nothing":                             {whole, of("k", "1"), of("k", "1"), false, "u", 0, true},
		"a value":                             {whole, of("k", "1"), of("k", "2"), false, "u", 1, true},
		"another key":                         {whole, of("k", "1"), of("k", "1", "l", ""), false, "u", 1, true},
		"a key that is not wanted":            {key, of("k", "1"), of("k", "1", "l", ""), false, "u", 0, true},
		"the key":                             {key, of("k", "1"), of("k", "2"), false, "u", 1, true},
		"a source that is gone":               {whole, of("k", "1"), none, false, "u", 0, false},
		"a key that is gone":                  {key, of("k", "1"), of("l", "1"), false, "u", 0, false},
		"one without which no pod started":    {whole, none, of("k", "1"), false, "u", 0, true},
		"one without which pods have started": {optional, none, of("k", "1"), false, "u", 1, true},
		"the first look":                      {whole, none, of("k", "1"), true, "u", 0, true},
		"a copy of another workload":          {whole, of("k", "1"), of("k", "2"), false, "other", 0, true},
	} {
		w := workloadOf(t, nil, `{}`)
		if !c.unknown {
			hash := hashOf("shop", c.entry, c.was["configmap/a"])
			text, err := state{UID: c.of, Sources: map[string]string{c.entry.String(): hash}}.encode()
			if err != nil {
				t.Fatal(err)
			}
			w.Annotations = kube.Labels{{Key: StateAnnotation, Value: text}}
		}
		changes, next := compare(w, wants{entries: []entry{c.entry}, state: StateAnnotation}, c.is)
		recorded := next.Sources[c.entry.String()] == hashOf("shop", c.entry, c.is["configmap/a"])
		if len(changes) != c.changes || recorded != c.recorded || next.UID != "u" {
			t.Errorf("%s: got %d changes, recorded %t", name, len(changes), recorded)
		}
	}
}

// A hash for each workload would be four bytes more about a value for each workload that reads it.
func TestManyWorkloadsTellNoMoreOfAValueThanOne(t *testing.T) {
	e := entry{kind: "secret", name: "s", key: "password"}
	contents := map[string]*content{"secret/s": digests("password", "1")}
	hashes := map[string]bool{}
	for i := range 10 {
		w := workloadOf(t, nil, `{}`)
		w.UID = fmt.Sprint(i)
		_, next := compare(w, wants{entries: []entry{e, {kind: "secret", name: "s"}}}, contents)
		for _, hash := range next.Sources {
			hashes[hash] = true
		}
	}
	if len(hashes) != 1 {
		t.Errorf("10 workloads have the hashes %v of one value", hashes)
	}
	other := e
	other.name = "t"
	content := contents["secret/s"]
	for _, hash := range []string{hashOf("other", e, content), hashOf("shop", other, content)} {
		if hashes[hash] {
			t.Error("sources of other names or namespaces have the same hash")
		}
	}
}

func TestTheStateOfAGarbledAnnotationIsNone(t *testing.T) {
	for _, text := range []string{"", "null", "[]", `{"uid":"u"`, `{"uid":1}`, `{"uid":"u","sources":[]}`} {
		w := workloadOf(t, nil, `{}`)
		w.Annotations = kube.Labels{{Key: StateAnnotation, Value: text}}
		if s, ok := stateOf(w, StateAnnotation); ok {
			t.Errorf("%q: got %+v", text, s)
		}
	}
}
