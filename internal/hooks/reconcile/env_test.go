package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

type env = operatortest.Env

var (
	at          = operatortest.At
	things      = kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}
	configMaps  = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	eventKind   = kube.Resource{Version: "v1", Plural: "events", Kind: "Event"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
	namespaces  = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	realms      = kube.Resource{Group: "example.com", Version: "v1", Plural: "realms", Kind: "Realm",
		ClusterScoped: true}
	gadgets = kube.Resource{Group: "example.com", Version: "v1", Plural: "gadgets", Kind: "Gadget"}
)

// script is a controller whose hooks are functions of the test. Its requests are what a hook of version 1 gets.
type script struct {
	controller spec.Controller
	parent     kube.Resource
	hook       hookFunc
	verbatim   bool          // nothing is added to answers that lack what they must have
	memory     *call.Memory  // nil: unbounded
	slow       time.Duration // how long each call takes

	last    *controller.Controller // that new has made
	changes atomic.Int64           // of the hook
	returns atomic.Int64           // of the hook, after it was down
	version string                 // of the hook; "": it has no brake
	allowed string                 // to the brake
	brake   *Brake                 // that new has made
	told    []string               // by the brake
	others  []string               // the other controllers of the parents
	notes   Notes

	hasConditions func(ctx context.Context) bool // nil: the parents have none
	pods          func(ctx context.Context, namespace, selector string) (controller.Pods, error)

	mu        sync.Mutex // held while the hook runs; guards what follows
	calls     []string
	killed    int           // so many calls fail
	restarted chan struct{} // closed when the hook restarts; nil: there was no call since
}

type hookFunc func(hook wire.Hook, request map[string]any) (string, error)

// composite returns a controller of Things with ConfigMaps, which are selected by the uid of their parent.
func composite(hook hookFunc) *script {
	return &script{parent: things, hook: hook, controller: spec.Controller{
		Kind: spec.Composite, Name: "thing", Object: kube.Raw(`{"kind":"CompositeController","status":{}}`),
		Parents: []spec.Parent{{Type: spec.Type{APIVersion: "example.com/v1", Resource: "things"}}},
		Children: []spec.Child{{Type: spec.Type{APIVersion: "v1", Resource: "configmaps"},
			Method: spec.InPlace}},
		GenerateSelector: true, Sync: webhook()}}
}

func webhook() *spec.Hook {
	return &spec.Hook{Version: 1, Timeout: 10 * time.Second, Webhook: &spec.Webhook{}}
}

// selecting is composite with the selectors of the parents.
func selecting(hook hookFunc) *script {
	s := composite(hook)
	s.controller.GenerateSelector = false
	return s
}

// decorator returns a DecoratorController of a resource with ConfigMaps.
func decorator(name string, of kube.Resource, hook hookFunc) *script {
	return &script{parent: of, hook: hook, controller: spec.Controller{
		Kind: spec.Decorator, Name: name, Object: kube.Raw(`{"kind":"DecoratorController","status":{}}`),
		Parents: []spec.Parent{{Type: spec.Type{APIVersion: of.APIVersion(), Resource: of.Plural}}},
		Children: []spec.Child{{Type: spec.Type{APIVersion: "v1", Resource: "configmaps"},
			Method: spec.InPlace}},
		Sync: webhook()}}
}

// of has the controller work for another resource than Things.
func (s *script) of(parent kube.Resource) *script {
	s.parent = parent
	s.controller.Parents[0].Type = spec.Type{APIVersion: parent.APIVersion(), Resource: parent.Plural}
	return s
}

// kind adds a kind of children.
func (s *script) kind(r kube.Resource, method spec.Method) *script {
	s.controller.Children = append(s.controller.Children, spec.Child{
		Type: spec.Type{APIVersion: r.APIVersion(), Resource: r.Plural}, Method: method})
	return s
}

// finalizing adds a finalize hook.
func (s *script) finalizing() *script {
	s.controller.Finalize = s.controller.Sync
	return s
}

func (s *script) new(setup controller.Setup, recorder *events.Recorder) *controller.Controller {
	if s.controller.Customize == nil { // as package supervise does
		setup.Client = setup.Client.Limit(spec.Rights(&s.controller))
	}
	if s.version != "" {
		s.brake = &Brake{Allowed: s.allowed, Version: func() string { return s.version },
			Tell: func(problem string) { s.told = append(s.told, problem) }}
	}
	s.last = New(setup, recorder, Options{Spec: &s.controller, Rule: s.controller.Parents[0],
		Parent:   discovery.Resource{Resource: s.parent, Status: s.parent != gadgets},
		Children: s.kinds(), Call: s.call, Changes: s.changes.Load, Returns: s.returns.Load,
		Brake: s.brake, Notes: &s.notes, Memory: s.memory, HasConditions: s.hasConditions, Pods: s.pods,
		Others: func() []string { return s.others }})
	return s.last
}

func (s *script) kinds() (out []kube.Resource) {
	for _, c := range s.controller.Children {
		for _, r := range []kube.Resource{configMaps, deployments, pods, services, namespaces} {
			if r.Plural == c.Resource {
				out = append(out, r)
			}
		}
	}
	return out
}

// errHangs has the call of a hook last until its timeout.
var errHangs = errors.New("the hook hangs")

