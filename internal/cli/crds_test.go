package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"skiff/crds"
	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

func TestCRDsInstallInstallsTheDefinitionsAndIsIdempotent(t *testing.T) {
	c := newCluster(t, fakeapi.Options{})
	r := skiff(t, "crds", "install", "--server", c.url())
	r.want(t, ExitDone)
	if !strings.Contains(r.stdout, "customresourcedefinition webservers.skiff.dev created\n") {
		t.Errorf("stdout %q", r.stdout)
	}
	if _, err := c.client.Raw(t.Context(), http.MethodGet, webServers.Root()+"/webservers", nil); err != nil {
		t.Errorf("the resource is not served: %v", err)
	}
	before := c.api.Revision()
	if r := skiff(t, "crds", "install", "--server", c.url()); r.code != ExitDone ||
		!strings.Contains(r.stdout, "webservers.skiff.dev unchanged") {
		t.Errorf("again: %+v", r)
	}
	if c.api.Revision() != before {
		t.Errorf("installing again has written something")
	}
	c.patch(crdResource, "", "webservers.skiff.dev",
		map[string]any{"spec": map[string]any{"names": map[string]any{"shortNames": []string{"web"}}}})
	if r := skiff(t, "crds", "install", "--server", c.url()); r.code != ExitDone ||
		!strings.Contains(r.stdout, "webservers.skiff.dev updated") {
		t.Errorf("after a change: %+v", r)
	}
}

func TestCRDsDiffTellsADifferenceFromAFailureByItsExitCode(t *testing.T) {
	c := newCluster(t, fakeapi.Options{})
	r := skiff(t, "crds", "diff", "--server", c.url())
	if r.code != ExitDiffer || r.stderr != "" || !strings.Contains(r.stdout,
		"webservers.skiff.dev is not installed; `skiff crds install` creates it, `skiff crds print` shows it\n") {
		t.Errorf("before the installation: %+v", r)
	}
	if c.api.Get(crdResource, kube.Key{Name: "webservers.skiff.dev"}) != nil {
		t.Fatal("comparing has installed the definition")
	}
	skiff(t, "crds", "install", "--server", c.url()).want(t, ExitDone)
	if r := skiff(t, "crds", "diff", "--server", c.url()); r.code != ExitDone || r.stdout != "" {
		t.Errorf("after the installation: %+v", r)
	}
	c.patch(crdResource, "", "webservers.skiff.dev",
		map[string]any{"spec": map[string]any{"names": map[string]any{"shortNames": []string{"web"}}}})
	r = skiff(t, "crds", "diff", "--server", c.url())
	if r.code != ExitDiffer || !strings.Contains(r.stdout, "-            - web\n+            - ws\n") {
		t.Errorf("after a change: %+v", r)
	}
	skiff(t, "crds", "diff", "--server", "https://127.0.0.1:1").want(t, ExitFailed, "connection refused")
	skiff(t, "crds", "diff", "more").want(t, ExitUsage, "takes no arguments")
}

func TestCRDsInstallNamesTheDefinitionThatIsNotEstablished(t *testing.T) {
	passed := len(crds.All()) // each is read once before it is applied
	c := newCluster(t, fakeapi.Options{})
	c.api.Inject(fakeapi.Fault{Verb: "get", Resource: "customresourcedefinitions", Skip: passed,
		Rewrite: func(body []byte) []byte {
			return withCondition(t, body, `{"type":"Established","status":"False","message":"not yet"}`)
		}})
	// the applies count, too
	skiff(t, "crds", "install", "--timeout", "4s", "--server", c.url()).want(t, ExitFailed, "wait for CRD ",
		"not established within 4s: not yet")

	c = newCluster(t, fakeapi.Options{})
	c.api.Inject(fakeapi.Fault{Verb: "get", Resource: "customresourcedefinitions", Skip: passed,
		Rewrite: func(body []byte) []byte {
			return withCondition(t, body,
				`{"type":"NamesAccepted","status":"False","message":"\"ws\" is already in use"}`)
		}})
	skiff(t, "crds", "install", "--server", c.url()).want(t, ExitFailed, "does not accept its names",
		`"ws" is already in use`)
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
