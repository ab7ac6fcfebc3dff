package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// numberedDefinition is the parent of the hook controllers here: so many pods of a template.
const numberedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"%[1]ss.hooks.example.com"},"spec":{"group":"hooks.example.com","scope":"Namespaced",
	"names":{"kind":"%[2]s","listKind":"%[2]sList","plural":"%[1]ss","singular":"%[1]s"},"versions":[{"name":"v1",
	"served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object",
	"properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
	"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// numberedController rolls the pods of a Numbered one at a time. The last one goes first when it is finalized.
const numberedController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: numbered}
spec:
  generateSelector: true
  parentResource:
    apiVersion: hooks.example.com/v1
    resource: numbereds
    revisionHistory: {fieldPaths: [spec.template]}
  childResources:
  - apiVersion: v1
    resource: pods
    updateStrategy:
      method: RollingRecreate
      statusChecks: {conditions: [{type: Ready, status: "True"}]}
  hooks:
    sync: {webhook: {url: URL}}
    finalize: {webhook: {url: URL}}
`

// hookRequest is what the hooks here read of a request.
type hookRequest struct {
	Finalizing        bool
	Parent            Object
	Children, Related map[string]map[string]Object
}

// serveHook answers the requests for a URL by a function.
func serveHook(t testing.TB, hook func(r hookRequest) Object) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request hookRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(hook(request)) // the reader has gone
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// numbered is the hook of numberedController.
func numbered(r hookRequest) Object {
	observed := r.Children["Pod.v1"]
	ready := 0
	for _, pod := range observed {
		if pod.Condition("Ready").Str("status") == "True" {
			ready++
		}
	}
	replicas := r.Parent.Int("spec", "replicas")
	if r.Finalizing {
		replicas = max(0, len(observed)-1)
	}
	children := []any{}
	for i := range replicas {
		children = append(children, Object{"apiVersion": "v1", "kind": "Pod",
			"metadata": Object{"name": fmt.Sprintf("%s-%d", r.Parent.Name(), i)},
			"spec": Object{"containers": []any{
				Object{"name": "c", "image": r.Parent.Str("spec", "template", "image")}}}})
	}
	return Object{"status": Object{"ready": ready, "pods": len(observed)}, "children": children,
		"finalized": r.Finalizing && len(observed) == 0}
}

// startHooks runs skiff hooks run with files in the namespace of the test, with no more rights than `skiff hooks
// role` grants with these flags.
func startHooks(t *testing.T, s *Scope, controller string, flags ...string) *Skiff {
	t.Helper()
	file := filepath.Join(t.TempDir(), "controller.yaml")
	noError(t, os.WriteFile(file, []byte(controller), 0o600))
	role := runSkiff(t, s, append([]string{"hooks", "role", "-f", file, "--namespaced", s.NS, "--name", "hooks"},
		flags...)...)
	if role.Code != 0 {
		t.Fatal(role)
	}
	s.Apply(role.Stdout)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	sk := launchSkiffCommand(t, s, kubeconfig, "hooks", "run", "-f", file, "--watch-namespaces", s.NS,
		"--as", "system:serviceaccount:"+s.NS+":hooks")
	return sk
}

// installHookDefinitions installs the definitions of a kind of parents, and those of hook controllers.
func installHookDefinitions(t *testing.T, s *Scope, singular, kind string) {
	t.Helper()
	s.Apply(fmt.Sprintf(numberedDefinition, singular, kind))
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	if r := runSkiff(t, s, "crds", "install", "--hooks", "--kubeconfig", kubeconfig); r.Code != 0 {
		t.Fatal(r)
	}
	t.Cleanup(func() {
		noError(t, s.c.Admin.Delete(noContext,
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+singular+"s.hooks.example.com"))
	})
}

// images are those of the pods of the namespace that are not being deleted, by name.
func (s *Scope) images() (out []string) {
	s.Helper()
	for _, pod := range s.get("/api/v1/namespaces/" + s.NS + "/pods").List("items") {
		if pod.Str("metadata", "deletionTimestamp") == "" {
			out = append(out, pod.Name()+"="+pod.List("spec", "containers")[0].Str("image"))
		}
	}
	slices.Sort(out)
	return out
}

// Rules: HK-48, HK-50, HK-52, HK-73, HK-74, HK-84, HK-86, HK-87, HK-88, HK-108
func TestAHookRunsNumberedPodsWithTheRightsOfItsRole(t *testing.T) {
	s := newScope(t)
	installHookDefinitions(t, s, "numbered", "Numbered")
	sk := startHooks(t, s, strings.ReplaceAll(numberedController, "URL", serveHook(t, numbered)))
	waitReady(t, sk)
	path := "/apis/hooks.example.com/v1/namespaces/" + s.NS + "/numbereds/a"
	s.Apply(`{"apiVersion":"hooks.example.com/v1","kind":"Numbered","metadata":{"name":"a"},
		"spec":{"replicas":3,"template":{"image":"nginx:1"}}}`)
	become := func(what string, ready int, want ...string) {
		t.Helper()
		Eventually(t, limit, what, func() (bool, string) {
			parent, images := s.get(path), s.images()
			return slices.Equal(images, want) && parent.Int("status", "ready") == ready &&
				parent.Condition("Updated").Str("reason") == "OnLatestRevision", fmt.Sprint(images, parent)
		})
	}
	become("three pods are ready", 3, "a-0=nginx:1", "a-1=nginx:1", "a-2=nginx:1")
	s.Merge(path, `{"spec":{"replicas":4}}`)
	become("four pods are ready", 4, "a-0=nginx:1", "a-1=nginx:1", "a-2=nginx:1", "a-3=nginx:1")
	s.Merge(path, `{"spec":{"template":{"image":"nginx:2"}}}`)
	fewest := 4
	Eventually(t, limit, "all pods have rolled", func() (bool, string) {
		ready := 0
		for _, pod := range s.get("/api/v1/namespaces/" + s.NS + "/pods").List("items") {
			if pod.Condition("Ready").Str("status") == "True" {
				ready++
			}
		}
		fewest = min(fewest, ready)
		images := s.images()
		return slices.Equal(images, []string{"a-0=nginx:2", "a-1=nginx:2", "a-2=nginx:2", "a-3=nginx:2"}),
			fmt.Sprint(images, s.get(path))
	})
	if fewest < 3 {
		t.Errorf("%d pods were ready in the roll, want 3 at least", fewest)
	}
	s.Kubectl("delete", "pod", "a-1", "--wait=false")
	become("a pod that was deleted is there again", 4, "a-0=nginx:2", "a-1=nginx:2", "a-2=nginx:2", "a-3=nginx:2")
	if left := s.get("/apis/metacontroller.k8s.io/v1alpha1/namespaces/" + s.NS +
		"/controllerrevisions").List("items"); len(left) != 1 {
		t.Errorf("%d ControllerRevisions, want 1", len(left))
	}
	noneSince := func(since time.Time) (bool, string) {
		writes, err := s.c.Requests(since, func(r Request) bool {
			return strings.HasPrefix(r.UserAgent, "skiff/") && r.Namespace == s.NS && r.Write()
		})
		return err == nil && len(writes) == 0, fmt.Sprint(writes, err)
	}
	// The status also says what it is to become before the deletion has got into it.
	Eventually(t, limit, "a second without a write", func() (bool, string) {
		return noneSince(time.Now().Add(-time.Second))
	})
	rest := time.Now()
	Throughout(t, 5*time.Second, "nothing is written at rest", func() (bool, string) { return noneSince(rest) })
	s.Kubectl("delete", "numbered", "a", "--timeout=4m")
	if images := s.images(); len(images) != 0 {
		t.Errorf("it was finalized, and there are %v", images)
	}
	noForbidden(s, sk.Log())
}

// copierController makes a Deployment of a Copier, in the place of a metacontroller that has made it.
const copierController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: copier}
spec:
  generateSelector: true
  parentResource: {apiVersion: hooks.example.com/v1, resource: copiers}
  childResources:
  - {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: Recreate}}
  hooks:
    sync: {webhook: {url: URL}}
