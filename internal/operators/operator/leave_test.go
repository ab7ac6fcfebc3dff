package operator

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

type counted = Object[struct{}, countedStatus]

type countedStatus struct {
	Common
}

func TestNamespacesThatLeaveTheSelectionLeaveNothingBehind(t *testing.T) {
	servers := kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	namespaces := kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	mirrors := cache.NewMirrors()
	var r *reconciler[*counted, countedStatus, *countedStatus]
	o := operatortest.Options{Resource: servers, Controller: "counted", Quiet: true,
		Setup: controller.Setup{NamespaceSelector: "x=y", Mirrors: mirrors},
		New: func(s controller.Setup, recorder *events.Recorder) *controller.Controller {
			var sources []controller.Source
			r, sources = newReconciler[*counted, countedStatus](s, recorder, Definition[*counted, countedStatus]{
				Name: "counted", Resource: servers,
				Desired: func(*counted) ([]Child, error) { return nil, nil },
				Observe: func(cr *counted, _ Seen, _ health.Problem) (countedStatus, conditions.Set) {
					return countedStatus{}, conditions.NewSet(cr.Annotations)
				},
			})
			c := s.New("counted", r.Reconcile, sources...)
			r.follow(c)
			return c
		}}
	operatortest.Run(t, o, func(w *operatortest.Env) {
		w.Start()
		create := func(r kube.Resource, namespace string, body map[string]any) {
			if err := w.User.Create(w.Context(), r, namespace, body, nil, kube.WriteOptions{}); err != nil {
				w.Fatal(err)
			}
		}
		remembered := func() (owners, answers int) {
			length := func(of any, field string) int {
				return reflect.ValueOf(of).Elem().FieldByName(field).FieldByName("of").Len()
			}
			return length(r.children, "owners"), length(r.objects.Statuses, "answers")
		}
		for batch := range 4 {
			var names []string
			for i := range 50 {
				name := fmt.Sprintf("n%d-%d", batch, i)
				names = append(names, name)
				create(namespaces, "", map[string]any{"apiVersion": "v1", "kind": "Namespace",
					"metadata": map[string]any{"name": name}})
				create(servers, name, map[string]any{"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer",
					"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"image": "x"}})
			}
			mirrors.Select(names)
			w.Pass(time.Second)
			if owners, _ := remembered(); owners != 50 {
				w.Fatalf("%d owners are remembered of 50 namespaces", owners)
			}
		}
		mirrors.Select(nil)
		w.Pass(10 * time.Second)
		if owners, answers := remembered(); owners != 0 || answers != 0 {
			w.Errorf("%d owners and %d answers are remembered", owners, answers)
		}
	})
}
