package operator_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// What a new operator costs: the lines of page_test.go, and the files that "Add an operator" names.
const (
	mostLines = 100
	mostFiles = 6
)

func TestAnOperatorTakesAHundredLinesAndSixFiles(t *testing.T) {
	code, err := os.ReadFile("page_test.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, guide, _ := strings.Cut(string(text), "\n## Add an operator\n")
	guide, _, _ = strings.Cut(guide, "\n## ")
	lines := bytes.Count(code, []byte("\n"))
	if lines > mostLines || !strings.Contains(guide, fmt.Sprintf("in %d lines", lines)) {
		t.Errorf("page_test.go has %d lines, want at most %d, and internal/README.md to say so", lines,
			mostLines)
	}
	files := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\d\\. `([^`]+)`").FindAllStringSubmatch(guide, -1) {
		files[m[1]] = true
	}
	if len(files) < 3 || len(files) > mostFiles {
		t.Errorf("internal/README.md names the files %v, want at most %d", files, mostFiles)
	}
}

// What children may depend on is what Desired gets: there is nothing else in it.
func TestDesiredGetsTheIdentityAndTheSpecAlone(t *testing.T) {
	cr := &Page{Spec: PageSpec{Text: "x"}, Status: PageStatus{ReadyReplicas: 3}}
	cr.Namespace, cr.Name, cr.UID, cr.Generation, cr.ResourceVersion = "default", "a", "u1", 2, "7"
	cr.Labels, cr.Annotations = kube.Labels{{Key: "a", Value: "b"}}, kube.Labels{{Key: "a", Value: "b"}}
	want := &Page{Spec: cr.Spec}
	want.Namespace, want.Name, want.UID, want.Generation = "default", "a", "u1", 2
	d := page
	var got, created *Page
	d.Desired = func(p *Page) ([]operator.Child, error) { got = p; return nil, nil }
	d.Create = func(p *Page, _ []operator.Child) { created = p }
	if _, err := d.Declare(cr); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Desired gets %+v, want %+v, %v", got, want, err)
	}
	if created != cr {
		t.Error("Create does not get the whole custom resource")
	}
}

func TestABodyIsAStructOrAMapWithAnyGoNumbers(t *testing.T) {
	type ports struct {
		Port     uint16 `json:"port"`
		NodePort *int   `json:"nodePort,omitempty"`
	}
	type service struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Ports []ports `json:"ports"`
		} `json:"spec"`
	}
	var typed service
	typed.Metadata.Labels, typed.Spec.Ports = map[string]string{"tier": "front"}, []ports{{Port: 80}}
	loose := object{"metadata": object{"labels": object{"tier": "front"}},
		"spec": object{"ports": []object{{"port": 80}}}}
	canonical := object{"metadata": object{"labels": object{"tier": "front"}},
		"spec": object{"ports": []any{object{"port": int64(80)}}}}
	declared := func(body any) any {
		d := page
		d.Desired = func(*Page) ([]operator.Child, error) {
			return []operator.Child{{Resource: services, Name: "a", Body: body}}, nil
		}
		cr := &Page{}
		cr.Namespace, cr.Name, cr.UID = "default", "a", "u1"
		children, err := d.Declare(cr)
		if err != nil {
			t.Fatal(err)
		}
		return children[0].Body
	}
	want := object{"apiVersion": "v1", "kind": "Service", "spec": canonical["spec"],
		"metadata": object{"name": "a", "namespace": "default",
			"labels": object{"tier": "front", "app.kubernetes.io/name": "page", "app.kubernetes.io/instance": "a",
				"app.kubernetes.io/managed-by": "skiff"},
			"ownerReferences": []any{object{"apiVersion": "example.com/v1", "kind": "Page", "name": "a", "uid": "u1",
				"controller": true, "blockOwnerDeletion": true}}}}
	for name, body := range map[string]any{"struct": typed, "map": loose, "as it is sent": canonical} {
		if got := declared(body); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, bad := range []any{nil, 7, make(chan int)} {
		d := page
		d.Desired = func(*Page) ([]operator.Child, error) {
			return []operator.Child{{Resource: services, Name: "a", Body: bad}}, nil
		}
		if _, err := d.Declare(&Page{}); err == nil || !strings.HasPrefix(err.Error(), "declare Service a: ") {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}

func TestRightsFollowFromTheDefinition(t *testing.T) {
	d := page
	d.Finalizer, d.Children = "example.com/f", d.Children[2:]
	d.Inputs = []operator.Input[*Page]{another}
	d.Extra = []kube.Right{{Resource: deployments, Verbs: []string{"get"}, Why: "an example"}}
	var got []string
	for _, r := range d.Rights() {
		got = append(got, r.String()+" "+strings.Join(r.Verbs, " "))
	}
	want := []string{"pages.example.com get list watch", "pages.example.com patch", "pages.example.com/status patch",
		"pages.example.com/finalizers update", "services get list watch create patch delete", "configmaps list watch",
		"deployments.apps get", "events.events.k8s.io create patch"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("rights %q, want %q", got, want)
	}
}

type configMap struct {
	kube.Meta `json:"metadata"`
	Data      map[string]string `json:"data"`
}

// another is the ConfigMap that a Page with the text @NAME is about.
var another = operator.Reads[configMap](configMaps, func(p *Page) []string {
	if name, ok := strings.CutPrefix(p.Spec.Text, "@"); ok {
		return []string{name}
	}
	return nil
})

func TestAChildFollowsAnotherObjectThatIsADeclaredInput(t *testing.T) {
	d := page
	d.Inputs = []operator.Input[*Page]{another}
	d.Desired = func(p *Page) ([]operator.Child, error) {
		if name, ok := strings.CutPrefix(p.Spec.Text, "@"); ok {
			from, _ := p.Input(configMaps, name).(*configMap)
			if from == nil {
				return nil, fmt.Errorf("spec.text: there is no ConfigMap %s", name)
			}
			p.Spec.Text = from.Data["text"]
		}
		return desiredPage(p)
	}
	o := options
	o.New = func(s controller.Setup, recorder *events.Recorder) *controller.Controller {
		return operator.New(s, recorder, d)
	}
	storyWith(t, o, func(w *operatortest.Env) {
		w.Create("a", `{"text":"@other","replicas":1}`)
		w.Create("b", `{"text":"mine","replicas":1}`)
		w.WantCondition("a", "Stalled", "True/InvalidSpec", "spec.text: there is no ConfigMap other")
		w.Post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"},"data":{"text":"one"}}`)
		w.Want("text", text(w), "one")
		w.WantCondition("a", "Stalled", "False/AsExpected")
		w.Pass(time.Minute)
		w.Forget()
		w.Patch(configMaps, "other", `{"data":{"text":"two"}}`)
		w.Want("text after a change", text(w), "two")
		w.Want("text of another Page", at(get(w, configMaps, "b"), "data", "index.html"), "mine")
		w.Pass(time.Hour)
		w.WantRequests("GET configmaps/a 200", "JSONPATCH configmaps/a 200", "APPLY configmaps/a 200")
	})
}
