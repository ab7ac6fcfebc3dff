package scaffold_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/internal/hooks/scaffold"
	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// written is a new controller, for the kind WebShop.
func written(t *testing.T, lang string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "web-shop")
	names, err := scaffold.NamesOf(dir, "", "shop.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if want := (scaffold.Names{Kind: "WebShop", Singular: "webshop", Plural: "webshops",
		Group: "shop.example.com"}); names != want {
		t.Errorf("%+v, want %+v", names, want)
	}
	if _, err := scaffold.Write(dir, lang, names); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// object reads a file with one object.
func object(t *testing.T, name string) (body map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, name)), &body); err != nil {
		t.Fatal(name, err)
	}
	return body
}

// tools are what a hook needs, by its language.
var tools = map[string]string{"shell": "jq", "python": "python3", "node": "node", "go": "go"}

// request is a call with what is in example/ and test/children.yaml, on one line.
func request(t *testing.T, dir string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"controller": map[string]any{}, "finalizing": false,
		"related": map[string]any{}, "hook": "sync", "parent": object(t, filepath.Join(dir, "example", "hello.yaml")),
		"children": map[string]any{"Service.v1": map[string]any{}, "Deployment.apps/v1": map[string]any{
			"default/hello": object(t, filepath.Join(dir, "test", "children.yaml"))}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

const wanted = `{"status":{"ready":"1/2","state":"Progressing","readyReplicas":1},"children":[
	{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"hello"},"spec":{"replicas":2,
		"selector":{"matchLabels":{"app":"hello"}},"template":{"metadata":{"labels":{"app":"hello"}},"spec":{
		"containers":[{"name":"main","image":"nginx:1.27","ports":[{"containerPort":80}]}]}}}},
	{"apiVersion":"v1","kind":"Service","metadata":{"name":"hello"},"spec":{"selector":{"app":"hello"},
		"ports":[{"port":80,"targetPort":80}]}}]}`

// Rules: HK-44, HK-100, HK-101, HK-102
func TestTheHookOfEachLanguageDecidesTheSame(t *testing.T) {
	var want map[string]any
	if err := json.Unmarshal([]byte(wanted), &want); err != nil {
		t.Fatal(err)
	}
	for _, lang := range scaffold.Languages() {
		t.Run(lang, func(t *testing.T) {
			if _, err := exec.LookPath(tools[lang]); err != nil {
				t.Skipf("there is no %s on this machine", tools[lang])
			}
			dir := written(t, lang)
			if lang == "go" {
				build := exec.CommandContext(t.Context(), "go", "build", "-o", "hook", ".")
				build.Dir = filepath.Join(dir, spec.HookDirectory)
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			controllers, warnings, err := spec.ReadFiles([]string{dir})
			if err != nil || len(controllers) != 1 || len(warnings) != 1 {
				t.Fatalf("%v, %d controllers, warnings %q", err, len(controllers), warnings)
			}
			hook := controllers[0].Sync.Exec
			input, calls := request(t, dir), 1
			if hook.Mode == spec.Lines {
				input = bytes.Replace(input, []byte("{"), []byte(`{"id":"i1",`), 1)
				input, calls = append(append(input, '\n'), input...), 2
			}
			cmd := exec.CommandContext(t.Context(), hook.Command[0], hook.Command[1:]...)
			cmd.Dir, cmd.Stdin, cmd.Stderr = hook.Dir, bytes.NewReader(input), os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			for d := json.NewDecoder(bytes.NewReader(out)); calls > 0; calls-- {
				var got map[string]any
				err := d.Decode(&got)
				if hook.Mode == spec.Lines && got["id"] != "i1" {
					t.Errorf("the answer does not repeat the id of the request: %v", got["id"])
				}
				delete(got, "id")
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%v, it answers\n%s\nwant\n%s", err, out, wanted)
				}
			}
		})
	}
}

func TestTheServerTakesTheDefinitionAndTheExample(t *testing.T) {
	api := apiserver.New(apiserver.Options{})
	defer api.Close()
	s := httptest.NewServer(api)
	defer s.Close()
	c, err := kube.New(kube.Config{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := written(t, "shell")
	definitions := kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
		Kind: "CustomResourceDefinition", ClusterScoped: true}
	strict := kube.WriteOptions{FieldValidation: "Strict"}
	if err := c.Create(t.Context(), definitions, "", object(t, dir+"/crd.yaml"), nil, strict); err != nil {
		t.Fatal(err)
	}
	served := time.NewTicker(time.Millisecond)
	defer served.Stop()
	shops, found, err := discovery.Find(t.Context(), c, "shop.example.com", "v1", "webshops")
	for ; err == nil && !found; <-served.C {
		shops, found, err = discovery.Find(t.Context(), c, "shop.example.com", "v1", "webshops")
	}
	if err != nil || !shops.Status {
		t.Fatalf("%+v, %v", shops, err)
	}
	err = c.Create(t.Context(), shops.Resource, "default", object(t, dir+"/example/hello.yaml"), nil, strict)
	if err != nil {
		t.Error(err)
	}
}

var blank = regexp.MustCompile(`{{[A-Za-z-]+}}`)

func TestEachFileIsFilledInAndNothingIsOverwritten(t *testing.T) {
	for _, lang := range scaffold.Languages() {
		dir := written(t, lang)
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && blank.MatchString(read(t, name)) {
				t.Errorf("%s: %s has a blank", lang, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(read(t, dir+"/README.md"), "\n"); n > 12 {
			t.Errorf("%s: the README has %d lines", lang, n)
		}
		before := read(t, dir+"/crd.yaml")
		names, err := scaffold.NamesOf("x", "Other", "example.com")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scaffold.Write(dir, lang, names); err == nil || !strings.Contains(err.Error(), "is not empty") ||
			read(t, dir+"/crd.yaml") != before {
			t.Errorf("%s: a second time: %v", lang, err)
		}
	}
}

func TestLanguagesHaveTheNamesOfTheirProgramsToo(t *testing.T) {
	for name, want := range map[string]string{"python3": "python", "bash": "shell", "js": "node", "ts": "node",
		"Go": "go", "node": "node", "cobol": "", "": ""} {
		if got := scaffold.Language(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestNamesAreThoseThatAnAPITakes(t *testing.T) {
	for kind, plural := range map[string]string{"Shop": "shops", "Policy": "policies", "Gateway": "gateways",
		"Proxy": "proxies", "Redis": "redises", "Batch": "batches"} {
		if n, err := scaffold.NamesOf("", kind, "example.com"); err != nil || n.Plural != plural {
			t.Errorf("%s: %+v, %v", kind, n, err)
		}
	}
	for _, bad := range [][2]string{{"shop", "example.com"}, {"", "example.com"}, {"A-b", "example.com"},
		{"Shop", "example"}, {"Shop", "k8s.io"}, {"Shop", "x.kubernetes.io"}, {"Shop", "a b.c"},
		{"A" + strings.Repeat("b", 60), "example.com"}} {
		if n, err := scaffold.NamesOf("/7", bad[0], bad[1]); err == nil {
			t.Errorf("%q: %+v", bad, n)
		}
	}
}
