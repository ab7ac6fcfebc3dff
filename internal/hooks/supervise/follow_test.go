package supervise_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"skiff/internal/hooks/reconcile"
	"skiff/internal/runtime/kube"
)

// Rules: HK-99
func TestAStandbyMirrorsAndCallsNoHook(t *testing.T) {
	runAs(t, true, func(w *world) {
		w.installThings()
		w.put(composite)
		w.Create("a", `{}`)
		w.Pass(time.Minute)
		w.Want("calls of a standby", len(w.called()), 0)
		w.Want("children by a standby", len(w.configMaps()), 0)
		w.Background(func(ctx context.Context) error { return w.set.Lead(ctx, ctx) })
		w.Pass(time.Second)
		w.Want("children when it leads", w.configMaps(), []string{"a"})
	})
}

// Rules: HK-28
func TestAParentForWhichTheHookFailsIsRetriedWithBackoff(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		w.put(composite)
		w.answers(http.StatusInternalServerError, "")
		w.Create("a", `{}`)
		w.Pass(10 * time.Second)
		if calls := len(w.called()); calls < 5 || calls > 30 {
			t.Errorf("%d calls within ten seconds", calls)
		}
		w.Pass(time.Hour)
		if calls := len(w.called()); calls < 10 || calls > 60 {
			t.Errorf("%d calls within an hour", calls)
		}
		w.answers(http.StatusOK, "")
		w.Patch(things, "a", `{"spec":{"a":1}}`)
		w.Pass(time.Second)
		w.Want("children", w.configMaps(), []string{"a"})
	})
}

// Rules: HK-111
func TestFilesAreReadAgainWhenTheyChangeAndAMistakeStopsNothing(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		file := filepath.Join(t.TempDir(), "controller.json")
		write := func(text string) {
			t.Helper()
			w.done(os.WriteFile(file, []byte(text), 0o600))
			w.Pass(10 * time.Second)
		}
		write(composite)
		w.put(composite)
		again := make(chan os.Signal)
		w.Background(func(ctx context.Context) error {
			w.hooks.FollowFiles(ctx, []string{file}, again)
			return nil
		})
		w.Create("a", `{}`)
		w.Pass(time.Second)
		w.Want("children", w.configMaps(), []string{"a"})
		write(strings.Replace(composite, "generateSelector", "generateSelectors", 1))
		w.Want("lines about the mistake", len(w.logged("have a mistake")), 1)
		w.Create("b", `{}`)
		w.Pass(time.Second)
		w.Want("children with a mistake in the file", w.configMaps(), []string{"a", "b"})
		w.called()
		write(strings.Replace(composite, "http://hook/sync", "http://hook/another", 1))
		w.Want("calls of another hook", len(w.called()), 2)
		again <- syscall.SIGHUP
		w.Pass(time.Second)
		w.Want("times that it was read", fmt.Sprint(len(w.logged("read the files"))), "2")
		write("")
		w.Want("controllers of an empty file", len(w.set.All()), 1)
		write(strings.Replace(composite, `"name":"thing"`, `"name":"other"`, 1))
		w.Want("controllers", len(w.set.All()) == 1 && w.set.All()[0].Name() == "other", true)
	})
}

// The definition counts as it is when the hook fails, and not as it was at the start.
//
// Rules: HK-28
func TestAFailingHookIsReportedOnceTheDefinitionHasConditions(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		w.put(composite)
		w.answers(http.StatusInternalServerError, "")
		w.Create("a", `{}`)
		w.Pass(time.Minute)
		w.Want("without conditions", w.Condition("a", reconcile.Synced), "none")
		definition := kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", ClusterScoped: true,
			Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"}
		const status = `{"type":"object","properties":{"conditions":{"type":"array","items":{"type":"object",` +
			`"properties":{"type":{"type":"string"},"status":{"type":"string"},"reason":{"type":"string"},` +
			`"message":{"type":"string"},"lastTransitionTime":{"type":"string"}}}}}}`
		w.done(w.User.Patch(w.Context(), definition, kube.Key{Name: "things.example.com"}, kube.JSONPatch,
			kube.Raw(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status","value":`+status+
				`}]`), nil, kube.WriteOptions{FieldManager: "user"}))
		w.Pass(time.Hour)
		w.Want("with conditions", w.Condition("a", reconcile.Synced), "False/HookFailed")
		w.Forget()
		w.Pass(time.Hour)
		w.WantWrites()
	})
}
