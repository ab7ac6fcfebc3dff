package restart

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/cli/clitest"
	"skiff/internal/operators/sources"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	recorded "skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

var configMaps, secrets = sources.ConfigMaps, sources.Secrets

// withConfigs are options with a controller for which all may be a source.
func withConfigs() operatortest.Options {
	o := options
	o.Quiet = !testing.Verbose()
	o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
		return New(s, r, Options{Sources: AllSources})
	}
	return o
}

// configStory is story for ConfigMaps and Secrets, with the ConfigMap app.
func configStory(t *testing.T, f func(w *env)) {
	storyWith(t, withConfigs(), func(w *env) {
		w.deploy("predixy", 2)
		w.config("app", `"log.conf":"1","other":"1"`)
		w.Start()
		w.Pass(10 * time.Second)
		f(w)
	})
}

const ofApp = `"source":{"configMaps":[{"name":"app"}]},`

// config makes a ConfigMap.
func (w *env) config(name, data string) {
	w.Helper()
	w.Post(configMaps, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"team":"a"}},"data":{%s}}`, name, data))
}

func (w *env) setConfig(name, data string) {
	w.Helper()
	w.Patch(configMaps, name, `{"data":{`+data+`}}`)
}

func TestStoryOfAConfigMapWithTheWritesOfEachStep(t *testing.T) {
	configStory(t, func(w *env) {
		w.Forget()
		w.trigger("rt", ofApp+toPredixy)
		w.Pass(time.Minute)
		w.WantRequests(readIt, statusWrite)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Want("sources", w.status("rt", "configNames"), "configmap/app")

		w.Forget()
		w.setConfig("app", `"log.conf":"2"`)
		w.Pass(2 * time.Second)
		w.WantWrites(statusWrite)
		w.WantCondition("rt", "Progressing", "True/Pending")
		w.Want("pending", w.status("rt", "pending", "source"), "configmap/app")
		w.wantRestarts(0)
		w.Pass(time.Minute)
		w.wantRestarts(1)
		w.Want("reason", w.status("rt", "lastRestart", "reason"), "ConfigChanged")
		w.Want("source", w.status("rt", "lastRestart", "source"), "configmap/app")
		w.Want("Events of the target", w.notes("Deployment", "predixy"),
			[]string{"Restarted: restarted by RestartTrigger rt: configmap app changed (log.conf)"})
		w.WantCondition("rt", "Ready", "True/Armed")

		w.Forget()
		w.Pass(15 * time.Minute)
		w.WantRequests()
		w.Stop()
		w.Start()
		w.Pass(15 * time.Minute)
		w.WantRequests(readIt)

		// Without skiff, or deleted and made anew: the content counts.
		w.Stop()
		w.setConfig("app", `"log.conf":"3"`)
		w.Start()
		w.Pass(time.Minute)
		w.wantRestarts(2)
		w.Delete(configMaps, "app")
		w.Pass(2 * time.Minute)
		w.WantCondition("rt", "Ready", "False/SourceMissing", "there is no configmap/app")
		w.config("app", `"log.conf":"3","other":"1"`)
		w.Pass(2 * time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.wantRestarts(2)
		w.Delete(configMaps, "app")
		w.Pass(2 * time.Minute)
		w.config("app", `"log.conf":"4"`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(3)
		w.Want("notes", w.notes("RestartTrigger", "rt")[2:],
			[]string{"Restarted: restarted deployment/predixy: configmap app changed (log.conf, other)"})
	})
}

func TestOnlyTheKeysThatAreNamedCount(t *testing.T) {
	configStory(t, func(w *env) {
		w.trigger("rt", `"source":{"configMaps":[{"name":"app","keys":["log.conf","later"]}]},`+toPredixy)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "False/SourceMissing", "configmap/app lacks a key", "later")
		w.Forget()
		w.setConfig("app", `"other":"2"`)
		w.Patch(configMaps, "app", `{"metadata":{"labels":{"x":"y"}}}`)
		w.Pass(2 * time.Minute)
		w.WantWrites()
		w.wantRestarts(0)
		w.setConfig("app", `"later":"1"`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(1)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.setConfig("app", `"log.conf":null`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(1)
		w.setConfig("app", `"log.conf":"2"`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(2)
	})
}

func TestTenChangesOfConfigAndPodsWithinTheDebounceAreOneRestart(t *testing.T) {
	configStory(t, func(w *env) {
		w.pod("redis-0")
		w.Pass(5 * time.Second)
		w.Post(secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"tls","labels":{"team":"a"}},"stringData":{"crt":"1"}}`)
		w.trigger("rt", `"source":{"selector":{"matchLabels":{"app":"redis"}},"configMaps":[{"selector":{"matchLabels":{"team":"a"}}}],
			"secrets":[{"name":"tls"}]},`+toPredixy)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed",
			"pods with app=redis for NewPodRunning, and configmaps with team=a, secret/tls")
		for i := range 10 {
			w.setConfig("app", fmt.Sprintf(`"log.conf":"n%d"`, i))
			w.Patch(secrets, "tls", fmt.Sprintf(`{"stringData":{"crt":"n%d"}}`, i))
			w.Pass(2 * time.Second)
		}
		w.replace("redis-0")
		w.Pass(2 * time.Minute)
		w.wantRestarts(1)
		w.config("more", `"a":"1"`) // one more for the selector
		w.Pass(2 * time.Minute)
		w.wantRestarts(2)
		w.Patch(configMaps, "more", `{"metadata":{"labels":null}}`)
		w.Pass(2 * time.Minute)
		w.setConfig("more", `"a":"2"`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(2)
		w.replace("redis-0")
		w.Pass(2 * time.Minute)
		w.wantRestarts(3)
		w.Want("reason", w.status("rt", "lastRestart", "reason"), "NewPodRunning")
	})
}

