package webserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// in is a WebServer of another namespace, with an env value of some KiB.
func (w *env) in(namespace, name, image string, kib int) {
	w.Helper()
	body := fmt.Sprintf(`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":%q,"namespace":%q},`+
		`"spec":{"image":%q,"replicas":0,"env":[{"name":"A","value":"%s"}]}}`, name, namespace, image,
		strings.Repeat("x", kib<<10))
	if err := w.User.Create(w.Context(), resource, namespace, kube.Raw(body), nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
}

var namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// tenant makes the namespace t1.
func (w *env) tenant() {
	w.Helper()
	w.Post(namespaces, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t1"}}`)
}

// says returns a condition of a WebServer of another namespace: "Unknown/OverBudget".
func (w *env) says(namespace, name, condition string) string {
	conditions, _ := at(w.API.Get(resource, kube.Key{Namespace: namespace, Name: name}), "status",
		"conditions").([]any)
	for _, c := range conditions {
		if at(c, "type") == condition {
			return fmt.Sprint(at(c, "status"), "/", at(c, "reason"))
		}
	}
	return ""
}

func (w *env) setImage(namespace, name, image string) {
	w.Helper()
	if err := w.User.Patch(w.Context(), resource, kube.Key{Namespace: namespace, Name: name}, kube.MergePatch,
		kube.Raw(fmt.Sprintf(`{"spec":{"image":%q}}`, image)), nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *env) imageOf(namespace, name string) any {
	return at(w.API.Get(deployments, kube.Key{Namespace: namespace, Name: name}), "spec", "template", "spec",
		"containers", 0, "image")
}

// inMemory are the options of an environment in which the objects of a resource may take so many KiB.
func inMemory(mirrorKiB, objectKiB int64) operatortest.Options {
	o := options
	o.Setup = controller.Setup{MirrorBytes: mirrorKiB << 10, ObjectBytes: objectKiB << 10}
	return o
}

func TestANamespaceThatTakesTooMuchIsLeftAloneAndTheOthersAreWorkedOn(t *testing.T) {
	var running *controller.Controller
	o := inMemory(512, 256)
	o.New = func(s controller.Setup, recorder *events.Recorder) *controller.Controller {
		running = New(s, recorder)
		return running
	}
	storyWith(t, o, func(w *env) {
		w.tenant()
		w.in("default", "victim", "nginx:1", 0)
		for i := range 5 {
			w.in("t1", fmt.Sprint("a", i), "nginx:1", 40)
		}
		w.Pass(time.Second)
		uid := at(w.API.Get(deployments, kube.Key{Namespace: "t1", Name: "a0"}), "metadata", "uid")
		attack := func() {
			for i := range 15 {
				w.in("t1", fmt.Sprint("b", i), "nginx:1", 40)
			}
		}
		attack()
		w.Pass(time.Second)
		w.setImage("default", "victim", "nginx:2")
		w.setImage("t1", "a0", "nginx:2")
		w.Pass(5 * time.Second)
		w.Want("image of the victim", w.imageOf("default", "victim"), "nginx:2")
		w.Want("image in the namespace", w.imageOf("t1", "a0"), "nginx:1")
		w.Pass(30 * time.Second)
		for i := range 20 {
			name := fmt.Sprint("a", i)
			if i >= 5 {
				name = fmt.Sprint("b", i-5)
			}
			w.Want("Ready of "+name, w.says("t1", name, "Ready"), "Unknown/OverBudget")
			w.Want("Stalled of "+name, w.says("t1", name, "Stalled"), "True/OverBudget")
		}
		w.Want("the deployment", at(w.API.Get(deployments, kube.Key{Namespace: "t1", Name: "a0"}), "metadata", "uid"),
			uid)
		w.Forget()
		w.Pass(time.Hour)
		w.WantWrites() // each is told once
		if err := running.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if status := running.Status(); !strings.HasPrefix(status[0], "! over budget: namespace t1: ") ||
			!strings.Contains(status[0], "the largest is ") || !strings.Contains(status[0], "make them smaller") {
			t.Errorf("status %q", status)
		}
		sheds := controller.Sheds(running)
		if len(sheds) == 0 || sheds[0].Namespace != "t1" || sheds[0].Objects == 0 || sheds[0].Bytes < 300<<10 {
			t.Errorf("shed %+v", sheds)
		}

		w.Stop()
		w.Start() // amid the attack
		w.setImage("default", "victim", "nginx:3")
		w.Pass(5 * time.Second)
		w.Want("image of the victim after a restart", w.imageOf("default", "victim"), "nginx:3")

		for i := range 15 {
			if err := w.User.Delete(w.Context(), resource, kube.Key{Namespace: "t1", Name: fmt.Sprint("b", i)},
				kube.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			d := kube.Key{Namespace: "t1", Name: fmt.Sprint("b", i)}
			if w.API.Get(deployments, d) != nil { // as the garbage collector does
				if err := w.User.Delete(w.Context(), deployments, d, kube.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.Pass(30 * time.Second)
		w.Want("image after the attack", w.imageOf("t1", "a0"), "nginx:2")
		for i := range 5 {
			w.Want("Stalled after the attack", w.says("t1", fmt.Sprint("a", i), "Stalled"), "False/AsExpected")
		}
	})
}

// A child that is too large cannot be read from memory. What its owner declares is applied all the same, once for each
// generation of the owner: nothing else would make it small again.
func TestADeploymentThatIsTooLargeIsMadeSmallByAChangeOfItsWebServer(t *testing.T) {
	storyWith(t, inMemory(10<<10, 64), func(w *env) {
		w.in("default", "web", "nginx:1", 40)
		web := kube.Key{Namespace: "default", Name: "web"}
		grow := func(kib int) {
			t.Helper()
			if err := w.User.Patch(w.Context(), deployments, web, kube.MergePatch, kube.Raw(fmt.Sprintf(
				`{"metadata":{"annotations":{"a":"%s"}}}`, strings.Repeat("x", kib<<10))), nil,
				kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.Pass(5 * time.Second)
		grow(30)
		w.Pass(5 * time.Second)
		w.Want("Ready", w.says("default", "web", "Ready"), "Unknown/TooLarge")
		uid := at(w.API.Get(deployments, web), "metadata", "uid")
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()

		if err := w.User.Patch(w.Context(), resource, web, kube.MergePatch,
			kube.Raw(`{"spec":{"env":[{"name":"A","value":"small"}]}}`), nil, kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Pass(5 * time.Second)
		env := at(w.API.Get(deployments, web), "spec", "template", "spec", "containers", 0, "env", 0, "value")
		w.Want("the env value", env, "small")
		w.Want("the Deployment", at(w.API.Get(deployments, web), "metadata", "uid"), uid)
		w.Want("Stalled", w.says("default", "web", "Stalled"), "False/AsExpected")

		// One that stays too large is asked for once for each generation.
		grow(100)
		w.Pass(5 * time.Second)
		w.Want("Ready of the one that has grown", w.says("default", "web", "Ready"), "Unknown/TooLarge")
		for _, image := range []string{"nginx:2", "nginx:3"} {
			w.Forget()
			w.setImage("default", "web", image)
			w.Pass(time.Hour)
			w.Want("image", w.imageOf("default", "web"), image)
			gets, applies := w.Count("GET deployments"), w.Count("APPLY deployments")
			if gets != 1 || applies != 1 {
				t.Errorf("%d GETs and %d applies of the Deployment in an hour, want one of each", gets, applies)
			}
		}
	})
}
