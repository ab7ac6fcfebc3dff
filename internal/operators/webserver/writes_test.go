package webserver

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
)

// In a cluster that rolls things out: a WebServer's status follows its Deployment's, and nothing is told twice.
func TestARolloutCostsAsManyWritesAsTheDeploymentHasStatuses(t *testing.T) {
	story(t, func(w *world) {
		cluster := w.Connect("cluster")
		w.Background(func(ctx context.Context) error {
			defer cluster.Close()
			return simulate.New(cluster, simulate.Options{}).Run(ctx)
		})
		w.Settle()
		count := func(agent, path string) (n int) {
			for _, r := range w.API.Requests() {
				// 409: an Event of the same nanosecond, which is often here, had the name already.
				if r.UserAgent == agent && r.Method != "GET" && r.Status != 409 && strings.HasSuffix(r.Path, path) {
					n++
				}
			}
			return n
		}
		for _, step := range []struct {
			name   string
			do     func()
			events int // what was done, and that all is well again
		}{
			{"create", func() { w.Create("web", article) }, 2},
			{"upgrade", func() { w.Patch(resource, "web", `{"spec":{"image":"nginx:1.25"}}`) }, 2},
			{"scale", func() { w.Patch(resource, "web", `{"spec":{"replicas":10}}`) }, 2},
			{"delete both children", func() { w.Delete(services, "web-service"); w.Delete(deployments, "web") }, 3},
		} {
			w.Forget()
			step.do()
			w.Pass(5 * time.Minute)
			w.WantCondition("web", "Ready", "True/Complete")
			ours, theirs := count(operatortest.Agent, "/webservers/web/status"),
				count("cluster", "/deployments/web/status")
			t.Logf("%s: %d writes of our status, %d of the Deployment's", step.name, ours, theirs)
			if ours > theirs+1 || ours < 2 { // one before the first of them
				w.Errorf("%s: %d writes of our status, %d of the Deployment's", step.name, ours, theirs)
			}
			if n := count(operatortest.Agent, "/events"); n > step.events {
				w.Errorf("%s: %d Events, want %d at most", step.name, n, step.events)
			}
		}
	})
}

func TestChildrenOfAllComeBeforeTheStatusOfOneWhereManyWait(t *testing.T) {
	o := options
	o.Setup.Workers = 1
	storyWith(t, o, func(w *world) {
		names := []string{"a", "b", "c", "d"}
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", Times: 1, Delay: time.Second})
		for _, name := range names { // the others wait for the worker that makes the children of the first
			w.Create(name, `{"image":"nginx:1.29","replicas":1}`)
		}
		w.Pass(2 * time.Second)
		wrote := w.Writes()
		last := slices.IndexFunc(wrote, func(r string) bool { return strings.HasPrefix(r, "PATCH") })
		w.Want("writes before the first status", last, 2*len(names))
		for _, name := range names {
			w.WantCondition(name, "Ready", "False/RollingOut")
		}
		w.Want("status writes", w.Count("PATCH"), len(names))
	})
}

func TestChildrenThatAreChangedTogetherMakeOneEvent(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Patch(resource, "web", `{"spec":{"port":8080}}`)
		w.Want("Events", w.EventLines("web"), []string{"Normal Apply", "Normal Create"})
		for _, e := range w.Events(resource.Kind, "web") {
			if note, _ := e["note"].(string); e["reason"] == "Apply" &&
				(!strings.Contains(note, "changed Deployment web, which differed in spec.template.") ||
					!strings.Contains(note, " and Service web-service, which differed in spec.ports")) {
				t.Errorf("note %q", note)
			}
		}
	})
}

func TestAChangeThatOnlyRemovesAFieldNamesIt(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", `{"image":"nginx","template":{"spec":{"priorityClassName":"high"}}}`)
		w.Patch(resource, "web", `{"spec":{"template":null}}`)
		var notes []any
		for _, e := range w.Events(resource.Kind, "web") {
			if e["reason"] == "ApplyDeployment" {
				notes = append(notes, e["note"])
			}
		}
		w.Want("notes", notes, []any{"changed Deployment web, which differed in spec.template.spec.priorityClassName"})
	})
}
