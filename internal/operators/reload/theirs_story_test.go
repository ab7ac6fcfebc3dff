package reload

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/testcluster/operatortest"
)

// reloaderStory runs f in an environment in which Reloader's annotations count; reason returns the reason of the
// Problem of a Deployment.
func reloaderStory(t *testing.T, f func(w *env, reason func(name string) string)) {
	reloaderStoryIn(t, nil, f)
}

// reloaderStoryIn is reloaderStory with controllers that watch certain namespaces.
func reloaderStoryIn(t *testing.T, namespaces []string, f func(w *env, reason func(name string) string)) {
	var cs []*controller.Controller
	o := options
	o.Setup.Namespaces = namespaces
	o.Quiet = !testing.Verbose()
	o.NewAll = func(s controller.Setup, r *events.Recorder) []*controller.Controller {
		cs = New(s, r, Options{Reloader: true})
		return cs
	}
	operatortest.Run(t, o, func(w *operatortest.Env) {
		e := inCluster(w)
		w.Start()
		f(e, func(name string) string {
			w.Helper()
			o, ok := cs[0].Owner(in(name))
			if !ok {
				t.Fatalf("the controller does not know %s", name)
			}
			return o.Problem.Reason
		})
	})
}

// secret makes a Secret with one key.
func (w *env) secret(name, value string) {
	w.Helper()
	w.Post(secrets, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"key":%q}}`, name, value))
}

func (w *env) setSecret(name, value string) {
	w.Helper()
	w.Patch(secrets, name, fmt.Sprintf(`{"stringData":{"key":%q}}`, value))
}

// mark sets an annotation of a ConfigMap.
func (w *env) mark(name, annotation, value string) {
	w.Helper()
	w.Patch(configMaps, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value))
}

// The annotations are those of the examples in Reloader's README.
func TestTheExamplesOfReloadersReadmeWorkUnchanged(t *testing.T) {
	reloaderStory(t, func(w *env, _ func(string) string) {
		for _, name := range []string{"app", "foo-configmap", "bar-configmap", "matched", "plain"} {
			w.configMap(name, "1")
		}
		w.secret("foo-secret", "1")
		w.mark("matched", "reloader.stakater.com/match", "true")
		both := `,"envFrom":[{"configMapRef":{"name":"matched"}},{"configMapRef":{"name":"plain"}}]`
		w.deploy("auto", `"reloader.stakater.com/auto":"true"`, envFrom("app"))
		w.deploy("lists", `"configmap.reloader.stakater.com/reload":"foo-configmap,bar-configmap",
			"secret.reloader.stakater.com/reload":"foo-secret"`, ``)
		w.deploy("search", `"reloader.stakater.com/search":"true"`, both)
		w.deploy("none", ``, both)
		w.Pass(time.Minute)
		restarts := map[string]int{}
		for _, step := range []struct {
			change   func(name, value string)
			source   string
			restarts string // "": nothing
		}{
			{w.setConfigMap, "app", "auto"},
			{w.setConfigMap, "foo-configmap", "lists"},
			{w.setConfigMap, "bar-configmap", "lists"},
			{w.setSecret, "foo-secret", "lists"},
			{w.setConfigMap, "matched", "search"},
			{w.setConfigMap, "plain", ""},
		} {
			step.change(step.source, "2")
			w.Pass(5 * time.Minute)
			restarts[step.restarts]++
			for _, name := range []string{"auto", "lists", "search", "none"} {
				w.wantRestarts(name, restarts[name])
			}
		}
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
	})
}

func TestASourceThatAppearsAndMatchesIsRecordedAndThenCounts(t *testing.T) {
	reloaderStory(t, func(w *env, _ func(string) string) {
		w.deploy("web", `"configmap.reloader.stakater.com/reload":"app-[0-9]+,later"`, ``)
		w.Pass(time.Minute)
		w.configMap("app-1", "1")
		w.configMap("later", "1")
		w.configMap("app-x", "1")
		w.Pass(time.Minute)
		w.wantRestarts("web", 0)
		w.setConfigMap("app-x", "2")
		w.Pass(time.Minute)
		w.wantRestarts("web", 0)
		w.setConfigMap("app-1", "2")
		w.setConfigMap("later", "2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 1)

		// Deleted and made anew, a named source has changed, and a matched one is new.
		for i, name := range []string{"app-1", "later"} {
			w.Delete(configMaps, name)
			w.Pass(time.Minute)
			w.configMap(name, "3")
			w.Pass(5 * time.Minute)
			w.wantRestarts("web", 1+i)
		}

		w.mark("app-1", "reloader.stakater.com/ignore", "true")
		w.Pass(time.Minute)
		w.setConfigMap("app-1", "4")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 2)
		w.mark("app-1", "reloader.stakater.com/ignore", "false")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 2)
		w.setConfigMap("app-1", "5")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 3)
	})
}

func TestAWorkloadThatRefersToASourceAndMatchesItIsRestartedOnce(t *testing.T) {
	reloaderStory(t, func(w *env, _ func(string) string) {
		w.configMap("a", "1")
		w.secret("s", "1")
		w.deploy("web", `"reloader.stakater.com/auto":"true","configmap.reloader.stakater.com/reload":"a|b",
			"secret.reloader.stakater.com/reload":".*"`, envFrom("a"))
		w.deploy("other", `"configmap.reloader.stakater.com/reload":"b.*"`, ``)
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 1)
		w.Want("Events of the source", w.notes("ConfigMap", "a"),
			[]string{"Restarted: restarted deployment/web, the last of 1"})
		w.setSecret("s", "2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 2)
		w.wantRestarts("other", 0)
	})
}

func TestAReloaderInAnotherNamespaceIsSeenWhereThatIsWatched(t *testing.T) {
	for _, c := range []struct {
		namespaces []string
		restarts   int
	}{{[]string{"default", "reloader"}, 0}, {[]string{"default"}, 1}} {
		reloaderStoryIn(t, c.namespaces, func(w *env, _ func(string) string) {
			w.PostYAML("/api/v1/namespaces", []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"reloader"}}`))
			w.PostYAML("/apis/apps/v1/namespaces/reloader/deployments", []byte(rival))
			w.configMap("a", "1")
			w.deploy("web", `"reloader.stakater.com/auto":"true"`, envFrom("a"))
			w.Pass(time.Minute)
			w.setConfigMap("a", "2")
			w.Pass(20 * time.Second)
			w.wantRestarts("web", c.restarts)
		})
	}
}

