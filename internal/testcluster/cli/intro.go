package cli

import (
	"fmt"
	"io"
	"strings"

	"skiff/internal/cli"
)

// devObjects are one object of each kind, as short as they can be written.
const devObjects = `apiVersion: skiff.dev/v1alpha1
kind: WebServer
metadata: {name: web}
spec: {image: "nginx:1.23.1", replicas: 3}
---
apiVersion: skiff.dev/v1alpha1
kind: Redis
metadata: {name: cache}
spec: {port: 6379, num: 3}
---
apiVersion: skiff.dev/v1alpha1
kind: RestartTrigger         # when a pod of cache is replaced, web is restarted
metadata: {name: web}
spec:
  source: {selector: {matchLabels: {app.kubernetes.io/instance: cache}}}
  targets: [{kind: Deployment, name: web}]
`

func printDevIntro(out io.Writer, d *devCluster, f *devFlags, page string) {
	controllers := strings.Join(f.controllers.Names, ", ")
	if controllers == "" {
		controllers = "none"
	}
	kept := "ends with this process"
	if f.data != "" {
		kept = "kept in " + f.data
	}
	fmt.Fprintf(out, `
live page    %s
API server   %s  (Kubernetes %s, embedded; %s)
controllers  %s

In another terminal:

  export KUBECONFIG='%s'
`, page, d.to.Server, d.o.api.Features.Version(), kept, controllers, f.kubeconfig)
	if len(f.controllers.Names) < len(cli.ControllerNames()) {
		fmt.Fprint(out, "  kubectl get all --all-namespaces\n\n")
		return
	}
	fmt.Fprintf(out, `  kubectl apply -f - <<'END'
%sEND
  kubectl get webservers,redis,restarttriggers,deployments,services,pods
  kubectl scale webserver/web --replicas=5
  kubectl scale redis/cache --replicas=2       # deletes cache-2
  kubectl delete pod cache-0                   # is created again, and then web is restarted
  kubectl describe restarttrigger web          # shows why
  skiff watch pods

`, devObjects)
}
