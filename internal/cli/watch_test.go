package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func TestWatchPrintsALineForEachChange(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.create(configMaps, "default", named("first", nil))
	f := program.Follow(t, "watch", "cm", "--server", c.url())
	f.Want("ADDED    configmap/first")
	c.create(configMaps, "default", named("second", nil))
	f.Want("ADDED    configmap/second")
	c.patch(configMaps, "default", "second", map[string]any{"data": map[string]any{"k": "v"}})
	f.Want("MODIFIED configmap/second")
	c.create(configMaps, "kube-system", named("elsewhere", nil))
	c.delete(configMaps, "default", "first")
	f.Want("DELETED  configmap/first")
	if code := f.Stop(); code != ExitDone || f.Stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, f.Stderr)
	}
}

func TestWatchSelectsByLabelFieldNameAndNamespace(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.create(configMaps, "default", named("a", map[string]string{"app": "x"}))
	c.create(configMaps, "default", named("b", nil))
	c.create(configMaps, "kube-system", named("c", map[string]string{"app": "x"}))
	for args, want := range map[string]string{
		"cm -l app=x":                         "ADDED    configmap/a",
		"cm b":                                "ADDED    configmap/b",
		"cm --field-selector metadata.name=b": "ADDED    configmap/b",
		"cm -n kube-system -l app=x":          "ADDED    configmap/c",
		"cm -A -l app=x --field-selector=metadata.namespace=kube-system": "ADDED    kube-system      configmap/c",
		"cm -n kube-system -l app=x -o name":                             "configmap/c",
		"namespaces kube-system": "ADDED    namespace/kube-system  " +
			"phase=Active",
		"ns kube-system -o wide": "ADDED    namespace/kube-system  phase=Active resourceVersion=",
	} {
		f := program.Follow(t, append(append([]string{"watch"}, strings.Fields(args)...), "--server", c.url())...)
		f.Want(want)
		f.Stop()
		if len(f.Lines) > 0 {
			t.Errorf("skiff watch %s prints more than was selected: %s", args, <-f.Lines)
		}
	}
}

func TestWatchAsJSONPrintsTheEventsAsTheServerSendsThem(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.create(configMaps, "default", map[string]any{"metadata": map[string]any{"name": "a",
		"annotations": map[string]any{"n": "<&> é"}}, "data": map[string]any{"k": "v"}})
	f := program.Follow(t, "watch", "configmaps", "-o", "json", "--server", c.url())
	check := func(event string) {
		t.Helper()
		line := f.Next()
		if !strings.HasPrefix(line, `{"type":"`+event+`","object":{"kind":"ConfigMap","apiVersion":"v1",`) &&
			!strings.HasPrefix(line, `{"type":"`+event+`","object":{"apiVersion":"v1","kind":"ConfigMap",`) {
			t.Errorf("line %s", line)
		}
		var got struct{ Object map[string]any }
		noError(t, json.Unmarshal([]byte(line), &got))
		if event == "DELETED" {
			return
		}
		body := must(c.client.Raw(t.Context(), http.MethodGet, "/api/v1/namespaces/default/configmaps/a", nil))(t)
		var want map[string]any
		noError(t, json.Unmarshal(body, &want))
		if !reflect.DeepEqual(got.Object, want) {
			t.Errorf("object\n%v, want\n%v", got.Object, want)
		}
	}
	check("ADDED")
	c.patch(configMaps, "default", "a", map[string]any{"data": map[string]any{"k": "w"}})
	check("MODIFIED")
	c.delete(configMaps, "default", "a")
	check("DELETED")
}

