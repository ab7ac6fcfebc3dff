package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver"
)

// kindsFile has an object of each built-in kind.
const kindsFile = "../../tools/e2e/testdata/generated.yaml"

// sampleObjects returns an object of each built-in kind, and behind them those of the examples.
func sampleObjects(t *testing.T) (out []map[string]any) {
	t.Helper()
	files := []string{kindsFile}
	err := filepath.WalkDir("../../../examples", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".yaml" && !strings.Contains(path, "chart") &&
			!strings.Contains(path, "/ci/") && d.Name() != "want.yaml" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	read, err := spec.ReadObjects(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range read {
		v, err := patch.Decode(o.Raw)
		if err != nil {
			t.Fatal(err)
		}
		object := v.(map[string]any)
		if object["kind"] == nil { // the settings of a tool
			continue
		}
		meta, _ := object["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
			object["metadata"] = meta
		}
		delete(meta, "namespace")
		meta["name"] = "a-1.x"
		out = append(out, object)
	}
	return out
}

// A child that the server would take must not be refused: each field of each kind is given a value of each type.
func TestNoObjectIsRefusedThatTheServerAccepts(t *testing.T) {
	api := apiserver.New(apiserver.Options{})
	defer api.Close()
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := kube.New(kube.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var table kinds
	varied := map[kube.Resource]bool{}
	served, tried, caught := map[string]discovery.Schemas{}, 0, 0
	for _, object := range sampleObjects(t) {
		r := table.learn(object["apiVersion"].(string), object["kind"].(string))
		if !builtIn(r.Group) {
			continue
		}
		all, known := served[r.APIVersion()]
		if !known {
			all, _ = discovery.ReadSchemas(t.Context(), client, r) // a kind that the server does not have
			served[r.APIVersion()] = all
		}
		root := all.Kind(r)
		if root == nil {
			continue
		}
		c := checker{all: all, from: "the cluster"}
		try := func(path string) {
			refused, accepted := c.check(root, "o", object), accepts(t, api, r, object)
			tried++
			if refused != nil && accepted {
				t.Errorf("%s, %s: the server accepts it, and the check does not: %v", r.Kind, path, refused)
			} else if refused != nil {
				caught++
			}
		}
		if len(served) > 1 { // the metadata of all kinds is that of the first
			root.Properties["metadata"] = nil
		}
		if varied[r] {
			try("as it is")
			continue
		}
		varied[r] = true
		vary(all, root, object, "", try)
	}
	if tried < 5000 || caught < tried/3 {
		t.Errorf("%d objects were tried and %d refused: want more of both", tried, caught)
	}
	t.Logf("%d objects, %d refused by both", tried, caught)
}

// fixed are fields that name the object, or that the server owns.
var fixed = []string{".apiVersion", ".kind", ".metadata.name", ".metadata.namespace", ".status"}

// vary calls try with each field of an object, one after the other, set to a value of each type.
func vary(all discovery.Schemas, s *discovery.Schema, object map[string]any, path string, try func(path string)) {
	s = all.Resolve(s)
	if s == nil {
		return
	}
	names := slices.Collect(maps.Keys(s.Properties))
	if s.Values.Schema != nil {
		names = append(names, "key")
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		at := path + "." + name
		if s.Properties[name] == nil && name != "key" || slices.Contains(fixed, at) {
			continue
		}
		old, had := object[name]
		for _, v := range []any{"x", int64(1), 1.5, true, nil, map[string]any{}, []any{"x"},
			map[string]any{"key": "1"}} {
			object[name] = v
			try(fmt.Sprintf("%s=%v", at, v))
		}
		if object[name] = old; !had {
			delete(object, name)
		}
		of := s.Properties[name]
		if list, ok := old.([]any); ok && len(list) > 0 {
			if of = all.Resolve(of); of != nil {
				old, of = list[0], of.Items
			}
		}
		if below, ok := old.(map[string]any); ok {
			vary(all, of, below, at, try)
		}
	}
}

func accepts(t *testing.T, api http.Handler, r kube.Resource, object map[string]any) bool {
	t.Helper()
	path := "/apis/" + r.APIVersion()
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if !r.ClusterScoped {
		path += "/namespaces/default"
	}
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	q := httptest.NewRequest(http.MethodPost, path+"/"+r.Plural+"?dryRun=All", bytes.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	api.ServeHTTP(w, q)
	return w.Code == http.StatusCreated
}
