package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/crds"
	"skiff/internal/hooks/spec"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var crdResource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

func TestCRDsInstallInstallsTheDefinitionsAndIsIdempotent(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	r := skiff(t, "crds", "install", "--server", c.url())
	r.Want(t, ExitDone)
	if !strings.Contains(r.Stdout, "customresourcedefinition webservers.skiff.dev created\n") {
		t.Errorf("stdout %q", r.Stdout)
	}
	if _, err := c.client.Raw(t.Context(), http.MethodGet, webServers.Root()+"/webservers", nil); err != nil {
		t.Errorf("the resource is not served: %v", err)
	}
	before := c.api.Revision()
	if r := skiff(t, "crds", "install", "--server", c.url()); r.Code != ExitDone ||
		!strings.Contains(r.Stdout, "webservers.skiff.dev unchanged") {
		t.Errorf("again: %+v", r)
	}
	if c.api.Revision() != before {
		t.Errorf("installing again has written something")
	}
	c.patch(crdResource, "", "webservers.skiff.dev",
		map[string]any{"spec": map[string]any{"names": map[string]any{"shortNames": []string{"web"}}}})
	if r := skiff(t, "crds", "install", "--server", c.url()); r.Code != ExitDone ||
		!strings.Contains(r.Stdout, "webservers.skiff.dev updated") {
		t.Errorf("after a change: %+v", r)
	}
}

func TestCRDsDiffHasAnExitCodeForADifferenceAndOneForAFailure(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	r := skiff(t, "crds", "diff", "--server", c.url())
	if r.Code != ExitDiffer || r.Stderr != "" || !strings.Contains(r.Stdout,
		"webservers.skiff.dev is not installed; `skiff crds install` creates it, `skiff crds print` shows it\n") {
		t.Errorf("before the installation: %+v", r)
	}
	if c.api.Get(crdResource, kube.Key{Name: "webservers.skiff.dev"}) != nil {
		t.Fatal("comparing has installed the definition")
	}
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	if r := skiff(t, "crds", "diff", "--server", c.url()); r.Code != ExitDone || r.Stdout != "" {
		t.Errorf("after the installation: %+v", r)
	}
	c.patch(crdResource, "", "webservers.skiff.dev",
		map[string]any{"spec": map[string]any{"names": map[string]any{"shortNames": []string{"web"}}}})
	r = skiff(t, "crds", "diff", "--server", c.url())
	if r.Code != ExitDiffer || r.Stdout != "webservers.skiff.dev: spec.names.shortNames[0]\n" {
		t.Errorf("after a change: %+v", r)
	}
	skiff(t, "crds", "diff", "--server", "https://127.0.0.1:1").Want(t, ExitFailed, "connection refused")
}

// Rules: HK-01, HK-34
func TestCRDsInstallHooksInstallsTheDefinitionsOfHookControllersAndNoOthers(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	r := skiff(t, "crds", "diff", "--hooks", "--server", c.url())
	want := "compositecontrollers.metacontroller.k8s.io is not installed; `skiff crds install --hooks` creates it"
	if r.Code != ExitDiffer || !strings.HasPrefix(r.Stdout, want) {
		t.Errorf("before the installation: %+v", r)
	}
	r = skiff(t, "crds", "install", "--hooks", "--server", c.url())
	want = "customresourcedefinition compositecontrollers.metacontroller.k8s.io created\n" +
		"customresourcedefinition controllerrevisions.metacontroller.k8s.io created\n" +
		"customresourcedefinition decoratorcontrollers.metacontroller.k8s.io created\n"
	if r.Code != ExitDone || r.Stdout != want {
		t.Errorf("%+v", r)
	}
	if r := skiff(t, "crds", "diff", "--hooks", "--server", c.url()); r.Code != ExitDone || r.Stdout != "" {
		t.Errorf("after the installation: %+v", r)
	}
	if c.api.Get(crdResource, kube.Key{Name: "redis.skiff.dev"}) != nil {
		t.Error("skiff's own definitions are installed, too")
	}
	text := skiff(t, "crds", "print", "--hooks").Stdout
	if strings.Count(text, "\nkind: CustomResourceDefinition\n") != 3 || strings.Contains(text, "skiff.dev\n") {
		t.Errorf("printed: %s", text)
	}

	dir := t.TempDir()
	noError(t, os.WriteFile(dir+"/c.yaml", []byte(hookController), 0o600))
	found, _, err := spec.ReadFiles([]string{dir})
	noError(t, err)
	var body, live map[string]any
	noError(t, yaml.Unmarshal([]byte(hookController), &body))
	resource := kube.Resource{Group: spec.Group, Version: spec.Version, Plural: "compositecontrollers",
		Kind: spec.Composite, ClusterScoped: true}
	noError(t, c.client.Create(t.Context(), resource, "", body, &live, kube.WriteOptions{FieldValidation: "Strict"}))
	var fromFile map[string]any
	noError(t, json.Unmarshal(found[0].Object, &fromFile))
	if !reflect.DeepEqual(live["spec"], fromFile["spec"]) {
		t.Errorf("the server makes\n%v\nof it, and a file\n%v", live["spec"], fromFile["spec"])
	}
}

func TestCRDsInstallWithoutRightsSaysWhoInstallsThem(t *testing.T) {
	c := guarded(t)
	for _, flags := range [][]string{nil, {"--hooks"}} {
		r := skiff(t, append(c.asAdministrator("crds", "install", "--as", "weak"), flags...)...)
		step := strings.Join(append([]string{"crds install"}, flags...), " ")
		r.Want(t, ExitFailed, "weak may not install definitions; an administrator runs: skiff "+step+" (or: skiff "+
			strings.Replace(step, "install", "print", 1)+" |")
		if strings.Contains(r.Stderr, "ClusterRole") {
			t.Errorf("%q: nobody grants such a right to work with skiff: %s", flags, r.Stderr)
		}
	}
}

