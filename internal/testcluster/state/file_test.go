package state

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

const firstLine = `{"format":"skiff-state/1","skiff":"v1","server":"v1.36.3"}` + "\n"

const aPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u"},` +
	`"spec":{"containers":[{"name":"c","image":"i"}],"nodeName":"a"},"status":{"phase":"Running"}}` + "\n"

// Rules: RR-50
func TestABrokenFileIsRefusedWithWhatIsWrong(t *testing.T) {
	const complex = "line 2: decode JSON: the object is too complex"
	for name, tt := range map[string]struct{ text, want string }{
		"empty":   {"", "it is no copy of a cluster: skiff-dev rehearse --save writes one"},
		"another": {"kind: Pod\n", "it is no copy of a cluster"},
		"newer": {`{"format":"skiff-state/2","skiff":"v9\u001b[31m"}` + "\n",
			`its format is skiff-state/2, want skiff-state/1: take the skiff-dev that wrote it, v9\x1b[31m`},
		"no object":   {firstLine, "it has no object"},
		"a number":    {firstLine + "5\n", "line 2: want a JSON object"},
		"half a line": {firstLine + aPod + `{"kind":`, "line 3: decode JSON"},
		"deep":        {firstLine + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), complex},
		"wide":        {firstLine + `{"a":[` + strings.Repeat("{},", 1<<20) + `{}]}`, complex},
		"long":        {firstLine + aPod + strings.Repeat(" ", 100<<20), "line 3: longer than 16 MiB"},
		"one line":    {strings.Repeat("x", 100<<20), "it is no copy of a cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := parse(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// Rules: PL-23
func TestACopyThatIsTooLargeSaysHowToNarrowIt(t *testing.T) {
	s := &State{bytes: MaxBytes - 100}
	err := s.add(map[string]any{"a": strings.Repeat("x", 200)})
	const narrow = "copy fewer namespaces, with --watch-namespaces, or fewer controllers, with --controllers"
	if err == nil || err.Error() != "the copy is larger than 256 MiB: "+narrow {
		t.Error(err)
	}
	_, _, err = parse(strings.NewReader(firstLine + strings.Repeat("{}\n", 2_000_000)))
	if err == nil || err.Error() != "line 100002: the copy has more than 100000 objects: "+narrow {
		t.Error(err)
	}
}

func TestAFileIsNewAndOfThisUserAlone(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "state"), filepath.Join(dir, "link")
	s := &State{Objects: []kube.Raw{kube.Raw(strings.TrimSpace(aPod))}}
	if n, err := s.Save(path); err != nil || n < len(aPod) {
		t.Fatal(n, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{path, link} {
		if _, err := s.Save(taken); err == nil || !strings.Contains(err.Error(), "file exists: choose a new file") {
			t.Errorf("%s: %v", taken, err)
		}
	}
}

// A child that was made from an older declaration has hashes that no owner in the copy has any more.
//
// Rules: RR-24
func TestHashesOfOlderDeclarationsAreReplaced(t *testing.T) {
	s := &State{Objects: []kube.Raw{kube.Raw(aPodWith(`"namespace":"n","labels":{"skiff.dev/revision":"0123abcd"},` +
		`"annotations":{"skiff.dev/desired-hash":"4567cdef"}}`))}}
	if err := s.Redact(func(string, string, kube.Raw) ([]string, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"0123abcd", "4567cdef"} {
		if strings.Contains(string(s.Objects[0]), hash) {
			t.Errorf("%s is in %s", hash, s.Objects[0])
		}
	}
}

// Rules: RR-24
func TestQueriesOfProbesAreReplacedWhereverTheyAre(t *testing.T) {
	const probe = `{"httpGet":{"port":80,"scheme":"HTTP","path":"/healthz?token=s3cret-1"}}`
	container := `{"name":"c","livenessProbe":` + probe + `,"readinessProbe":` + probe + `,"startupProbe":` + probe +
		`,"lifecycle":{"preStop":` + probe + `}}`
	s := &State{Objects: []kube.Raw{
		kube.Raw(aPodWith(`"namespace":"n"},"spec":{"containers":[` + container + `]},"status":{"message":` +
			`"Get http://10.0.0.1:80/healthz?token=s3cret-1: refused"}`)),
		kube.Raw(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n"},"spec":` +
			`{"template":{"spec":{"containers":[` + container + `]}}}}`),
	}}
	if err := s.Redact(func(string, string, kube.Raw) ([]string, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	for i, paths := range []int{5, 4} {
		text := string(s.Objects[i])
		if strings.Contains(text, "s3cret") || strings.Count(text, "/healthz?r-") != paths {
			t.Errorf("%s, want the token in place of %d queries", text, paths)
		}
	}
}

// aPodWith returns a pod with more metadata, and more after that.
func aPodWith(more string) string {
	name := ""
	if !strings.Contains(more, `"name":`) {
		name = `"name":"p",`
	}
	return `{"apiVersion":"v1","kind":"Pod","metadata":{` + name + more + `}`
}

// What a stranger's file must not do: change the types that the server relies on, or have it call addresses.
func TestAServerTakesNoObjectThatItCouldNotHaveStored(t *testing.T) {
	for name, tt := range map[string]struct{ object, want string }{
		"webhook": {`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",` +
			`"metadata":{"name":"w"}}`, "MutatingWebhookConfiguration w: objects of this kind are not imported"},
		"unknown": {`{"apiVersion":"a.b/v1","kind":"C","metadata":{"name":"c"}}`,
			`the server has no such kind in "a.b/v1"`},
		"no kind":   {`{}`, "the server has no such kind"},
		"type":      {aPodWith(`"namespace":"n"},"spec":"x"`), "cannot unmarshal string"},
		"metadata":  {`{"apiVersion":"v1","kind":"Pod","metadata":[]}`, "cannot unmarshal array"},
		"name":      {aPodWith(`"name":"../x","namespace":"n"}`), "metadata.name"},
		"namespace": {aPodWith(`"namespace":"../n"}`), "metadata.namespace"},
		"global": {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"p","namespace":"n"}}`,
			"the kind has none"},
		"owners": {aPodWith(`"namespace":"n","managedFields":[{"manager":"x"}]}`), "metadata.managedFields"},
		"value": {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"p","namespace":"n"},` +
			`"spec":{"ports":[{"port":-1}]}}`, "spec.ports[0].port"},
	} {
		t.Run(name, func(t *testing.T) {
			server := apiserver.New(apiserver.Options{})
			defer server.Close()
			s, _, err := parse(strings.NewReader(firstLine + tt.object))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.Import(server); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// A file is read and imported, or refused; the server serves what it took. Nothing panics.
//
// Rules: RR-50
func FuzzFile(f *testing.F) {
	f.Add([]byte(aPod))
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":` +
		`"as.b.c"},"spec":{"group":"b.c","scope":"Namespaced","names":{"plural":"as","singular":"a","kind":"A","listKind":` +
		`"AList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}` +
		"\n" + `{"apiVersion":"b.c/v1","kind":"A","metadata":{"name":"a","namespace":"n"}}` + "\n"))
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n"},"spec":` +
		`{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}}}`))
	f.Add([]byte("\n\n[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, _, err := parse(bytes.NewReader(text)); err == nil && !Is(text) {
			t.Error("a file without a header is read")
		}
		s, _, err := parse(io.MultiReader(strings.NewReader(firstLine), bytes.NewReader(text)))
		if err != nil {
			return
		}
		server := apiserver.New(apiserver.Options{})
		defer server.Close()
		if _, err := s.Import(server); err != nil {
			return
		}
		pods := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
		for _, o := range server.List(pods, "") {
			if meta, _ := o["metadata"].(map[string]any); meta["uid"] == "" {
				t.Errorf("a pod without a uid: %v", o)
			}
		}
	})
}
