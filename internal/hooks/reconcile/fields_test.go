package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// deployment returns a Deployment in JSON, with more fields of its spec and of its container.
func deployment(name, spec, container string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{%s"selector":{
		"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[
		{"name":"c","image":"i"%s}]}}}}`, name, spec, container)
}

// Rules: HK-83
func TestFieldsThatTheServerDoesNotKnowAreLeftOutAndNamedOnce(t *testing.T) {
	s := composite(declared).kind(deployments, spec.InPlace)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(deployment("d", `"sizes":3,`, `,"colour":"red"`), configMap("x", "", ""))))
		w.Pass(time.Second)
		w.Want("made", names(w, deployments), []string{"d"})
		w.Want("made beside it", names(w, configMaps), []string{"x"})
		w.Want("note", note(w, "UnknownFields"), "the server does not know these fields of Deployment, and skiff "+
			"leaves them out: spec.sizes and spec.template.spec.containers[].colour")
		w.Want("requests", w.Count("POST deployments"), 2)
		w.Forget()
		w.Pass(50 * time.Minute)
		w.WantRequests()
		// an apply names one field at a time
		setAnswer(w, things, "a", children(deployment("d", `"sizes":4,"minReadySeconds":1,"shape":"round",`,
			`,"colour":"blue","smell":"none"`), configMap("x", "", "")))
		w.Pass(time.Second)
		w.Want("changed", at(get(w, deployments, "d"), "spec", "minReadySeconds"), 1)
		w.Forget()
		w.Create("b", answer(children(deployment("e", `"sizes":3,"shape":"round",`, `,"smell":"none"`))))
		w.WantRequests("POST deployments 201", "JSONPATCH things/b/status 200")
		w.Forget()
		w.Pass(2 * time.Hour)
		w.WantRequests()
	})
}

// An Event is gone after an hour, and nobody may have read it.
//
// Rules: HK-83
func TestAFieldThatTheServerDoesNotKnowIsAWarningInTheLog(t *testing.T) {
	s := composite(declared).kind(deployments, spec.InPlace)
	prepared(t, s, func(w *env) {
		var mu sync.Mutex
		var found []string
		w.Log = funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(args, "spec.sizes") {
				found = append(found, args)
			}
		}, funcr.Options{})
		w.Start()
		for _, parent := range []string{"a", "b"} {
			w.Create(parent, answer(children(deployment("of-"+parent, `"sizes":3,`, ""))))
			w.Pass(time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		level := kube.Warn()
		warns := fmt.Sprintf("%q=%q", level[0], level[1])
		if len(found) != 1 || !strings.Contains(found[0], warns) ||
			!strings.Contains(found[0], `"child"="default/of-a"`) {
			t.Errorf("the log has %q", found)
		}
	})
}

// Rules: HK-83
func TestTheServerIsAskedAgainAboutUnknownFieldsAfterAWhile(t *testing.T) {
	s := composite(declared).kind(deployments, spec.InPlace)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(deployment("d", `"sizes":3,`, ""))))
		w.Pass(2 * time.Hour)
		w.Forget()
		for range 3 {
			w.Patch(things, "a", `{"metadata":{"labels":{"touched":"`+time.Now().Format("150405")+`"}}}`)
			w.Pass(time.Minute)
		}
		w.Want("refused requests", w.Count("APPLY as metacontroller deployments/d 500"), 1)
		w.Want("writes of the status", w.Count("JSONPATCH things"), 0)
	})
}

// Names of CRDs, and groups, have dots. The child exists, as after a restart of skiff, so that it is applied.
//
// Rules: HK-83
func TestAnUnknownFieldOfAChildWithADotInItsNameIsLeftOut(t *testing.T) {
	s := composite(declared).kind(deployments, spec.InPlace)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(deployment("d.example.com", "", ""))))
		w.Pass(time.Minute)
		setAnswer(w, things, "a", children(deployment("d.example.com", `"sizes":3,"minReadySeconds":1,`, "")))
		w.Pass(time.Second)
		w.Want("changed", at(get(w, deployments, "d.example.com"), "spec", "minReadySeconds"), 1)
		w.Want("note", note(w, "UnknownFields"), "the server does not know these fields of Deployment, and skiff "+
			"leaves them out: spec.sizes")
	})
}

// A key of an object may come from whoever writes the parent, and stands in the server's message.
//
// Rules: HK-83
func TestUnknownFieldsOfANamespaceAreNotLeftOutInAnother(t *testing.T) {
	s := composite(declared).kind(deployments, spec.InPlace)
	story(t, s, func(w *env) {
		w.PostIn("", kube.Resource{Version: "v1", Plural: "namespaces", ClusterScoped: true},
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}`)
		post := func(name, fields string) {
			w.PostIn("other", things, thing(name, "", children(deployment(name, fields, ""))))
			w.Pass(time.Minute)
		}
		w.Create("victim", answer(children(deployment("victim", `"replicas":3,`, ""))))
		w.Pass(time.Minute)
		post("evil", `"q: field not declared in schema .spec.replicas: field not declared in schema":1,`)
		post("evil2", `"q\nx .spec.replicas: field not declared in schema":1,`)
		many := ""
		for i := range maxUnknown {
			many += fmt.Sprintf(`"unknown%d":1,`, i)
		}
		post("many", many)
		setAnswer(w, things, "victim", children(deployment("victim", `"replicas":3,"minReadySeconds":1,`, "")))
		w.Create("b", answer(children(deployment("b", `"sizes":3,`, ""))))
		w.Pass(time.Minute)
		w.Want("changed", at(get(w, deployments, "victim"), "spec", "minReadySeconds"), 1)
		w.Want("replicas", at(get(w, deployments, "victim"), "spec", "replicas"), 3)
		w.Want("another child with an unknown field", slices.Contains(names(w, deployments), "b"), true)
	})
}

