package supervise_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"gopkg.in/yaml.v3"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

var (
	things     = kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}
	configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
)

// world is a Supervisor on an embedded API server, with a webhook.
type world struct {
	*operatortest.Env
	set   *controller.Set
	hooks *supervise.Supervisor
	o     supervise.Options

	mu      sync.Mutex // guards what follows
	code    int        // of the webhook's answers
	version string     // of the webhook
	calls   []string   // parents that it was called for, with why
	log     []string
}

// listener hands the ends of pipes to an HTTP server.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.UnixAddr{Name: "hook"} }

// run runs f with a Supervisor that runs. The definition of Things is not installed.
func run(t *testing.T, f func(w *world)) { runAs(t, false, f) }

// runAs is run; elected: its controllers work only while they lead.
func runAs(t *testing.T, elected bool, f func(w *world)) {
	operatortest.Run(t, operatortest.Options{Resource: things}, func(env *operatortest.Env) {
		w := &world{Env: env, code: http.StatusOK}
		l := make(listener)
		server := &http.Server{Handler: http.HandlerFunc(w.answer)}
		client := env.Connect("controller")
		log := funcr.New(w.say, funcr.Options{})
		recorder := events.New(events.Options{Client: client, Controller: "skiff.dev/hooks", Log: log})
		w.set = controller.NewSet(log)
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			here, there := net.Pipe()
			select {
			case l <- there:
				return here, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		w.o = supervise.Options{Set: w.set, Recorder: recorder, Log: log, Call: call.Options{Log: log, Dial: dial},
			Setup: controller.Setup{Client: client, Mirrors: cache.NewMirrors(), Elected: elected, Log: log}}
		w.hooks = supervise.New(w.o)
		env.Background(func(ctx context.Context) error {
			defer client.Close()
			var parts sync.WaitGroup
			parts.Go(func() { w.hooks.Run(ctx) })
			parts.Go(func() { w.done(w.set.Run(ctx)) })
			parts.Go(func() { w.done(recorder.Run(ctx)) })
			parts.Wait()
			return nil
		})
		env.Background(func(ctx context.Context) error { // ends after the one above
			defer context.AfterFunc(ctx, func() { close(l) })()
			_ = server.Serve(l) // it ends with the listener
			return server.Close()
		})
		f(w)
	})
}

func (w *world) done(err error) {
	if err != nil {
		w.Error(err)
	}
}

func (w *world) say(_, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, line)
}

