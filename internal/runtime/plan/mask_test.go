package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// canary is in each value of testdata/secrets.json that must not be shown.
const canary = "S3cr3tV4l-"

// printed returns all that a plan shows of a new object, as text and as JSON do.
func printed(t testing.TB, object map[string]any) string {
	t.Helper()
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	r := kube.Resource{Version: version, Kind: kind}
	r.Group, _, _ = strings.Cut(version, "/")
	if !strings.Contains(version, "/") {
		r.Group = ""
	}
	var out strings.Builder
	for _, c := range patch.Changes(nil, nil, comparable(object, false)) {
		v, _ := shown(r, c.At, c.After)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s: %s\n", c.At.Brief(), text)
	}
	whole, _ := shown(r, nil, object) // as where a value cannot be taken apart
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + string(text)
}

// What no rule can know: an argument without a name, as of `curl -u`, and an annotation of another name.
//
// Rules: PL-18
func TestNoPlanShowsASecretThatItsPlaceOrItsFormTells(t *testing.T) {
	data, err := os.ReadFile("testdata/secrets.json")
	if err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	if err := json.Unmarshal(data, &objects); err != nil {
		t.Fatal(err)
	}
	unknowable := []string{"userpw", "secannot"}
	values := 0
	for _, o := range objects {
		values += strings.Count(string(must(json.Marshal(o))(t)), canary)
		for _, line := range strings.SplitAfter(printed(t, o), canary)[1:] {
			name := line[:min(len(line), 12)]
			if !slices.ContainsFunc(unknowable, func(known string) bool { return strings.HasPrefix(name, known) }) {
				t.Errorf("%s %s is shown", canary, name)
			}
		}
	}
	if values < 50 {
		t.Errorf("only %d secrets were tried", values)
	}
}

func must(text []byte, err error) func(t *testing.T) []byte {
	return func(t *testing.T) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// Rules: PL-18
func TestWhatIsNoSecretIsShown(t *testing.T) {
	for _, text := range []string{
		`{"spec":{"containers":[{"name":"c","image":"r.example/a@sha256:0123456789012345678901234567890123456789012345678901234567890123"}]}}`,
		`{"spec":{"automountServiceAccountToken":false,"imagePullSecrets":[{"name":"registry"}],"port":6379}}`,
		`{"spec":{"volumes":[{"name":"v","secret":{"secretName":"s","items":[{"key":"tls.key","path":"k"}]}}]}}`,
		`{"spec":{"env":[{"name":"LOG_LEVEL","value":"debug"},{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}}`,
		`{"spec":{"args":["-p","8080","-port=80","-v","--listen=:80"],"command":["sh","-c","echo hello"]}}`,
		`{"spec":{"key":"a","KEY":"b","labelKey":"c","affinity":[{"topologyKey":"d"}],"env":{"LOG_LEVEL":"e","KEYBOARD":"f"}}}`,
		`{"metadata":{"annotations":{"prometheus.io/port":"8080"},"labels":{"app":"token-service"}}}`,
	} {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		m := mask{}
		after := m.value(nil, "", object)
		if got := string(must(json.Marshal(after))(t)); m.hides || got != string(must(json.Marshal(object))(t)) {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

// A canary in any place that is named as one of a credential is in no form of the output.
//
// Rules: PL-18
func FuzzMask(f *testing.F) {
	f.Add("v1", "ConfigMap", "data", "password", false, false)
	f.Add("v1", "Secret", "data", "any", false, true)
	f.Add("apps/v1", "Deployment", "spec", "DB_PASSWORD", true, false)
	f.Add("a/b", "c", "", "apiKey", false, true)
	f.Fuzz(func(t *testing.T, version, kind, field, name string, listed, deep bool) {
		const secret = "c4n4ry-c4n4ry"
		names := []string{"password", "dbPassword", "API_TOKEN", "x-api-key", "credentials", "authorization"}
		var v any = map[string]any{names[len(name)%len(names)]: secret, "name": name}
		if listed {
			v = []any{map[string]any{"name": names[len(field)%len(names)], "value": secret},
				map[string]any{"name": name}}
		}
		if deep {
			v = []any{[]any{map[string]any{name: v}}, name}
		}
		object := map[string]any{"apiVersion": version, "kind": kind, field: map[string]any{name: v}}
		if strings.Contains(version+kind+field+name, secret) {
			return
		}
		if text := printed(t, object); strings.Contains(text, secret) {
			t.Errorf("%q shows the secret: %s", object, text)
		}
	})
}
