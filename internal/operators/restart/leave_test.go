package restart

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

func TestTriggersOfNamespacesThatLeaveTheSelectionAreForgotten(t *testing.T) {
	namespaces := kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	mirrors := cache.NewMirrors()
	var r *reconciler
	o := options
	o.Quiet, o.Setup = true, controller.Setup{NamespaceSelector: "x=y", Mirrors: mirrors}
	o.New = func(s controller.Setup, recorder *events.Recorder) *controller.Controller {
		var c *controller.Controller
		r, c = build(s, recorder)
		return c
	}
	operatortest.Run(t, o, func(w *operatortest.Env) {
		w.Start()
		create := func(r kube.Resource, namespace string, body map[string]any) {
			if err := w.User.Create(w.Context(), r, namespace, body, nil, kube.WriteOptions{}); err != nil {
				w.Fatal(err)
			}
		}
		remembered := func() (n int) {
			r.memories.Range(func(_, _ any) bool { n++; return true })
			return n + reflect.ValueOf(r.triggers).Elem().FieldByName("answers").Len()
		}
		for batch := range 4 {
			var names []string
			for i := range 50 {
				name := fmt.Sprintf("n%d-%d", batch, i)
				names = append(names, name)
				create(namespaces, "", map[string]any{"apiVersion": "v1", "kind": "Namespace",
					"metadata": map[string]any{"name": name}})
				create(resource, name, map[string]any{"apiVersion": "skiff.dev/v1alpha1", "kind": "RestartTrigger",
					"metadata": map[string]any{"name": "a"},
					"spec":     w.JSON("{" + selectRedis + "," + toPredixy + "}")})
			}
			mirrors.Select(names)
			w.Pass(time.Second)
			if n := remembered(); n < 50 {
				w.Fatalf("%d memories of 50 namespaces", n)
			}
		}
		mirrors.Select(nil)
		w.Pass(10 * time.Second)
		if n := remembered(); n != 0 {
			w.Errorf("%d memories are left", n)
		}
	})
}