func TestAPendingRestartForAConfigMapSurvivesAnotherSelectorOfPods(t *testing.T) {
	configStory(t, func(w *env) {
		w.trigger("rt", `"source":{"selector":{"matchLabels":{"app":"redis"}},"configMaps":[{"name":"app"}]},"debounce":"1m",`+toPredixy)
		w.Pass(time.Minute)
		w.setConfig("app", `"log.conf":"2"`)
		w.Pass(5 * time.Second)
		w.Patch(resource, "rt", `{"spec":{"source":{"selector":{"matchLabels":{"app":"cache"}}}}}`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(1)
		w.setConfig("app", `"log.conf":"3"`)
		w.Pass(5 * time.Second)
		w.Patch(resource, "rt", `{"spec":{"source":{"configMaps":null}}}`)
		w.Pass(5 * time.Minute)
		w.wantRestarts(1)
		w.Want("what is known of ConfigMaps", w.status("rt", "seenConfigs"), "")
		w.Want("sources", w.status("rt", "configNames"), "")
	})
}

func TestASourceThatIsNotServedIsSaid(t *testing.T) {
	for name, row := range map[string]struct {
		serves       Sources
		source, want string
	}{
		"Secrets": {Sources{Pods: true, ConfigMaps: true}, `"secrets":[{"name":"tls"}],"configMaps":[{"name":"app"}]`,
			"does not watch secrets; run skiff with --restart-sources pods,configmaps,secrets, and grant list and " +
				"watch on secrets"},
		"ConfigMaps": {Sources{}, `"configMaps":[{"name":"app"}],"selector":{"matchLabels":{"app":"redis"}}`, "does not watch configmaps"},
		"pods":       {Sources{ConfigMaps: true}, `"selector":{"matchLabels":{"app":"redis"}}`, "does not watch pods"},
	} {
		t.Run(name, func(t *testing.T) {
			o := withConfigs()
			o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
				return New(s, r, Options{Sources: row.serves})
			}
			storyWith(t, o, func(w *env) {
				w.deploy("predixy", 1)
				w.config("app", `"a":"1"`)
				w.Post(secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"tls"}}`)
				w.Start()
				w.trigger("rt", `"source":{`+row.source+`},`+toPredixy)
				w.trigger("served", `"source":{"configMaps":[{"name":"app"}]},`+toPredixy)
				w.Pass(10 * time.Second)
				w.WantCondition("rt", "Stalled", "True/SourceNotServed", row.want, "--restart-sources ")
				if row.serves.ConfigMaps {
					w.WantCondition("served", "Ready", "True/Armed")
				}
				w.setConfig("app", `"a":"2"`)
				w.Pass(10 * time.Minute)
				w.Want("restarts", w.status("rt", "restarts"), 0)
				for _, r := range w.API.Requests() {
					if r.UserAgent == operatortest.Agent && strings.Contains(r.Path, "/secrets") {
						t.Errorf("%s %s", r.Method, r.Path)
					}
				}
			})
		})
	}
}

func TestConfigOfAnotherNamespaceIsRefused(t *testing.T) {
	configStory(t, func(w *env) {
		w.namespace(`{"skiff.dev/allow-restart-triggers-from":"*"}`)
		w.inNamespace("other", secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"tls"},"stringData":{"a":"1"}}`)
		w.trigger("rt", `"source":{"namespace":"other","secrets":[{"name":"tls"}]},`+toPredixy)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Stalled", "True/InvalidSpec",
			"spec.source.namespace: ConfigMaps and Secrets of another namespace")
		w.Want("what is known", w.status("rt", "seenConfigs"), "")
	})
}

