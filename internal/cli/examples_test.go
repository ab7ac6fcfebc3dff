package cli

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/examples"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// documents returns the objects of a YAML text.
func documents(t *testing.T, text string) (out []object) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var body object
		if err := d.Decode(&body); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, body)
	}
}

// Strict, as kubectl is: a typo in an example is refused and not dropped. Each file goes into a namespace of its own.
func TestTheServerTakesEveryExample(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	noError(t, definitions.Ensure(t.Context(), c.client, 10*time.Second))
	files, err := filepath.Glob(repositoryFile("examples/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for i, file := range files {
		name, home := filepath.Base(file), "example-"+string(rune('a'+i))
		c.create(namespaces, "", named(home, nil))
		all := documents(t, examples.Text(name))
		if len(all) == 0 {
			t.Errorf("%s is empty", name)
		}
		for _, body := range all {
			group, _, _ := strings.Cut(body["apiVersion"].(string), "/")
			kind := strings.TrimSuffix(body["kind"].(string)+"."+group, ".v1")
			r := must(discovery.Resolve(t.Context(), c.client, kind))(t)
			namespace := home
			if own, _ := body["metadata"].(object)["namespace"].(string); own != "" {
				namespace = own
			}
			if r.ClusterScoped {
				namespace = ""
			}
			if err := c.client.Create(t.Context(), r.Resource, namespace, body, nil,
				kube.WriteOptions{FieldValidation: "Strict"}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
