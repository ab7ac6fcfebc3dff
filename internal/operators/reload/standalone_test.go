package reload

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/testcluster/operatortest"
)

// alone runs f in an environment where `skiff reload` runs in place of the controllers.
func alone(t *testing.T, a Standalone, f func(w *env)) { aloneWith(t, a, logr.Discard(), f) }

// aloneWith does the same with a log.
func aloneWith(t *testing.T, a Standalone, log logr.Logger, f func(w *env)) {
	of := options
	of.Quiet = !testing.Verbose()
	of.NewAll = func(s controller.Setup, _ *events.Recorder) []*controller.Controller {
		s.Namespaces, s.Log = []string{"default"}, log
		cs, err := NewStandalone(s, a)
		if err != nil {
			t.Fatal(err)
		}
		return cs
	}
	operatortest.Run(t, of, func(w *operatortest.Env) { f(inCluster(w)) })
}

// reads returns the lists of a resource by skiff, without the probes before a watch: the field selectors.
func (w *env) reads(plural string) string {
	selectors := map[string]bool{}
	for _, r := range w.API.Requests() {
		if r.UserAgent == operatortest.Agent && strings.HasSuffix(r.Path, "/"+plural) {
			selectors[r.Query.Get("fieldSelector")] = true
		}
	}
	return fmt.Sprint(selectors)
}

func TestStandaloneReadsAndRestartsOnlyNamedObjects(t *testing.T) {
	alone(t, Standalone{Targets: []Target{{"Deployment", "web"}}, ConfigMaps: []string{"a:key"},
		Cooldown: time.Minute}, func(w *env) {
		w.configMap("a", "1")
		w.configMap("b", "1")
		w.deploy("web", "", envFrom("b"))
		w.deploy("other", auto, envFrom("a"))
		w.Forget()
		w.Start()
		w.Pass(time.Minute)
		w.wantWrites("APPLY as skiff-reload-7aed987a deployments/web 200")
		for plural, want := range map[string]string{"deployments": "map[metadata.name=web:true]",
			"configmaps": "map[metadata.name=a:true]", "secrets": "map[]", "statefulsets": "map[]"} {
			w.Want("lists of "+plural, w.reads(plural), want)
		}
		w.setConfigMap("b", "2")
		w.Patch(configMaps, "a", `{"data":{"second":"x"}}`)
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 0)
		w.setConfigMap("a", "2")
		w.Pass(time.Minute)
		w.wantRestarts("web", 1)
		w.wantRestarts("other", 0)
		w.Stop()
		w.setConfigMap("a", "3")
		w.Start()
		w.Pass(2 * time.Minute)
		w.wantRestarts("web", 2)
		w.Forget()
		w.Stop()
		w.Start()
		w.Pass(time.Hour)
		w.WantWrites()
	})
}

func TestStandaloneRestartsTargetsInOrder(t *testing.T) {
	alone(t, Standalone{Targets: []Target{{"Deployment", "web"}, {"Deployment", "absent"}, {"Deployment", "front"}},
		Cooldown: time.Minute}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", "", envFrom("a"))
		w.deploy("front", `"skiff.dev/reload-after":"deployment/none"`, envFrom("a"))
		w.Start()
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(2 * time.Minute)
		w.wantRestarts("web", 1)
		w.wantRestarts("front", 1)
		if web, front := w.reloadedAt("web"), w.reloadedAt("front"); web >= front {
			t.Errorf("web is restarted at %s, and front at %s", web, front)
		}
	})
}

func TestStandaloneWithoutTargetsGoesByAnnotations(t *testing.T) {
	alone(t, Standalone{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.deploy("other", "", envFrom("a"))
		w.Start()
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(time.Minute)
		w.wantRestarts("web", 1)
		w.wantRestarts("other", 0)
	})
}

func TestStandaloneRefusesMistakes(t *testing.T) {
	web := Target{"Deployment", "web"}
	for name, c := range map[string]struct {
		of    Standalone
		field string
	}{
		"a key without a name": {Standalone{Targets: []Target{web}, ConfigMaps: []string{":x"}}, "ConfigMaps"},
		"no name":              {Standalone{Targets: []Target{web}, Secrets: []string{"A_b"}}, "Secrets"},
		"an empty name":        {Standalone{Targets: []Target{web}, ConfigMaps: []string{""}}, "ConfigMaps"},
		"a name in spaces":     {Standalone{Targets: []Target{web}, ConfigMaps: []string{"a", " b"}}, "ConfigMaps"},
		"two names in one":     {Standalone{Targets: []Target{web}, Secrets: []string{"a,b"}}, "Secrets"},
		"a space alone":        {Standalone{Targets: []Target{web}, Secrets: []string{"a", " "}}, "Secrets"},
		"too many sources": {Standalone{Targets: []Target{web}, ConfigMaps: []string{"a"},
			Secrets: manyNames(maxSources)}, "Secrets"},
		"sources alone":       {Standalone{Secrets: []string{"a"}}, "Secrets"},
		"a target twice":      {Standalone{Targets: []Target{web, web}}, "Targets"},
		"too many targets":    {Standalone{Targets: make([]Target, maxAfter+1)}, "Targets"},
		"negative cooldown":   {Standalone{Targets: []Target{web}, Cooldown: -1}, "Cooldown"},
		"annotations as well": {Standalone{Targets: []Target{web}, Options: Options{Reloader: true}}, "Targets"},
	} {
		var bad Mistake
		if err := c.of.Validate(); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%s: %v, want a mistake in %s", name, err, c.field)
		}
	}
}

func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("s", i))
	}
	return names
}

func TestANamedSourceThatDoesNotExistIsSaid(t *testing.T) {
	w := workloadOf(t, map[string]string{ConfigMapsAnnotation: "a,b:y"}, `{}`)
	for _, c := range []struct {
		contents map[string]*content
		want     string
	}{
		{map[string]*content{"configmap/a": digests("x", "1"), "configmap/b": digests("y", "1")}, ""},
		{map[string]*content{"configmap/a": digests("x", "1"), "configmap/b": digests("z", "1")}, missing},
		{map[string]*content{"configmap/b": digests("y", "1")}, missing},
	} {
		f := &facts{kind: "Deployment", w: w, wants: w.wants(w.Annotations), now: start}
		f.contents = c.contents
		got := ""
		if p := f.fault(); p != nil {
			got = p.Reason
		}
		if got != c.want {
			t.Errorf("%v: the reason %q, want %q", c.contents, got, c.want)
		}
	}
}