// logged returns the lines of the log with a word.
func (w *world) logged(word string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.log {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return out
}

// answer is the webhook: a ConfigMap for each Thing.
func (w *world) answer(rw http.ResponseWriter, r *http.Request) {
	var request struct {
		Parent struct {
			Metadata struct{ Name, Namespace string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		w.Error(err)
	}
	name := request.Parent.Metadata.Name
	w.mu.Lock()
	code, version := w.code, w.version
	w.calls = append(w.calls, name+": "+r.Header.Get("Skiff-Cause"))
	w.mu.Unlock()
	if strings.HasPrefix(name, "slow") {
		<-r.Context().Done() // until the caller gives up
		return
	}
	if version != "" {
		rw.Header().Set("Skiff-Hook-Version", version)
	}
	rw.WriteHeader(code)
	if strings.HasPrefix(version, "empty") {
		fmt.Fprint(rw, `{"children":[]}`)
		return
	}
	if status := r.URL.Query().Get("status"); status != "" {
		fmt.Fprintf(rw, `{"children":[],"status":{"by":%q}}`, status)
		return
	}
	kind := "ConfigMap"
	if request.Parent.Metadata.Namespace == "" {
		kind = "Namespace"
	}
	fmt.Fprintf(rw, `{"children":[{"apiVersion":"v1","kind":%q,"metadata":{"name":%q}}]}`, kind, name)
}

// set changes how the webhook answers.
func (w *world) answers(code int, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code, w.version = code, version
}

// called returns the calls since it was called last.
func (w *world) called() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.calls
	w.calls = nil
	return out
}

func (w *world) installThings() {
	w.Helper()
	crd, err := os.ReadFile("../reconcile/testdata/things.yaml")
	if err != nil {
		w.Fatal(err)
	}
	w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
	w.Pass(10 * time.Second)
}

func (w *world) configMaps() (out []string) {
	for _, o := range w.API.List(configMaps, "default") {
		name, _ := operatortest.At(o, "metadata", "name").(string)
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

const composite = `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController",
	"metadata":{"name":"thing"},"spec":{"generateSelector":true,
	"parentResource":{"apiVersion":"example.com/v1","resource":"things"},
	"childResources":[{"apiVersion":"v1","resource":"configmaps"}],
	"hooks":{"sync":{"webhook":{"url":"http://hook/sync"}}}}}`

func (w *world) put(text string) {
	w.Helper()
	c, err := spec.FromObject(kube.Raw(text))
	if err != nil {
		w.Fatal(err)
	}
	w.hooks.Put(c)
}

// Rules: HK-13
func TestAControllerWithAMistypedResourceIsToldTheOneThatIsServed(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		w.put(strings.Replace(composite, `"things"`, `"thingz"`, 1))
		w.Pass(time.Second)
		if text := health.Texts(w.hooks.Attention(), time.Now()); !strings.Contains(text, "did you mean things?") {
			t.Errorf("got %q", text)
		}
	})
}

// Rules: HK-13, HK-92, HK-94
func TestAControllerStartsWhenItsResourcesAreThereAndStopsWithItsObject(t *testing.T) {
	run(t, func(w *world) {
		w.put(composite)
		w.Pass(time.Minute)
		if text := health.Texts(w.hooks.Attention(), time.Now()); !strings.Contains(text, "apply its definition") {
			t.Errorf("without its definition: %q", text)
		}
		w.installThings()
		w.Want("attention", len(w.hooks.Attention()), 0)
		w.Create("a", `{}`)
		w.Pass(time.Second)
		w.Want("children", w.configMaps(), []string{"a"})
		w.hooks.Drop(spec.Composite, "thing")
		w.Pass(time.Second)
		w.Create("b", `{}`)
		w.Pass(time.Minute)
		w.Want("children when it was dropped", w.configMaps(), []string{"a"})
		w.Want("controllers", len(w.set.All()), 0)
		w.put(strings.Replace(composite, "http://hook/sync", "http://hook/other", 1))
		w.Pass(10 * time.Second)
		w.Want("children when it is back", w.configMaps(), []string{"a", "b"})
	})
}

// Rules: HK-94, HK-98
func TestAControllerWhoseParentsLoseTheirDefinitionWaitsForIt(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		w.put(composite)
		w.Create("a", `{}`)
		w.Pass(10 * time.Second)
		w.done(w.User.Delete(context.Background(), kube.Resource{Group: "apiextensions.k8s.io", Version: "v1",
			Plural: "customresourcedefinitions", ClusterScoped: true}, kube.Key{Name: "things.example.com"},
			kube.DeleteOptions{}))
		w.Pass(time.Minute)
		all := w.hooks.Attention()
		for _, c := range w.set.All() {
			all = append(all, c.Problems()...)
		}
		if len(all) != 1 || all[0].Reason != "NotFound" || !strings.Contains(all[0].Public, "things.example.com") {
			t.Errorf("attention %+v, want one problem that names the definition", all)
		}
		w.Want("it is told", len(w.logged("CreateError")), 1)
		w.installThings()
		w.Create("b", `{}`)
		w.Pass(time.Minute)
		w.Want("attention when it is back", len(w.hooks.Attention()), 0)
		w.Want("children", slices.Contains(w.configMaps(), "b"), true)
	})
}