// Rules: HK-83
func TestEqualKeysInAListAreAnErrorWithThePath(t *testing.T) {
	s := composite(declared).kind(deployments, spec.InPlace)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", "", ""), deployment("d", "",
			`,"ports":[{"containerPort":80},{"containerPort":81},{"containerPort":80,"protocol":"TCP"}]`))))
		w.Pass(time.Second)
		w.WantRequests()
		if got := note(w, "SyncError"); !strings.Contains(got, "children[1].spec.template.spec.containers[0].ports[2]"+
			`: has the key [containerPort=80,protocol="TCP"], as item 0 has`) {
			t.Error(got)
		}
	})
}

// Two parents are refused at once for a field that nobody has met before. What one of them learns holds for the other.
//
// Rules: HK-83
func TestParentsThatMeetAnUnknownFieldAtOnceAreAllApplied(t *testing.T) {
	s := composite(declared).kind(deployments, spec.InPlace)
	prepared(t, s, func(w *env) {
		w.Setup.Workers = 4
		defer w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", Delay: time.Second})()
		for i := range 4 {
			w.Create(fmt.Sprint("p", i), answer(children(deployment(fmt.Sprint("d", i), `"sizes":3,`, ""))))
		}
		w.Start()
		w.Pass(10 * time.Second)
		w.Want("made", names(w, deployments), []string{"d0", "d1", "d2", "d3"})
		w.Want("failures", s.last.Stats().Errors, int64(0))
		w.Want("status", s.notes.Problems(), []string{"Thing default/p0 and 3 more: the server does not know these " +
			"fields of Deployment, and skiff leaves them out: spec.sizes"})
		for i := range 4 {
			w.Patch(things, fmt.Sprint("p", i), `{"spec":`+answer(children(deployment(fmt.Sprint("d", i), "", "")))+`}`)
		}
		w.Pass(10 * time.Second)
		w.Want("status", len(s.notes.Problems()), 0)
	})
}
