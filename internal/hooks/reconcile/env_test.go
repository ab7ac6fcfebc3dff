package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

var (
	at          = operatortest.At
	things      = kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}
	configMaps  = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
)

// script is a controller whose hooks are functions of the test. Its requests are what a hook of version 1 gets.
type script struct {
	controller spec.Controller
	parent     kube.Resource
	hook       func(hook wire.Hook, request map[string]any) (string, error)

	mu    sync.Mutex // guards calls
	calls []string
}

// composite returns a controller of Things with ConfigMaps, which are selected by the uid of their parent.
func composite(hook func(hook wire.Hook, request map[string]any) (string, error)) *script {
	h := func() *spec.Hook { return &spec.Hook{Version: 1, Webhook: &spec.Webhook{Timeout: 10 * time.Second}} }
	return &script{parent: things, hook: hook, controller: spec.Controller{
		Kind: spec.Composite, Name: "thing", Object: kube.Raw(`{"kind":"CompositeController","status":{}}`),
		Parents: []spec.Parent{{Type: spec.Type{APIVersion: "example.com/v1", Resource: "things"}}},
		Children: []spec.Child{{Type: spec.Type{APIVersion: "v1", Resource: "configmaps"},
			Method: spec.InPlace}},
		GenerateSelector: true, Sync: h()}}
}

// finalizing adds a finalize hook.
func (s *script) finalizing() *script {
	s.controller.Finalize = s.controller.Sync
	return s
}

func (s *script) new(setup controller.Setup, recorder *events.Recorder) *controller.Controller {
	return New(setup, recorder, Options{Spec: &s.controller, Rule: s.controller.Parents[0],
		Parent:   discovery.Resource{Resource: s.parent, Status: s.parent == things},
		Children: s.children(), Call: s.call})
}

func (s *script) children() (out []kube.Resource) {
	for _, c := range s.controller.Children {
		for _, r := range []kube.Resource{configMaps, deployments, pods} {
			if r.Plural == c.Resource {
				out = append(out, r)
			}
		}
	}
	return out
}

func (s *script) call(_ context.Context, hook wire.Hook, parent *kube.Meta, request []byte) ([]byte, error) {
	var decoded map[string]any
	if err := json.Unmarshal(request, &decoded); err != nil {
		return nil, fmt.Errorf("the request is not JSON: %w: %s", err, request)
	}
	s.mu.Lock()
	s.calls = append(s.calls, string(hook)+" "+parent.Name)
	s.mu.Unlock()
	answer, err := s.hook(hook, decoded)
	return []byte(answer), err
}

// called returns the calls since it was called last.
func (s *script) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

// story runs f with the controller of a script.
func story(t *testing.T, s *script, f func(w *operatortest.Env)) {
	t.Helper()
	crd, err := os.ReadFile("testdata/things.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := operatortest.Options{Resource: things, Controller: "thing", New: s.new}
	operatortest.Run(t, o, func(w *operatortest.Env) {
		w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
		w.Pass(time.Second)
		w.Start()
		f(w)
	})
}

// echo answers with a ConfigMap for each name in spec.names, whose data is spec.text, and with their number.
func echo(_ wire.Hook, request map[string]any) (string, error) {
	parent := request["parent"]
	names, _ := at(parent, "spec", "names").([]any)
	var children []string
	for _, name := range names {
		children = append(children, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},`+
			`"data":{"text":%q}}`, name, at(parent, "spec", "text")))
	}
	observed, _ := at(request, "children", "ConfigMap.v1").(map[string]any)
	return fmt.Sprintf(`{"status":{"observed":%d},"children":[%s]}`, len(observed), strings.Join(children, ",")), nil
}

func get(w *operatortest.Env, r kube.Resource, name string) map[string]any {
	return w.API.Get(r, operatortest.Named(name))
}

// names are those of all objects of a resource.
func names(w *operatortest.Env, r kube.Resource) (out []string) {
	for _, o := range w.API.List(r, "default") {
		name, _ := at(o, "metadata", "name").(string)
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
