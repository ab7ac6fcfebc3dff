package reload

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/controller"
	"skiff/internal/testcluster/apiserver"
)

// beside runs a `skiff reload` beside the controllers.
func (w *env) beside(a Standalone) {
	w.Helper()
	c := w.Connect("second")
	cs, err := NewStandalone(controller.Setup{Client: c, Namespaces: []string{"default"}, Log: logr.Discard()}, a)
	if err != nil {
		w.Fatal(err)
	}
	w.Background(func(ctx context.Context) error {
		defer c.Close()
		<-ctx.Done()
		return nil
	})
	for _, one := range cs {
		w.Background(one.Run)
	}
	w.WaitIdle()
}

// wantEachOnce changes ConfigMaps in turn: for each change the Deployment web restarts once, and the writes end.
func (w *env) wantEachOnce(names ...string) {
	w.Helper()
	w.Pass(5 * time.Minute)
	for i := range 10 * len(names) {
		name := names[i%len(names)]
		w.setConfigMap(name, fmt.Sprint("x", i))
		w.Pass(20 * time.Minute)
		w.wantRestarts("web", i+1)
	}
	w.Forget()
	w.Pass(3 * time.Hour)
	w.wantWrites()
	for _, r := range w.API.Requests() {
		if r.UserAgent == "second" && r.Method == http.MethodPatch {
			w.Errorf("the second process writes %s", r.Path)
		}
	}
}

func TestTwoProcessesWithDisjointSourcesMissNoChange(t *testing.T) {
	web := []Target{{"Deployment", "web"}}
	alone(t, Standalone{Targets: web, ConfigMaps: []string{"b"}, Cooldown: time.Minute}, func(w *env) {
		w.configMap("a", "1")
		w.configMap("b", "1")
		w.deploy("web", "", envFrom("a"))
		w.Start()
		w.beside(Standalone{Targets: web, ConfigMaps: []string{"a"}, Cooldown: time.Minute})
		w.wantEachOnce("a", "b")
	})
}

func TestFlagsBesideAnnotationsMissNoChangeAndRepeatNone(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.configMap("b", "1")
		w.deploy("web", auto, `,"envFrom":[{"configMapRef":{"name":"a"}},{"configMapRef":{"name":"b"}}]`)
		w.beside(Standalone{Targets: []Target{{"Deployment", "web"}}, ConfigMaps: []string{"a"},
			Cooldown: time.Minute})
		w.wantEachOnce("a", "b", "a")
	})
}

// The name of a state follows from the sources alone, in any order.
func TestTheStateOfFlagsHasANameOfItsOwn(t *testing.T) {
	names := map[string]int{}
	for i, a := range []Standalone{
		{},
		{Targets: []Target{{"Deployment", "web"}}},
		{Targets: []Target{{"Deployment", "web"}}, ConfigMaps: []string{"a", "b"}},
		{Targets: []Target{{"StatefulSet", "db"}}, ConfigMaps: []string{"b", "a"}},
		{Targets: []Target{{"Deployment", "web"}}, Secrets: []string{"a", "b"}},
		{Targets: []Target{{"Deployment", "web"}}, ConfigMaps: []string{"a:b"}},
	} {
		name := a.stateName()
		if name != StateAnnotation && !isStateName(name) {
			t.Errorf("%+v: the name %q", a, name)
		}
		if j, again := names[name]; again != (i == 3) || again && j != 2 {
			t.Errorf("%+v: the name %s is that of number %d", a, name, j)
		}
		names[name] = i
	}
}

// A replica whose watch of ConfigMaps is far behind sees a state with newer content than the replica has.
func TestAReplicaBehindTheServerRestartsNothing(t *testing.T) {
	of := Standalone{Targets: []Target{{"Deployment", "web"}}, Cooldown: time.Second}
	alone(t, of, func(w *env) {
		w.configMap("a", "0")
		w.deploy("web", "", envFrom("a"))
		w.API.Inject(apiserver.Fault{Verb: "watch", Resource: "configmaps", UserAgent: "second",
			Watch: apiserver.WatchFault{EventDelay: 5 * time.Minute}})
		w.Start()
		w.beside(of)
		w.Pass(10 * time.Minute)
		for i := range 5 {
			w.setConfigMap("a", fmt.Sprint("x", i))
			w.Pass(20 * time.Minute)
			w.wantRestarts("web", i+1)
		}
	})
}
