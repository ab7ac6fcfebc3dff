package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// token is the administrator's.
type token string

func (t token) Authorization(context.Context) (string, error) { return "Bearer " + string(t), nil }
func (token) Invalidate(time.Time)                            {}

// withRBAC is a server on which roles decide, with an administrator, and the options for a check by a user without
// any role.
func withRBAC(t *testing.T) (admin *kube.Client, o Options) {
	t.Helper()
	_, o = server(t)
	api := apiserver.New(apiserver.Options{RBAC: true, Token: "t"})
	t.Cleanup(api.Close)
	pipe := api.ListenPipe()
	t.Cleanup(func() { pipe.Close() })
	client := func(as kube.Impersonation) *kube.Client {
		c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, Credentials: token("t"),
			Impersonate: as})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	admin = client(kube.Impersonation{})
	o.Client = admin
	install(t, o, nil)
	o.Client = client(kube.Impersonation{User: "system:serviceaccount:ops:skiff",
		Groups: []string{"system:serviceaccounts", "system:authenticated"}})
	return admin, o
}

// apply creates the objects of a manifest as an administrator.
func apply(t *testing.T, admin *kube.Client, manifest string) {
	t.Helper()
	plurals := map[string]string{"Role": "roles", "RoleBinding": "rolebindings", "ClusterRole": "clusterroles",
		"ClusterRoleBinding": "clusterrolebindings", "Namespace": "namespaces"}
	for docs := yaml.NewDecoder(bytes.NewReader([]byte(manifest))); ; {
		var object map[string]any
		if err := docs.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		kind := object["kind"].(string)
		r := kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: plurals[kind], Kind: kind}
		if kind == "Namespace" {
			r.Group = ""
		}
		namespace, _ := object["metadata"].(map[string]any)["namespace"].(string)
		r.ClusterScoped = namespace == ""
		if err := admin.Create(t.Context(), r, namespace, object, nil, kube.WriteOptions{}); err != nil {
			t.Fatalf("%s: %v", manifest, err)
		}
	}
}

// selecting makes the options those of a check of the namespaces with a label.
func selecting(o Options) Options {
	o.Namespaces, o.Selector = nil, "team=shop"
	o.SelectRights = []kube.Right{{Resource: namespaceResource, Verbs: []string{"list", "watch"}, Why: "to follow it"}}
	return o
}

const labelled = "apiVersion: v1\nkind: Namespace\nmetadata: {name: %, labels: {team: shop}}\n"

// Each report ends with what is missing next, and what it prints grants that.
func TestTheNamespacesThatASelectorSelectsAreChecked(t *testing.T) {
	admin, o := withRBAC(t)
	o = selecting(o)
	r := run(t, o)
	if r.OK || r.Selection.Allowed || len(r.Scopes) != 1 || r.Scopes[0].For != "the namespace selector" ||
		r.Scopes[0].Namespace != "" || !slices.Equal(r.Scopes[0].Missing[0].Verbs, []string{"list", "watch"}) {
		t.Fatalf("without the right to list namespaces: %+v", r)
	}
	apply(t, admin, r.Manifest)
	if r = run(t, o); r.OK || !r.Selection.Allowed || len(r.Selection.Namespaces) != 0 || r.Manifest != "" {
		t.Fatalf("no namespace has the label: %+v", r)
	}
	for _, ns := range []string{"web", "app"} {
		apply(t, admin, string(bytes.ReplaceAll([]byte(labelled), []byte("%"), []byte(ns))))
	}
	r = run(t, o)
	if r.OK || !slices.Equal(r.Selection.Namespaces, []string{"app", "web"}) || len(r.Scopes) != 3 ||
		r.Scopes[1].Namespace != "app" || len(r.Scopes[2].Missing) == 0 {
		t.Fatalf("with rights in neither: %+v", r)
	}
	apply(t, admin, r.Manifest)
	if r = run(t, o); !r.OK || len(r.Scopes) != 3 || r.Manifest != "" {
		t.Fatalf("with all rights in both: %+v", r)
	}
	if r.Reader == "" || !r.Definitions[0].Fields {
		t.Errorf("without the right to read definitions: %+v", r)
	}
	apply(t, admin, r.Reader)
	if r = run(t, o); r.Reader != "" || r.Definitions[0].Detail != "the same as in this skiff" {
		t.Errorf("with the right to read definitions: %+v", r)
	}
}

func TestAClusterRoleAnswersForAllSelectedNamespaces(t *testing.T) {
	admin, o := withRBAC(t)
	o = selecting(o)
	apply(t, admin, string(bytes.ReplaceAll([]byte(labelled), []byte("%"), []byte("web"))))
	apply(t, admin, grant(subject{namespace: "ops", account: "skiff"}, "", slices.Concat(o.Rights, o.SelectRights)))
	if r := run(t, o); !r.OK || len(r.Scopes) != 2 || r.Scopes[1].Namespace != "" {
		t.Errorf("report: %+v", r)
	}
}