// rival is a Deployment of Reloader.
const rival = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"rival"},"spec":{
	"selector":{"matchLabels":{"app":"r"}},"template":{"metadata":{"labels":{"app":"r"}},"spec":{"containers":[
	{"name":"main","image":"r.example/stakater/reloader:v1.4.21"}]}}}}`

func TestAMatchedSourceThatComesBackWithOtherContentHasChanged(t *testing.T) {
	reloaderStory(t, func(w *env, _ func(string) string) {
		w.configMap("a", "1")
		w.mark("a", "reloader.stakater.com/match", "true")
		w.deploy("web", `"reloader.stakater.com/search":"true"`, envFrom("a"))
		w.Pass(time.Minute)
		for i, value := range []string{"1", "2"} {
			w.Delete(configMaps, "a")
			w.Pass(time.Minute)
			w.Post(configMaps, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{
				"reloader.stakater.com/match":"true"}},"data":{"key":%q}}`, value))
			w.Pass(5 * time.Minute)
			w.wantRestarts("web", i)
		}
	})
}

func TestAPausePeriodIsOneRestartWhenItIsOver(t *testing.T) {
	reloaderStory(t, func(w *env, reason func(string) string) {
		w.configMap("a", "1")
		w.deploy("web", `"reloader.stakater.com/auto":"true","deployment.reloader.stakater.com/pause-period":"5m"`, envFrom("a"))
		w.Pass(time.Minute)
		for i := range 4 {
			w.setConfigMap("a", fmt.Sprint("n", i))
			w.Pass(time.Minute)
		}
		w.Pass(50 * time.Second)
		w.wantRestarts("web", 0)
		if got := reason("web"); got != debouncing {
			t.Errorf("the Problem is %q", got)
		}
		w.Pass(20 * time.Second)
		w.wantRestarts("web", 1)
		w.Pass(time.Hour)
		w.wantRestarts("web", 1)
	})
}

func TestSkiffStandsBackWhileReloaderRuns(t *testing.T) {
	reloaderStory(t, func(w *env, reason func(string) string) {
		restart := func(text string) { // as Reloader does
			w.Pass(time.Second)
			w.Patch(deployments, "theirs", fmt.Sprintf(
				`{"spec":{"template":{"metadata":{"annotations":{"reloader.stakater.com/last-reloaded-from":%q}}}}}`, text))
		}
		w.configMap("a", "1")
		w.deploy("theirs", `"reloader.stakater.com/auto":"true"`, envFrom("a"))
		w.deploy("ours", auto, envFrom("a"))
		w.Post(deployments, rival)
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		restart("a")
		w.Pass(5 * time.Minute)
		w.wantRestarts("theirs", 1)
		w.wantRestarts("ours", 1)
		if a, b := reason("theirs"), reason("ours"); a != rivalRuns || b != "" {
			t.Errorf("the Problems are %q and %q", a, b)
		}

		// One that only looks like Reloader delays a restart, and prevents none.
		w.setConfigMap("a", "3")
		w.Pass(rivalPatience - 2*time.Second)
		w.Patch(deployments, "theirs", `{"spec":{"replicas":2},"metadata":{"annotations":{"by":"hand"}}}`)
		w.wantRestarts("theirs", 1)
		w.Pass(5 * time.Second)
		w.wantRestarts("theirs", 2)

		w.Patch(deployments, "rival", `{"spec":{"replicas":0}}`)
		w.Pass(5 * time.Minute)
		w.wantRestarts("theirs", 2)
		if got := reason("theirs"); got != "" {
			t.Errorf("the Problem is still %q", got)
		}
		w.setConfigMap("a", "4")
		w.Pass(20 * time.Second)
		w.wantRestarts("theirs", 3)
		w.Delete(deployments, "rival")
		w.Pass(time.Minute)
		w.wantRestarts("ours", 3)
	})
}
