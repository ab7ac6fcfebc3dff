package rehearse

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
)

// A pod that fits on no node waits for good: the rehearsal ends all the same, and says how far it is meanwhile.
//
// Rules: PL-24, PL-26
func TestAPodThatIsPendingForGoodIsNotWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "webserver")
		w.create(pods, map[string]any{"metadata": map[string]any{"name": "lost"}, "spec": map[string]any{
			"nodeSelector": map[string]any{"disk": "ssd"},
			"containers":   []any{map[string]any{"name": "c", "image": "i"}}}})
		w.webServer("web", "nginx:1.23.1")
		w.run(c, 30*time.Second)
		w.webServer("web", "nginx:1.25.3")
		var told strings.Builder
		began := time.Now()
		out, code := w.with(c, Options{State: w.copy(c), Progress: &told})
		if code != cli.ExitDiffer || !strings.Contains(out, "WebServer default/web ~ Deployment web\n") {
			t.Errorf("exit %d\n%s", code, out)
		}
		took := time.Since(began)
		if took > 10*time.Second || !strings.Contains(told.String(), "the controllers run\n") {
			t.Errorf("it took %s, and told\n%s", took, &told)
		}
	})
}

// A program that asks to be called again every two seconds, and writes nothing, is not waited for.
//
// Rules: PL-24, PL-26
func TestAHookThatOnlyWaitsIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hook.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: servers}
spec:
  generateSelector: true
  parentResource: {apiVersion: skiff.dev/v1alpha1, resource: webservers}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {exec: {command: [sh, -c, 'cat >/dev/null; echo "{\"children\":[],\"resyncAfterSeconds\":2}"']}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	inWorld(t, func(w *world) {
		c := w.choice("-f", file)
		w.webServer("web", "nginx:1.23.1")
		var told strings.Builder
		out, code := w.with(c, Options{State: w.copy(c), ByOwner: true, Progress: &told})
		if code != cli.ExitDone || !strings.Contains(out, "waits: WebServer default/web, ") ||
			!strings.Contains(told.String(), "rehearse: after 5s, ") {
			t.Errorf("exit %d\n%s\n%s", code, out, &told)
		}
	})
}

// A rehearsal that is stopped prints what was found, and what it waits for.
//
// Rules: PL-26
func TestARehearsalThatIsStoppedSaysWhatItFound(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "webserver")
		w.webServer("web", "nginx:1.23.1")
		ctx, stop := context.WithCancel(w.Context())
		defer time.AfterFunc(1300*time.Millisecond, stop).Stop()
		var out strings.Builder
		code, err := Run(ctx, &out, Options{State: w.copy(c), Start: c.Start, Rights: c.Rights(), Timeout: time.Minute,
			Log: logr.Discard()})
		if err == nil || !strings.Contains(err.Error(), "stopped before its end (") {
			t.Errorf("exit %d: %v", code, err)
		}
		if !strings.Contains(out.String(), "WebServer default/web + Deployment web\n") {
			t.Errorf("what was written is not printed: %s", &out)
		}
	})
}

// Where the copy itself does not come to rest, nothing is said about the writes of the controllers.
//
// Rules: PL-26
func TestWhatWasNotRehearsedIsNotSaidToBeWithoutWrites(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "webserver")
		w.webServer("web", "nginx:1.23.1")
		var out strings.Builder
		_, err := Run(w.Context(), &out, Options{State: w.copy(c), Start: c.Start, Rights: c.Rights(),
			Timeout: 500 * time.Millisecond, Log: logr.Discard()})
		if err == nil || !strings.Contains(err.Error(), "wait until the copy is at rest: not quiet after 500ms (") ||
			strings.Contains(out.String(), "No writes") {
			t.Errorf("%v\n%s", err, &out)
		}
	})
}

// A quota and a limit range bound the pods of the copy as those of the cluster: the rollout stops where it would.
//
// Rules: PL-23, PL-25
func TestQuotasAndLimitRangesAreCopied(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "webserver")
		w.create(kube.Resource{Version: "v1", Plural: "resourcequotas", Kind: "ResourceQuota"}, map[string]any{
			"metadata": map[string]any{"name": "few"}, "spec": map[string]any{"hard": map[string]any{"pods": "2"}}})
		w.create(kube.Resource{Version: "v1", Plural: "limitranges", Kind: "LimitRange"}, map[string]any{
			"metadata": map[string]any{"name": "some"}, "spec": map[string]any{"limits": []any{map[string]any{
				"type": "Container", "default": map[string]any{"cpu": "1"}}}}})
		w.webServer("web", "nginx:1.23.1") // of three pods
		out, code := w.byOwner(c, w.copy(c))
		if code != cli.ExitDiffer ||
			!strings.Contains(out, "(cluster) Deployment default/web: 2 of 2 new pods ready\n") {
			t.Errorf("exit %d\n%s", code, out)
		}
		var names []string
		for _, o := range w.copy(c).Objects {
			if text := string(o); strings.Contains(text, `"LimitRange"`) || strings.Contains(text, `"ResourceQuota"`) {
				names = append(names, text)
			}
		}
		if len(names) != 2 {
			t.Errorf("the copy has %s", names)
		}
	})
}