func TestCRDsInstallNamesTheDefinitionThatIsNotEstablished(t *testing.T) {
	passed := len(crds.All()) // each is read once before it is applied
	c := newCluster(t, apiserver.Options{})
	c.api.Inject(apiserver.Fault{Verb: "get", Resource: "customresourcedefinitions", Skip: passed,
		Rewrite: func(body []byte) []byte {
			return withCondition(t, body, `{"type":"Established","status":"False","message":"not yet"}`)
		}})
	// the applies count, too
	skiff(t, "crds", "install", "--timeout", "8s", "--server", c.url()).Want(t, ExitFailed, "wait for CRD ",
		"not established within 8s: not yet")

	c = newCluster(t, apiserver.Options{})
	c.api.Inject(apiserver.Fault{Verb: "get", Resource: "customresourcedefinitions", Skip: passed,
		Rewrite: func(body []byte) []byte {
			return withCondition(t, body,
				`{"type":"NamesAccepted","status":"False","message":"\"ws\" is already in use"}`)
		}})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitFailed, "does not accept its names",
		`"ws" is already in use`)
}

func TestADefinitionThatIsDeletedWhileItIsInstalledIsNotCalledUnchanged(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	c.create(kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}, "default",
		map[string]any{"metadata": map[string]any{"name": "r", "finalizers": []string{"skiff.dev/pods"}},
			"spec": map[string]any{"port": 6379, "num": 0}})
	all := must(definitions.All())(t)
	i := slices.IndexFunc(all, func(d definitions.Definition) bool { return d.Name == "redis.skiff.dev" })
	requests, patch := 0, len(all)+2*i+2 // each is looked at once, and then read and patched
	between := c.client.Guard(func() error {
		if requests++; requests == patch {
			c.delete(crdResource, "", "redis.skiff.dev")
		}
		return nil
	})
	var out strings.Builder
	err := definitions.Install(t.Context(), between, all, definitions.Options{Timeout: time.Minute}, &out)
	if text := out.String(); !errors.Is(err, definitions.ErrDeleting) ||
		!strings.Contains(text, "redis.skiff.dev is being deleted") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestCRDsInstallNamesWhatHoldsADefinitionThatIsBeingDeletedAndWaitsForItIfAsked(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	redis := kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	for i := range 7 {
		if err := c.client.Create(t.Context(), redis, "default", map[string]any{"apiVersion": "skiff.dev/v1alpha1",
			"kind":     "Redis",
			"metadata": map[string]any{"name": fmt.Sprint("r", i), "finalizers": []string{"skiff.dev/pods"}},
			"spec":     map[string]any{"port": 6379, "num": 0}}, nil, kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	noError(t, c.client.Delete(t.Context(), crdResource, kube.Key{Name: "redis.skiff.dev"},
		kube.DeleteOptions{}))
	const held = "redis.skiff.dev is being deleted; held by Redis default/r0 (finalizer skiff.dev/pods), "
	r := skiff(t, "crds", "install", "--server", c.url())
	if r.Code != ExitDiffer || !strings.Contains(r.Stdout, held) || !strings.Contains(r.Stdout, ", 2 more\n") ||
		!strings.Contains(r.Stdout, "webservers.skiff.dev unchanged\n") || !strings.Contains(r.Stdout, "--wait") {
		t.Errorf("got %+v", r)
	}
	skiff(t, "crds", "install", "--wait", "--timeout", "6s", "--server", c.url()).Want(t, ExitFailed,
		"redis.skiff.dev is still being deleted after 6s: held by Redis default/r0")

	stopped, stop := context.WithCancelCause(t.Context())
	last := writerFunc(func(line string) {
		if strings.HasPrefix(line, "customresourcedefinition webservers") {
			stop(Interrupted{os.Interrupt})
		}
	})
	err := definitions.Install(stopped, c.client, must(definitions.All())(t),
		definitions.Options{Timeout: time.Minute, Wait: true}, last)
	if want := "redis.skiff.dev is being deleted: interrupted by a signal"; err == nil ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("when it is interrupted: %v, want %s", err, want)
	}

	var freeing sync.WaitGroup
	defer freeing.Wait()
	freeing.Go(func() {
		for i := range 7 {
			c.patch(redis, "default", fmt.Sprint("r", i),
				map[string]any{"metadata": map[string]any{"finalizers": nil}})
		}
	})
	r = skiff(t, "crds", "install", "--wait", "--server", c.url())
	if r.Code != ExitDone || !strings.Contains(r.Stdout, "redis.skiff.dev created\n") {
		t.Errorf("when it has gone: %+v", r)
	}
	if live := c.api.Get(crdResource, kube.Key{Name: "redis.skiff.dev"}); lookup(live, "metadata",
		"deletionTimestamp") != nil || live == nil {
		t.Errorf("the definition is %v", live)
	}
}

// writerFunc calls a function with what is written.
type writerFunc func(text string)

func (f writerFunc) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}

// withCondition returns a definition with that condition only.
func withCondition(t *testing.T, body []byte, condition string) []byte {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Error(err)
		return body
	}
	object["status"] = json.RawMessage(`{"conditions":[` + condition + `]}`)
	out, err := json.Marshal(object)
	if err != nil {
		t.Error(err)
	}
	return out
}