// Rules: HK-95, HK-96, HK-98
func TestAHookThatFailsForAllIsAskedLessAndThenRunsAllParents(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		w.put(composite)
		w.answers(http.StatusBadGateway, "1")
		for i := range 20 {
			w.Create(fmt.Sprintf("t%02d", i), `{}`)
		}
		w.Pass(time.Minute)
		if text := health.Texts(w.hooks.Attention(), time.Now()); !strings.Contains(text, "502") {
			t.Errorf("while it fails: %q", text)
		}
		if shown := w.hooks.Shown(); len(shown) != 1 || !shown[0].Failing || !shown[0].Parked {
			t.Errorf("while it fails, the live page shows: %+v", shown)
		}
		if log := w.logged("HookUnavailable"); len(log) != 1 {
			t.Errorf("it is told %d times that the hook fails: %q", len(log), log)
		}
		w.called()
		w.Pass(10 * time.Minute)
		if calls := len(w.called()); calls > 20 {
			t.Errorf("%d calls within ten minutes for a hook that fails", calls)
		}
		w.answers(http.StatusOK, "1")
		w.Create("new", `{}`)
		w.Pass(time.Minute)
		w.Want("children", len(w.configMaps()), 21)
		w.Want("attention", len(w.hooks.Attention()), 0)
		if about := w.hooks.About(); len(about) != 1 || !strings.HasPrefix(about[0], "hook sync of thing: ") ||
			strings.Contains(about[0], " 0 failed") {
			t.Errorf("about the hooks: %q", about)
		}
		if shown := w.hooks.Shown(); len(shown) != 1 || shown[0].Hook != "sync" || shown[0].Controller != "thing" ||
			shown[0].Calls < 21 || shown[0].Errors == 0 || shown[0].LastError != "status 502" || shown[0].Failing ||
			shown[0].Parked || !strings.Contains(shown[0].Quoted, "ConfigMap") {
			t.Errorf("the live page shows of the hooks: %+v", shown)
		}
		w.called()
		w.answers(http.StatusOK, "2")
		w.Patch(things, "new", `{"spec":{"a":1}}`)
		w.Pass(time.Second)
		w.Want("calls for a new version of the hook", len(w.called()) >= 21, true)
		for i := range 10 { // while it is replaced, two of them answer in turn
			w.answers(http.StatusOK, fmt.Sprint(i%2))
			w.Patch(things, "new", fmt.Sprintf(`{"spec":{"a":%d}}`, 2+i))
			w.Pass(time.Second)
		}
		w.Want("calls for versions that alternate", len(w.called()) < 60, true)
	})
}

// The hook hangs for all parents of one tenant: those of another do not notice.
//
// Rules: HK-24, HK-95
func TestParentsForWhichTheHookHangsCostNoOtherNamespace(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		w.done(w.User.Create(context.Background(), kube.Resource{Version: "v1", Plural: "namespaces",
			ClusterScoped: true}, "", kube.Raw(`{"metadata":{"name":"victim"}}`), nil, kube.WriteOptions{}))
		w.put(composite)
		w.Pass(10 * time.Second)
		for i := range 50 {
			w.Post(things, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"slow%d"}}`, i))
		}
		for i := range 20 {
			w.Pass(7 * time.Second)
			began := time.Now()
			w.done(w.User.Create(context.Background(), things, "victim", kube.Raw(fmt.Sprintf(
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"v%d"}}`, i)), nil,
				kube.WriteOptions{}))
			for len(w.API.List(configMaps, "victim")) <= i && time.Since(began) < time.Minute {
				w.Pass(100 * time.Millisecond)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("parent %d of another namespace had its child after %s", i, took)
			}
		}
	})
}

// acknowledged is composite with an annotation.
func acknowledged(value string) string {
	return strings.Replace(composite, `"name":"thing"`,
		fmt.Sprintf(`"name":"thing","annotations":{%q:%q}`, spec.AllowDeletes, value), 1)
}

// Rules: HK-63
func TestWhatAChangedHookWantsDeletedIsHeldUntilTheAnnotationNamesItsVersion(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		w.put(composite)
		w.answers(http.StatusOK, "1")
		for i := range 20 {
			w.Create(fmt.Sprintf("t%02d", i), `{}`)
		}
		w.Pass(2 * time.Minute)
		w.Want("children", len(w.configMaps()), 20)
		w.answers(http.StatusOK, "empty")
		w.Patch(things, "t00", `{"spec":{"a":1}}`)
		w.Pass(time.Hour)
		left := len(w.configMaps())
		w.Want("children", left, 20)
		lines := w.hooks.Attention()
		if len(lines) != 1 || !strings.Contains(lines[0].Text(time.Now()), "holds the deletion of") {
			t.Fatalf("attention %q", lines)
		}
		if log := w.logged("DeletesHeld"); len(log) != 1 {
			t.Errorf("it is told %d times: %q", len(log), log)
		}
		w.put(acknowledged("1234"))
		w.Pass(time.Minute)
		w.Want("children with the acknowledgement of something else", len(w.configMaps()), left)
		version := strings.Split(w.hooks.Attention()[0].Public, `"`)[1]
		w.put(acknowledged(version))
		w.Pass(time.Minute)
		w.Want("children", len(w.configMaps()), 0)
		w.Want("attention", len(w.hooks.Attention()), 0)
	})
}