// Rules: LST-18
func TestWatchOfAListedObjectAsJSONHasItsKind(t *testing.T) {
	// The items of a list of a built-in kind carry neither kind nor apiVersion.
	o := &wholeObject{}
	noError(t, o.UnmarshalJSON([]byte(`{ "metadata": {"name":"web"} }`)))
	text, err := o.text(&printer{resource: deployments})
	if want := `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"}}`; err != nil || text != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

func TestWatchSurvivesServerRestartsAndPrintsWhatHappenedMeanwhile(t *testing.T) {
	for _, o := range []apiserver.Options{{}, {HistoryEvents: 1}} {
		c := newCluster(t, o)
		c.create(configMaps, "default", named("kept", nil))
		c.create(configMaps, "default", named("lost", nil))
		f := program.Follow(t, "watch", "configmaps", "--server", c.url())
		f.Want("ADDED    configmap/kept")
		f.Want("ADDED    configmap/lost")
		c.down()
		// The server's other clients go on: what they do is not seen until it is back.
		behind(t, c.api, func(client *kube.Client) error {
			if err := client.Delete(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "lost"},
				kube.DeleteOptions{}); err != nil {
				return err
			}
			return client.Create(t.Context(), configMaps, "default",
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": map[string]any{"name": "new"}}, nil, kube.WriteOptions{})
		})
		c.up()
		got := map[string]bool{f.Next(): true, f.Next(): true}
		if !got["DELETED  configmap/lost"] || !got["ADDED    configmap/new"] {
			t.Errorf("after the restart: %v", got)
		}
		if f.Stop(); len(f.Lines) > 0 {
			t.Errorf("a line too many: %s", <-f.Lines)
		}
	}
}

// behind gives f a client of the server that does not go through the address that is down.
func behind(t *testing.T, api *apiserver.Server, f func(*kube.Client) error) {
	t.Helper()
	back := httptest.NewServer(api)
	defer back.Close()
	client := must(kube.New(kube.Config{Server: back.URL}))(t)
	defer client.Close()
	noError(t, f(client))
}

func TestWatchEndsQuietlyWhenItsReaderGoesAway(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	clitest.Isolate(t)
	var stderr clitest.Buffer
	if code := Main(t.Context(), []string{"watch", "namespaces", "--server", c.url()}, brokenPipe{},
		&stderr); code != ExitDone || stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
	if code := Main(t.Context(), []string{"watch", "namespaces", "--server", c.url()}, fullDisk{},
		&stderr); code != ExitFailed ||
		!strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, fmt.Errorf("write: %w", syscall.EPIPE) }

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestColumnsShowWhatAnObjectHas(t *testing.T) {
	for _, tt := range []struct{ obj, short, wide string }{
		{`{"metadata":{"name":"p","uid":"u"},"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIP":"10.0.0.1",
			"conditions":[{"type":"Ready","status":"True"}],
			"containerStatuses":[{"ready":true,"restartCount":2},{"ready":false,"restartCount":1}]}}`,
			"phase=Running ready=1/2 restarts=3", "phase=Running ready=1/2 restarts=3 ip=10.0.0.1 node=n1 uid=u"},
		{`{"metadata":{"name":"p","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}}`,
			"phase=Terminating", "phase=Terminating"},
		{`{"metadata":{"name":"d","generation":3},"spec":{"replicas":3},"status":{"readyReplicas":2,` +
			`"conditions":[{"type":"Available","status":"False"}]}}`,
			"ready=2/3 Available=False", "ready=2/3 Available=False generation=3"},
		{`{"metadata":{"name":"s"},"spec":{"type":"NodePort","clusterIP":"10.96.0.7"}}`,
			"type=NodePort clusterIP=10.96.0.7", "type=NodePort clusterIP=10.96.0.7"},
		{`{"metadata":{"name":"e"},"reason":"Created","note":"made a pod"}`, `reason=Created message="made a pod"`,
			`reason=Created message="made a pod"`},
		{`{"metadata":{"name":"odd"},"spec":"text","status":{"phase":7,"conditions":"none","containerStatuses":[1]}}`,
			"phase=7 ready=0/1", "phase=7 ready=0/1"},
	} {
		o := &lineObject{}
		noError(t, o.UnmarshalJSON([]byte(tt.obj)))
		short, _ := o.text(&printer{})
		wide, _ := o.text(&printer{output: "wide"})
		if short != tt.short || wide != tt.wide {
			t.Errorf("%q and %q, want %q and %q", short, wide, tt.short, tt.wide)
		}
	}
}

func TestWatchWithoutTheRightToListIsAnError(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1" {
			io.WriteString(w,
				`{"resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list","watch"]}]}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"pods is `+
			`forbidden: User \"x\" cannot list resource \"pods\""}`)
	}))
	defer s.Close()
	skiff(t, "watch", "pods", "--server", s.URL).Want(t, ExitFailed, "pods is forbidden",
		"a Role or ClusterRole must grant this")
}

func TestWatchSaysThatItWaitsForANamespace(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	f := program.Follow(t, "watch", "pods", "-n", "defualt", "--server", c.url())
	defer f.Stop()
	const want = "namespace defualt does not exist; waiting for it; did you mean default?"
	f.Await("the missing namespace is named", func() bool { return strings.Contains(f.Stderr.String(), want) })
}

func TestWatchDoesNotLetTheTextOfAnEventReachTheTerminal(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	events := kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}
	const evil = "\x1b]52;c;aGk=\x07\u009b2J\x1b]0;title\x07\u202eevil"
	note := must(json.Marshal(evil))(t)
	c.create(events, "default", map[string]any{"metadata": map[string]any{"name": "e"},
		"type": "Normal", "reason": "R",
		"action": "A", "note": json.RawMessage(note), "reportingController": "x.y/z", "reportingInstance": "i",
		"eventTime": "2026-01-01T00:00:00.000000Z",
		"regarding": map[string]any{"kind": "Pod", "namespace": "default", "name": "p"}})
	for _, output := range []string{"", "wide", "json"} {
		f := program.Follow(t, "watch", "events.events.k8s.io", "-o", output, "--server", c.url())
		line := f.Next()
		f.Stop()
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }) ||
			!strings.Contains(line, "52;c;aGk=") {
			t.Errorf("-o %q prints %q", output, line)
		}
		var object struct{ Object struct{ Note string } }
		if output == "json" && (json.Unmarshal([]byte(line), &object) != nil || object.Object.Note != evil) {
			t.Errorf("the JSON has another note: %q", object.Object.Note)
		}
	}
}