`

// copiedDeployment is what its hook declares.
func copiedDeployment(r hookRequest) Object {
	return Object{"status": Object{}, "children": []any{Object{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": Object{"name": "web"}, "spec": copiedSpec()}}}
}

func copiedSpec() Object {
	labels := Object{"app": "web"}
	return Object{"replicas": 1, "selector": Object{"matchLabels": labels}, "template": Object{
		"metadata": Object{"labels": labels}, "spec": Object{"containers": []any{
			Object{"name": "c", "image": "nginx:1", "resources": Object{"requests": Object{"cpu": "1000m"}}}}}}}
}

// What metacontroller 4.17 has written is replayed: a POST as its field manager, with its annotation. Then it takes
// the child back, by the PUT of its default strategy, for a hook that declares one field more, and skiff takes it over
// again.
//
// Rules: HK-78, HK-79, HK-80, HK-81
func TestChildrenOfMetacontrollerAreTakenOverWithoutARestart(t *testing.T) {
	s := newScope(t)
	installHookDefinitions(t, s, "copier", "Copier")
	s.Apply(`{"apiVersion":"hooks.example.com/v1","kind":"Copier","metadata":{"name":"a"},"spec":{}}`)
	uid := s.get("/apis/hooks.example.com/v1/namespaces/" + s.NS + "/copiers/a").UID()
	const lastApplied = "metacontroller.k8s.io/last-applied-configuration"
	must(s.c.Admin.Create(t.Context(), "/apis/apps/v1/namespaces/"+s.NS+"/deployments?fieldManager=metacontroller",
		Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": Object{"name": "web",
			"labels":      Object{"controller-uid": uid},
			"annotations": Object{lastApplied: "{}"}, "ownerReferences": []any{Object{
				"apiVersion": "hooks.example.com/v1", "kind": "Copier", "name": "a", "uid": uid, "controller": true,
				"blockOwnerDeletion": true}}}, "spec": copiedSpec()}))(t)
	s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
	pods := func() (uids []string) {
		for _, pod := range s.get("/api/v1/namespaces/" + s.NS + "/pods").List("items") {
			uids = append(uids, pod.UID())
		}
		return uids
	}
	before, made := s.Deployment("web"), pods()
	sk := startHooks(t, s, strings.ReplaceAll(copierController, "URL", serveHook(t, copiedDeployment)))
	waitReady(t, sk)
	Eventually(t, limit, "it is taken over", func() (bool, string) {
		d := s.Deployment("web")
		annotations, _ := d.At("metadata", "annotations").(map[string]any)
		return annotations[lastApplied] == nil, d.String()
	})
	asBefore := func(when string) {
		t.Helper()
		s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
		if after := s.Deployment("web"); after.UID() != before.UID() || !slices.Equal(pods(), made) {
			t.Errorf("%s: it was recreated or rolled: %s, pods %v, before %v", when, after, pods(), made)
		}
	}
	asBefore("skiff has it")
	noError(t, sk.Terminate())
	back := s.Deployment("web")
	back.At("metadata", "annotations").(map[string]any)[lastApplied] = "{}"
	back.At("metadata", "labels").(map[string]any)["dropped"] = "since"
	delete(back["metadata"].(map[string]any), "resourceVersion") // its status may change meanwhile
	must(s.c.Admin.Do(t.Context(), "PUT", "/apis/apps/v1/namespaces/"+s.NS+
		"/deployments/web?fieldManager=metacontroller", "application/json", back))(t)
	asBefore("metacontroller has it")
	sk = startHooks(t, s, strings.ReplaceAll(copierController, "URL", serveHook(t, copiedDeployment)))
	waitReady(t, sk)
	Eventually(t, limit, "it is taken over again", func() (bool, string) {
		d := s.Deployment("web")
		annotations, _ := d.At("metadata", "annotations").(map[string]any)
		return annotations[lastApplied] == nil && d.Str("metadata", "labels", "dropped") == "", d.String()
	})
	asBefore("skiff has it again")
	noForbidden(s, sk.Log())
}
