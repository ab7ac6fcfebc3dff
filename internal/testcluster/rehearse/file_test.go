package rehearse

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/state"
)

var configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}

var redises = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}

// canary is a password.
const canary = "hunter2 for/ever&"

// secretive makes custom resources with the canary in each place that may have one.
func (w *world) secretive() {
	w.Helper()
	template := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": canary}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "webserver",
			"args": []any{"--password", canary}, "command": []any{"serve", "--pass=" + canary}}}}}
	w.apply(webServers, "web", map[string]any{"image": "nginx:1.23.1", "replicas": 2, "template": template,
		"env": []any{map[string]any{"name": "PASSWORD", "value": canary}}})
	w.apply(redises, "cache", map[string]any{"port": 6379, "num": 2,
		"config": map[string]any{"requirepass": canary, "maxclients": 100}})
	w.owned()
}

// owned makes a StatefulSet whose owner is not copied.
func (w *world) owned() {
	w.Helper()
	w.create(configMaps, map[string]any{"metadata": map[string]any{"name": "root"}})
	var root struct {
		kube.Meta `json:"metadata"`
	}
	if err := w.client.Get(w.Context(), configMaps, kube.Key{Namespace: "default", Name: "root"}, &root); err != nil {
		w.Fatal(err)
	}
	labels := map[string]any{"app": "db"}
	container := map[string]any{"name": "db", "image": "i",
		"env": []any{map[string]any{"name": "PASSWORD", "value": canary}}}
	w.create(kube.Resource{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet"}, map[string]any{
		"metadata": map[string]any{"name": "db", "ownerReferences": []any{map[string]any{"apiVersion": "v1",
			"kind": "ConfigMap", "name": "root", "uid": root.UID}}},
		"spec": map[string]any{"replicas": 2, "selector": map[string]any{"matchLabels": labels}, "serviceName": "db",
			"template": map[string]any{"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{"containers": []any{container}}}}})
}

func (w *world) apply(r kube.Resource, name string, spec map[string]any) {
	w.Helper()
	body := map[string]any{"apiVersion": r.APIVersion(), "kind": r.Kind, "spec": spec, "metadata": map[string]any{
		"name": name, "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": canary}}}
	if err := w.client.Patch(w.Context(), r, kube.Key{Namespace: "default", Name: name}, kube.ApplyPatch, body, nil,
		kube.WriteOptions{FieldManager: "user", Force: true}); err != nil {
		w.Fatal(err)
	}
}

// saved returns the copy as --save and --from make it, and the text of the file.
func (w *world) saved(c *cli.Choice) (*state.State, string) {
	w.Helper()
	s, path := w.copy(c), filepath.Join(w.TempDir(), "state")
	if err := s.Redact(cli.Marks); err != nil {
		w.Fatal(err)
	}
	if _, err := s.Save(path); err != nil {
		w.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	if s, err = state.Load(path); err != nil {
		w.Fatal(err)
	}
	return s, string(text)
}

// The password is in the file in no form, and the hashes that were made of it are not, either; what the controllers
// decide is the same all the same.
//
// Rules: RR-01, RR-20, RR-21, RR-22, RR-24, PL-27
func TestARedactedFileHasNoSecretAndTheSameRehearsal(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice()
		w.secretive()
		w.run(c, 30*time.Second)
		out, code := w.rehearse(c, w.copy(c))
		if code != cli.ExitDone {
			t.Fatalf("exit %d\n%s", code, out)
		}
		plain := w.copy(c)
		s, text := w.saved(c)
		for _, form := range append(hashesIn(plain), canary, base64.StdEncoding.EncodeToString([]byte(canary)),
			url.QueryEscape(canary), url.PathEscape(canary), "hunter2") {
			if strings.Contains(text, form) {
				t.Errorf("the file has %q", form)
			}
		}
		if again, code := w.rehearse(c, s); code != cli.ExitDone || again != out {
			t.Errorf("exit %d\n%s\nwant\n%s", code, again, out)
		}
	})
}

// hashesIn returns the hashes of what was declared with the password: not of a Service.
func hashesIn(s *state.State) (out []string) {
	for _, o := range s.Objects {
		if strings.Contains(string(o), `"kind":"Service"`) {
			continue
		}
		for _, name := range []string{`"skiff.dev/desired-hash":"`, `"skiff.dev/revision":"`} {
			if _, rest, ok := strings.Cut(string(o), name); ok {
				hash, _, _ := strings.Cut(rest, `"`)
				out = append(out, hash)
			}
		}
	}
	return out
}

// Rules: RR-01, RR-02, RR-24
func TestTheRehearsalOfAFileIsThatOfTheClusterAndTwoAreTheSameForDiff(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice()
		w.secretive()
		w.run(c, 30*time.Second)
		w.apply(webServers, "web", map[string]any{"image": "nginx:1.25.3", "replicas": 2})
		w.apply(redises, "cache", map[string]any{"port": 6379, "num": 2,
			"config": map[string]any{"requirepass": "another one", "maxclients": 100}})
		w.apply(redises, "new", map[string]any{"port": 6379, "num": 1}) // its finalizer is bookkeeping
		live, code := w.byOwner(c, w.copy(c))
		want := `(cluster) Deployment default/web: 2 of 2 new pods ready
(cluster) Redis default/cache: 2 of 2 new pods ready
(cluster) Redis default/new: 1 of 1 new pods ready
Redis default/cache - Pod cache-1
Redis default/cache + Pod cache-1
Redis default/cache - Pod cache-0
Redis default/cache + Pod cache-0
Redis default/new + Service new
Redis default/new + Pod new-0
WebServer default/web ~ Deployment web
Rehearsal: 4 created, 1 changed, 2 deleted, 0 blocked.
` + lastLine
		if live != want || code != cli.ExitDiffer {
			t.Errorf("exit %d\n%s\nwant\n%s", code, live, want)
		}
		s, text := w.saved(c)
		if strings.Contains(text, "another one") || strings.Contains(text, canary) {
			t.Error("the file has a password")
		}
		for range 2 {
			if got, code := w.byOwner(c, s); got != live || code != cli.ExitDiffer {
				t.Errorf("exit %d\n%s\nwant\n%s", code, got, live)
			}
		}
	})
}
