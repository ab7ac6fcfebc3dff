package supervise_test

import (
	"strings"
	"testing"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/kube"
)

// decorator has the name of composite.
const decorator = `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"DecoratorController",
	"metadata":{"name":"thing"},"spec":{"resources":[{"apiVersion":"example.com/v1","resource":"things"}],
	"attachments":[{"apiVersion":"v1","resource":"configmaps"}],
	"hooks":{"sync":{"webhook":{"url":"http://hook/sync"}}}}}`

// Rules: HK-100
func TestOneKindMayRunCommandsAndAnotherOfThatNameMayNot(t *testing.T) {
	program := strings.NewReplacer(`"webhook":{"url":"http://hook/sync"}`, `"exec":{"command":["/bin/sh"]}`)
	allowed := []string{"compositecontroller/thing"}
	for text, want := range map[string]bool{program.Replace(composite): true, program.Replace(decorator): false,
		decorator: true} {
		c, err := spec.FromObject(kube.Raw(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := supervise.CheckExec(c, allowed); (err == nil) != want {
			t.Errorf("%s %s: %v", c.Kind, c.Name, err)
		}
	}
	for name, want := range map[string]string{
		"compositecontroller/thing": "", "decoratorcontroller/a.b": "",
		"thing":                     "compositecontroller/thing or decoratorcontroller/thing",
		"pod/thing":                 "KIND/NAME",
		"CompositeController/thing": "KIND/NAME",
		"compositecontroller/":      "KIND/NAME",
		"compositecontroller/a/b":   "KIND/NAME",
		"":                          "KIND/NAME",
	} {
		if err := supervise.CheckAllowed([]string{name}); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
