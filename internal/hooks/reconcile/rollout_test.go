package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/testcluster/operatortest"
)

// catset answers with pods that are numbered, of the image in spec.template, and says how many it has seen.
func catset(_ wire.Hook, request map[string]any) (string, error) {
	parent := request["parent"]
	name, replicas := at(parent, "metadata", "name"), at(parent, "spec", "replicas")
	var children []string
	for i := range int(replicas.(float64)) {
		children = append(children, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%v-%d"},`+
			`"spec":{"containers":[{"name":"c","image":%q}]}}`, name, i, at(parent, "spec", "template", "image")))
	}
	observed, _ := at(request, "children", "Pod.v1").(map[string]any)
	return fmt.Sprintf(`{"status":{"observed":%d},"children":[%s]}`, len(observed), strings.Join(children, ",")), nil
}

func rolling(method spec.Method) *script {
	s := composite(catset)
	s.controller.Parents[0].FieldPaths = []string{"spec.template"}
	s.controller.Children = []spec.Child{{Type: spec.Type{APIVersion: "v1", Resource: "pods"}, Method: method,
		Checks: []spec.StatusCheck{{Type: "Ready", Status: "True"}}}}
	return s
}

// ready makes pods ready and lets the controller see it.
func ready(w *env, names ...string) {
	for _, name := range names {
		w.PatchSub(pods, name, "status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	}
	w.Pass(time.Second)
}

func images(w *env) (out []string) {
	for _, name := range names(w, pods) {
		image, _ := at(get(w, pods, name), "spec", "containers", 0, "image").(string)
		out = append(out, name+"="+image)
	}
	return out
}

// rolledTo is the condition of the roll.
func rolledTo(w *env) string {
	return fmt.Sprint(at(get(w, things, "a"), "status", "conditions", 0, "reason"), ": ",
		at(get(w, things, "a"), "status", "conditions", 0, "message"))
}

// Rules: HK-84, HK-85, HK-86, HK-87, HK-88, HK-89, HK-90
func TestChildrenRollOneAtATimeAsTheyGetReady(t *testing.T) {
	for _, method := range []spec.Method{spec.RollingRecreate, spec.RollingInPlace} {
		storyOfRevisions(t, rolling(method), func(w *env) {
			w.Create("a", `{"replicas":3,"template":{"image":"1"}}`)
			w.Pass(time.Second)
			ready(w, "a-0", "a-1", "a-2")
			w.Want("pods", images(w), []string{"a-0=1", "a-1=1", "a-2=1"})
			stored := w.API.List(spec.Revisions, "default")
			w.Want("revisions", len(stored), 1)
			name, sum, _ := strings.Cut(fmt.Sprint(at(stored[0], "metadata", "name")), "-")
			w.Want("the name that metacontroller gives it, before and after the -", []any{name, len(sum)},
				[]any{things.Plural + "." + things.Group, 40})
			if text := rolledTo(w); !strings.HasPrefix(text, "OnLatestRevision") {
				t.Error(text)
			}
			recreated := func(name string) {
				if method == spec.RollingRecreate {
					ready(w, name)
				} else {
					w.Pass(time.Second)
				}
			}
			w.Patch(things, "a", `{"spec":{"template":{"image":"2"}}}`)
			w.Pass(time.Second)
			if method == spec.RollingRecreate {
				w.DeleteNow(pods, "a-0")
				w.Pass(time.Second)
				w.Want("one has rolled", images(w), []string{"a-0=2", "a-1=1", "a-2=1"})
				if text := rolledTo(w); !strings.HasPrefix(text, "RolloutWaiting: child Pod a-0 has ") {
					t.Error(text)
				}
				w.Want("revisions", len(w.API.List(spec.Revisions, "default")), 2)
				w.Patch(things, "a", `{"spec":{"replicas":4}}`) // at once, through all revisions
				w.Pass(time.Second)
				w.Want("scaled", images(w), []string{"a-0=2", "a-1=1", "a-2=1", "a-3=2"})
				ready(w, "a-0", "a-3")
				w.DeleteNow(pods, "a-1")
				w.Pass(time.Second)
				recreated("a-1")
				w.DeleteNow(pods, "a-2")
				w.Pass(time.Second)
				recreated("a-2")
				w.Want("all", images(w), []string{"a-0=2", "a-1=2", "a-2=2", "a-3=2"})
			} else {
				w.Pass(time.Minute)
				w.Want("all", images(w), []string{"a-0=2", "a-1=2", "a-2=2"})
			}
			if text := rolledTo(w); !strings.HasPrefix(text, "OnLatestRevision") {
				t.Error(text)
			}
			w.Want("revisions", len(w.API.List(spec.Revisions, "default")), 1)
			w.Forget()
			w.Pass(time.Hour)
			w.WantRequests()
		})
	}
}

// Rules: HK-83, HK-85
func TestChildrenWithAFieldThatTheServerDoesNotKnowRoll(t *testing.T) {
	s := rolling(spec.RollingInPlace)
	s.hook = func(hook wire.Hook, request map[string]any) (string, error) {
		answer, err := catset(hook, request)
		return strings.ReplaceAll(answer, `"name":"c"`, `"colour":"red","name":"c"`), err
	}
	storyOfRevisions(t, s, func(w *env) {
		w.Create("a", `{"replicas":2,"template":{"image":"1"}}`)
		w.Pass(time.Second)
		ready(w, "a-0", "a-1")
		w.Patch(things, "a", `{"spec":{"template":{"image":"2"}}}`)
		w.Pass(time.Minute)
		w.Want("all", images(w), []string{"a-0=2", "a-1=2"})
		w.Want("note", strings.Contains(note(w, "UnknownFields"), "spec.containers[].colour"), true)
		w.Want("status", s.notes.Problems(), []string{"Thing default/a: the server does not know these fields of " +
			"Pod, and skiff leaves them out: spec.containers[].colour"})
	})
}

// Rules: HK-34, HK-85
func TestChildrenThatAreTooLargeForTheCacheRoll(t *testing.T) {
	for _, method := range []spec.Method{spec.RollingRecreate, spec.RollingInPlace} {
		s := rolling(method)
		s.hook = func(hook wire.Hook, request map[string]any) (string, error) {
			answer, err := catset(hook, request)
			return strings.ReplaceAll(answer, `"metadata":{`, `"metadata":{"annotations":{`+large(30)+`},`), err
		}
		prepared(t, s, func(w *env) {
			w.Setup.ObjectBytes = 20 << 10
			w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", revisionsDefinition(t))
			w.Start()
			w.Pass(20 * time.Second)
			w.Create("a", `{"replicas":2,"template":{"image":"1"}}`)
			w.Pass(time.Second)
			ready(w, "a-0", "a-1")
			w.Patch(things, "a", `{"spec":{"template":{"image":"2"}}}`)
			for _, name := range []string{"a-0", "a-1"} {
				w.Pass(time.Minute)
				if method == spec.RollingRecreate {
					w.DeleteNow(pods, name)
					w.Pass(time.Minute)
					ready(w, name)
				}
			}
			w.Pass(time.Minute)
			w.Want("all", images(w), []string{"a-0=2", "a-1=2"})
			if text := rolledTo(w); !strings.HasPrefix(text, "OnLatestRevision") {
				t.Error(text)
			}
		})
	}
}

// storyOfRevisions is story with the definition of ControllerRevisions.
func storyOfRevisions(t *testing.T, s *script, f func(w *operatortest.Env)) {
	t.Helper()
	story(t, s, func(w *operatortest.Env) {
		w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", revisionsDefinition(t))
		w.Pass(20 * time.Second)
		f(w)
	})
}