// Rules: HK-92, HK-93, HK-97, HK-100
func TestControllersOfAClusterFollowTheirObjects(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		text, err := os.ReadFile("../../../crds/hooks/compositecontrollers.yaml")
		w.done(err)
		var crd map[string]any
		w.done(yaml.Unmarshal(text, &crd))
		w.done(w.User.Create(context.Background(), kube.Resource{Group: "apiextensions.k8s.io", Version: "v1",
			Plural: "customresourcedefinitions", ClusterScoped: true}, "", crd, nil, kube.WriteOptions{}))
		w.Pass(time.Second)
		for _, c := range w.hooks.FromCluster("team=shop", nil) {
			w.done(w.set.Add(c))
		}
		create := func(text string) {
			t.Helper()
			w.done(w.User.Create(context.Background(), supervise.Composites, "", kube.Raw(text), nil,
				kube.WriteOptions{}))
			w.Pass(10 * time.Second)
		}
		w.Create("a", `{}`)
		create(strings.Replace(composite, `"name":"thing"`, `"name":"unselected"`, 1))
		w.Want("children", len(w.configMaps()), 0)
		create(strings.Replace(strings.Replace(composite, `"name":"thing"`, `"name":"exec","labels":{"team":"shop"}`, 1),
			`"webhook":{"url":"http://hook/sync"}`, `"exec":{"command":["/bin/sh"]}`, 1))
		w.Want("children", len(w.configMaps()), 0)
		create(strings.Replace(composite, `"name":"thing"`, `"name":"thing","labels":{"team":"shop"}`, 1))
		w.Want("children", w.configMaps(), []string{"a"})
		w.done(w.User.Delete(context.Background(), supervise.Composites, kube.Key{Name: "thing"},
			kube.DeleteOptions{}))
		w.Pass(10 * time.Second)
		var notes []string
		of := kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events"}
		for _, e := range w.API.List(of, "default") {
			notes = append(notes, fmt.Sprintf("%v %v %v", operatortest.At(e, "regarding", "name"), e["reason"],
				e["note"]))
		}
		slices.Sort(notes)
		if len(notes) != 6 || !strings.HasPrefix(notes[0], "a Create") ||
			!strings.Contains(notes[1], "--allow-exec=compositecontroller/exec") ||
			!slices.Equal(notes[2:], []string{"thing Started the controller runs",
				"thing Starting the controller starts", "thing Stopped the controller has stopped; its children stay",
				"thing Stopping the controller stops"}) {
			t.Errorf("Events %q", notes)
		}
	})
}

// Rules: HK-18
func TestTwoControllersThatReplaceEachOthersStatusAreNamedAndSlowedDown(t *testing.T) {
	run(t, func(w *world) {
		w.installThings()
		for _, name := range []string{"one", "two"} {
			text := strings.Replace(composite, `"name":"thing"`, `"name":"`+name+`"`, 1)
			w.put(strings.Replace(text, "http://hook/sync", "http://hook/sync?status="+name, 1))
		}
		w.Want("attention before there is a parent", len(w.hooks.Attention()), 2)
		w.Create("a", `{}`)
		w.Pass(time.Minute)
		if calls := w.called(); len(calls) > 40 {
			t.Errorf("%d calls in the first minute", len(calls))
		}
		of := kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events"}
		contested := slices.DeleteFunc(w.API.List(of, "default"), func(e map[string]any) bool {
			return e["reason"] != "Contested"
		})
		w.Want("there are Events", len(contested) > 0, true)
		w.Pass(time.Hour)
		if calls := w.called(); len(calls) > 60 {
			t.Errorf("%d calls in an hour", len(calls))
		}
		attention := health.Texts(w.hooks.Attention(), time.Now())
		for _, want := range []string{"is degraded: Thing default/a: another controller keeps replacing the status",
			"CompositeController one", "CompositeController two"} {
			if !strings.Contains(attention, want) {
				t.Errorf("attention %q, want %q", attention, want)
			}
		}
		w.hooks.Drop(spec.Composite, "two")
		w.Pass(time.Hour)
		w.Want("attention when one of them is gone", len(w.hooks.Attention()), 0)
		w.Want("status", operatortest.At(w.API.List(things, "default")[0], "status", "by"), "one")
		w.called()
		w.Pass(time.Hour)
		w.Want("calls in a quiet hour", len(w.called()), 0)
	})
}