func TestMoreSourcesThanCountAreSaid(t *testing.T) {
	configStory(t, func(w *env) {
		for i := range 210 {
			w.config(fmt.Sprintf("many-%03d", i), `"a":"1"`)
		}
		w.trigger("rt", `"source":{"configMaps":[{"selector":{"matchLabels":{"team":"a"}}}]},`+toPredixy)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Degraded", "True/TooManySources", "211 ConfigMaps, Secrets and keys",
			"only the first 200")
		w.setConfig("many-209", `"a":"2"`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(0)
		w.setConfig("many-001", `"a":"2"`)
		w.Pass(2 * time.Minute)
		w.wantRestarts(1)
		w.WantCondition("rt", "Degraded", "True/TooManySources")
	})
}

// Rules: MGR-15
func TestKillingTheControllerAtAnyRequestNeitherLosesNorDoublesARestartForAConfigMap(t *testing.T) {
	killed := func(ow *operatortest.Env, start func(), pass func(time.Duration)) {
		w := inCluster(ow)
		w.deploy("predixy", 1)
		w.config("app", `"a":"0"`)
		w.Pass(5 * time.Second)
		start()
		w.trigger("rt", ofApp+toPredixy+`,"debounce":"2s","cooldown":"30s"`)
		pass(10 * time.Second)
		for round := 1; round <= 2; round++ {
			w.setConfig("app", fmt.Sprintf(`"a":"%d"`, round))
			pass(2 * time.Minute)
			w.wantRestarts(round)
		}
	}
	operatortest.KillAtAnyRequest(t, withConfigs(), killed)
}

func TestNoValueOfASecretIsShown(t *testing.T) {
	var logged clitest.Buffer // mirrors write, too
	var made *controller.Controller
	o := withConfigs()
	o.Setup.History = new(recorded.Log)
	o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
		line := func(prefix, args string) { fmt.Fprintln(&logged, prefix, args) }
		s.Log = funcr.New(line, funcr.Options{Verbosity: 2})
		made = New(s, r, Options{Sources: AllSources})
		return made
	}
	storyWith(t, o, func(w *env) {
		secret := func(n int) string {
			return base64.StdEncoding.EncodeToString(fmt.Append(nil, operatortest.Canary, n))
		}
		w.deploy("predixy", 1)
		w.Post(secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"tls"},"data":{"tls.crt":"`+secret(1)+`"}}`)
		w.config("app", `"a":"`+operatortest.Canary+`1"`)
		w.Start()
		w.trigger("rt", `"source":{"configMaps":[{"name":"app"}],"secrets":[{"name":"tls","keys":["tls.crt"]}]},`+toPredixy)
		w.Pass(time.Minute)
		w.Patch(secrets, "tls", `{"data":{"tls.crt":"`+secret(2)+`"}}`)
		w.setConfig("app", `"a":"`+operatortest.Canary+`2"`)
		for range 6 {
			w.Pass(3 * time.Second)
			operatortest.WantNoCanary(w.Env, made, o.Setup.History, "rt")
		}
		w.wantRestarts(1)
		shown := logged.String()
		records := kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}
		for _, r := range []kube.Resource{resource, deployments, records} {
			text, err := json.Marshal(w.API.List(r, ""))
			if err != nil {
				t.Fatal(err)
			}
			shown += string(text)
		}
		if !strings.Contains(shown, "configmap/app") || !strings.Contains(shown, "secret/tls:tls.crt") {
			t.Errorf("nothing was shown: %s", shown)
		}
		for _, canary := range []string{operatortest.Canary, secret(1)[:8]} {
			if strings.Contains(shown, canary) {
				t.Errorf("%q is shown: %s", canary, shown)
			}
		}
	})
}

// A thousand changes a minute in one namespace.
func TestTheConfigOfOneTenantCostsNoOther(t *testing.T) {
	configStory(t, func(w *env) {
		w.trigger("rt", ofApp+toPredixy)
		w.namespace(`null`)
		w.inNamespace("other", configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"a":"1"}}`)
		w.Pass(time.Minute)
		w.Forget()
		for i := range 1000 {
			patch := kube.Raw(fmt.Sprintf(`{"data":{"a":"n%d"}}`, i))
			if err := w.User.Patch(w.Context(), configMaps, kube.Key{Namespace: "other", Name: "app"}, kube.MergePatch,
				patch, nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.Pass(60 * time.Millisecond)
		}
		w.WantRequests()
		w.wantRestarts(0)
	})
}