func (s *script) call(ctx context.Context, hook wire.Hook, parent *kube.Meta, request []byte) ([]byte, error) {
	var decoded map[string]any
	if err := json.Unmarshal(request, &decoded); err != nil {
		return nil, fmt.Errorf("the request is not JSON: %w: %s", err, request)
	}
	if s.slow > 0 { // a timer that is due at once crashes go1.26.8's race detector in one of 200 runs
		select {
		case <-time.After(s.slow):
		case <-ctx.Done():
		}
	}
	answer, restart, err := s.answer(hook, parent, decoded)
	if errors.Is(err, errHangs) {
		select {
		case <-restart:
		case <-ctx.Done():
		case <-time.After(webhook().Timeout):
		}
	}
	return answer, err
}

// answer asks the hook, and returns what is closed when it restarts.
func (s *script) answer(hook wire.Hook, parent *kube.Meta, request map[string]any) ([]byte, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed > 0 {
		s.killed--
		return nil, nil, errors.New("the hook was killed")
	}
	if s.restarted == nil {
		s.restarted = make(chan struct{})
	}
	s.calls = append(s.calls, string(hook)+" "+parent.Name)
	answer, err := s.hook(hook, request)
	if !s.verbatim {
		answer = complete(answer)
	}
	return []byte(answer), s.restarted, err
}

// complete adds what an answer must have, so that each test names only what it is about.
func complete(answer string) string {
	for _, list := range []string{"relatedResources", "attachments", "children"} {
		if !strings.Contains(answer, `"`+list+`"`) {
			answer = strings.Replace(answer, "{", `{"`+list+`":[],`, 1)
		}
	}
	return strings.Replace(answer, ",}", "}", 1)
}

// restart kills the hook amid its calls, and has the first calls after that fail, too. As package supervise does, it
// runs all parents once there is another process.
func (s *script) restart(calls int) {
	s.mu.Lock()
	s.killed = calls
	if s.restarted != nil {
		close(s.restarted)
		s.restarted = nil
	}
	s.mu.Unlock()
	s.changes.Add(1)
	s.last.RunAll("", "the hook has changed")
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
func story(t *testing.T, s *script, f func(w *env)) {
	t.Helper()
	prepared(t, s, func(w *env) {
		w.Start()
		f(w)
	})
}

// prepared is story that has not started the controller yet.
func prepared(t *testing.T, s *script, f func(w *env)) {
	t.Helper()
	operatortest.Run(t, operatortest.Options{Resource: s.parent, Controller: s.controller.Name, New: s.new},
		func(w *env) {
			define(w)
			f(w)
		})
}

// define installs the definitions of the parents.
func define(w *env) {
	w.Helper()
	for _, plural := range []string{"things", "realms", "gadgets"} {
		w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(definition(w, plural)))
	}
	w.Pass(time.Second)
}

func definition(w *env, plural string) string {
	w.Helper()
	crd, err := os.ReadFile("testdata/" + plural + ".yaml")
	if err != nil {
		w.Fatal(err)
	}
	return string(crd)
}

// beside runs the controller of another script until stop is called, or the test ends.
func beside(w *env, s *script) (stop func()) {
	client := w.Connect(s.controller.Name)
	c := s.new(controller.Setup{Client: client, Log: w.Log}, nil)
	stopped := make(chan struct{})
	w.Background(func(ctx context.Context) error {
		defer client.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-stopped:
				cancel()
			case <-ctx.Done():
			}
		}()
		return c.Run(ctx)
	})
	w.WaitIdle()
	return func() { close(stopped) }
}

// declared answers with the JSON text in the parent's spec.answer.
func declared(_ wire.Hook, request map[string]any) (string, error) {
	parent := request["parent"]
	if parent == nil {
		parent = request["object"]
	}
	text, ok := at(parent, "spec", "answer").(string)
	if !ok {
		text = "{}"
	}
	return text, nil
}

// answer returns a spec whose answer is a JSON text, for declared.
func answer(text string) string { return fmt.Sprintf(`{"answer":%q}`, text) }

// setAnswer changes the answer for a parent.
func setAnswer(w *env, r kube.Resource, name, text string) {
	w.Helper()
	w.Patch(r, name, `{"spec":`+answer(text)+`}`)
}

// children returns an answer with these.
func children(of ...string) string { return `{"children":[` + strings.Join(of, ",") + `]}` }

// configMap returns a ConfigMap in JSON.
func configMap(name, metadata, data string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q%s},"data":{%s}}`, name, metadata,
		data)
}

// post creates an object in a namespace, "" for one that is cluster-scoped.
func post(w *env, r kube.Resource, namespace, text string) {
	w.Helper()
	err := w.User.Create(w.Context(), r, namespace, w.JSON(text), nil, kube.WriteOptions{FieldManager: "user"})
	if err != nil {
		w.Fatal(err)
	}
	w.WaitIdle()
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

func get(w *env, r kube.Resource, name string) map[string]any {
	return w.API.Get(r, operatortest.Named(name))
}

// names are those of all objects of a resource.
func names(w *env, r kube.Resource) (out []string) {
	for _, o := range w.API.List(r, "default") {
		name, _ := at(o, "metadata", "name").(string)
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// revisionsDefinition is the definition of ControllerRevisions as it is shipped.
func revisionsDefinition(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../crds/hooks/controllerrevisions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return text
}
