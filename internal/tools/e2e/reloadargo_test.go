package e2e

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	argoFlag = flag.String("argo", "", "the `path` of a controller of Argo Rollouts that TestReloadOfRollouts runs")
	argoCRDs = flag.String("argo-crds", "", "the `directory` of its definitions, manifests/crds in its repository")
)

// rolloutDefinition serves Rollouts with the types that the fields of interest have in Argo's definition, where Argo's
// own is not at hand.
const rolloutDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
spec:
  group: argoproj.io
  scope: Namespaced
  names: {kind: Rollout, plural: rollouts, singular: rollout, listKind: RolloutList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties: {restartAt: {type: string, format: date-time}, replicas: {type: integer}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties: {observedGeneration: {type: string}}
`

// rolloutManifest is a Rollout with the environment of ConfigMap app. %s are the name and the strategy for restarts.
const rolloutManifest = `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: %[1]s, annotations: {skiff.dev/reload: auto, skiff.dev/reload-strategy: %[2]s, skiff.dev/reload-cooldown: 1s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  strategy: {canary: {maxUnavailable: 1}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: x, envFrom: [{configMapRef: {name: app}}]}]}
`

// Rollouts are restarted by a new template or in place, with the definition installed while skiff runs or before.
func TestReloadOfRollouts(t *testing.T) {
	s := newScope(t)
	rollout := func(name string) Object {
		return must(s.c.Admin.Get(t.Context(), "/apis/argoproj.io/v1alpha1/namespaces/"+s.NS+"/rollouts/"+name))(t)
	}
	// finish does what the controller of Argo does where there is none.
	finish := func(name string) {
		o := rollout(name)
		s.Kubectl("patch", "rollout", name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
			`{"status":{"observedGeneration":"%d","phase":"Healthy","replicas":2,"updatedReplicas":2,"availableReplicas":2,
			"readyReplicas":2,"restartedAt":%q}}`, o.Int("metadata", "generation"), o.Str("spec", "restartAt")))
	}
	if *argoFlag == "" {
		s.Apply(rolloutDefinition)
	} else {
		for _, file := range must(filepath.Glob(filepath.Join(*argoCRDs, "*-crd.yaml")))(t) {
			s.Kubectl("apply", "--server-side", "-f", file)
		}
		argo := must(s.c.Start("argo", nil, *argoFlag, "--kubeconfig", must(s.c.Kubeconfig(admin))(t), "-n", s.NS,
			"--namespaced", "--leader-elect=false"))(t)
		t.Cleanup(func() { _, _ = argo.Stop(time.Minute) })
		finish = func(name string) {
			Eventually(s, 2*limit, name+" is healthy", func() (bool, string) {
				o := rollout(name)
				return o.Str("status", "phase") == "Healthy" &&
					o.Str("status", "observedGeneration") == fmt.Sprint(o.Int("metadata", "generation")) &&
					o.Str("status", "restartedAt") == o.Str("spec", "restartAt"), o.String() + argo.Tail(5)
			})
		}
	}
	// kubectl wait fails on a definition that has no conditions yet.
	Eventually(s, limit, "Rollouts are served", func() (bool, string) {
		o := must(s.c.Admin.Get(t.Context(),
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rollouts.argoproj.io"))(t)
		return o.Condition("Established").Str("status") == "True", o.String()
	})
	s.Apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {key: one}\n")
	ways := map[string]string{"steps": "template", "place": "restart"}
	for name, way := range ways {
		s.Apply(fmt.Sprintf(rolloutManifest, name, way))
		finish(name)
	}
	s.Apply(manifests(t, s, "--controllers", "reload", "--namespaced", s.NS, "--rbac-only"))
	s.Kubectl("create", "rolebinding", "reload-restricted", "--role=skiff", "--user="+restricted.Name)
	s.Kubectl("create", "role", "rollouts", "--resource=rollouts.argoproj.io", "--verb=list,watch,patch")
	s.Kubectl("create", "rolebinding", "rollouts-restricted", "--role=rollouts", "--user="+restricted.Name)
	sk := startSkiffAs(t, s, restricted, "--controllers", "reload", "--watch-namespaces", s.NS,
		"--reload-debounce", "1s")
	for name := range ways {
		Eventually(s, limit, "what the pods of "+name+" run with is written down", func() (bool, string) {
			o := rollout(name)
			return o.Str("metadata", "annotations", "skiff.dev/reloaded") != "", sk.Tail(20)
		})
	}
	pods := func() map[string]string {
		out := map[string]string{}
		for _, p := range s.get("/api/v1/namespaces/" + s.NS + "/pods").List("items") {
			out[p.UID()] = p.Str("metadata", "labels", "app")
		}
		return out
	}
	for round := range 3 {
		before, were := map[string]Object{"steps": rollout("steps"), "place": rollout("place")}, pods()
		s.Kubectl("patch", "configmap", "app", "-p", fmt.Sprintf(`{"data":{"key":"n%d"}}`, round))
		for name, way := range ways {
			Eventually(s, 2*limit, name+" is restarted", func() (bool, string) {
				o, was := rollout(name), before[name]
				template := fmt.Sprint(o.At("spec", "template")) != fmt.Sprint(was.At("spec", "template"))
				inPlace := o.Str("spec", "restartAt") != was.Str("spec", "restartAt")
				return template == (way == "template") && inPlace == (way == "restart"), o.String() + sk.Tail(10)
			})
			finish(name)
		}
		if *argoFlag != "" && round == 0 {
			Eventually(s, 2*limit, "all pods are others", func() (bool, string) {
				left := []string{}
				for uid, app := range pods() {
					if were[uid] != "" {
						left = append(left, app+" "+uid)
					}
				}
				return len(left) == 0, strings.Join(left, ", ")
			})
		}
	}
	quiet := time.Now()
	Throughout(s, 5*time.Second, "nothing is sent but watches", func() (bool, string) {
		requests := s.skiffRequests(quiet, s.writesHere)
		return len(requests) == 0, fmt.Sprint(requests)
	})
	noForbidden(s, sk.Log())
	noError(t, sk.Terminate())
}
