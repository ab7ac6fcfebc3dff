package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// Rules: LP-12
func TestThePodsOfAParentAreThoseOfItsWorkloadsAndItsOwnEachReadOnce(t *testing.T) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	apps := func(names ...string) (out []string) {
		for _, name := range names {
			app := name[:1]
			out = append(out, strings.ReplaceAll(deployment(name, "", ""), `"app":"a"`, fmt.Sprintf(`"app":%q`, app)))
		}
		return out
	}
	for name, test := range map[string]struct {
		children []string
		err      error
		asked    int // how many lists
		pods     int // -1: the object is not shown with pods
		more     bool
	}{
		"no workload":             {children: []string{configMap("x", "", "")}, pods: -1},
		"a Deployment":            {children: apps("a"), asked: 1, pods: 2},
		"two with the same pods":  {children: apps("a1", "a2"), asked: 1, pods: 2},
		"two with pods of both":   {children: apps("a", "b"), asked: 2, pods: 3},
		"many":                    {children: apps("a", "b", "c", "d", "e"), asked: 3, pods: 4, more: true},
		"a pod":                   {children: []string{pod}, asked: 1, pods: 2},
		"no right to read them":   {children: apps("a", "b"), err: &kube.Status{Code: 403}, asked: 1},
		"the server is not there": {children: apps("a", "b"), err: errors.New("no"), asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			s := composite(declared).kind(deployments, spec.InPlace).kind(pods, spec.InPlace)
			s.pods = func(_ context.Context, namespace, selector string) (controller.Pods, error) {
				asked = append(asked, namespace+" "+selector)
				return controller.Pods{List: []controller.Pod{{Name: "shared"}, {Name: selector}}}, test.err
			}
			story(t, s, func(w *env) {
				w.Create("a", answer(children(test.children...)))
				w.Pass(time.Second)
				got, known, err := s.last.Pods(w.Context(), kube.Key{Namespace: "default", Name: "a"})
				w.Want("known", known, test.pods >= 0)
				w.Want("asked for", len(asked), test.asked)
				w.Want("pods", len(got.List), max(test.pods, 0))
				w.Want("more", got.More && err == nil, test.more)
				w.Want("withheld", got.Withheld, kube.IsForbidden(test.err))
				w.Want("an error", err != nil, test.err != nil && !got.Withheld)
			})
			for _, query := range asked {
				if !strings.HasPrefix(query, "default app=") && !strings.HasPrefix(query, "default "+uidLabel+"=") {
					t.Errorf("asked for %q", query)
				}
			}
		})
	}
}
