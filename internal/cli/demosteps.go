package cli

import (
	"context"
	"fmt"

	"gopkg.in/yaml.v3"

	"skiff/internal/kube"
)

// demoWebServer is the object that the tour is about, as a user would write it.
const demoWebServer = `apiVersion: skiff.dev/v1alpha1
kind: WebServer
metadata:
  name: web
spec:
  image: nginx:1.23.1
  replicas: 3
  nodePort: 30010
`

const (
	demoImage    = "nginx:1.23.1"
	demoNewImage = "nginx:1.25.3"
	demoPort     = 30010
	demoNote     = "example.com/note" // an annotation that skiff knows nothing of
)

// object is the body of a request.
type object = map[string]any

// demoSteps are the stations of the tour.
func demoSteps() []step {
	return []step{
		{
			title: "Create a WebServer",
			you:   "kubectl apply -f examples/webserver.yaml     # image nginx:1.23.1, replicas 3, nodePort 30010",
			do: func(ctx context.Context, c *kube.Client, _ world) error {
				var body object
				if err := yaml.Unmarshal([]byte(demoWebServer), &body); err != nil {
					return err
				}
				return c.Create(ctx, webServers, demoNamespace, body, nil, kube.WriteOptions{})
			},
			missing: func(_, now world) string { return now.unless(demoImage, 3) },
			proof:   "it became a Deployment and a Service on node port 30010, and 3 pods are ready",
		},
		{
			title:   "Scale it",
			you:     "kubectl scale webserver/web --replicas=5",
			do:      patchWeb(object{"spec": object{"replicas": 5}}, "scale"),
			missing: func(_, now world) string { return now.unless(demoImage, 5) },
			proof:   "5 pods are ready",
		},
		{
			title:   "Upgrade it",
			you:     `kubectl patch webserver/web --type=merge -p '{"spec":{"image":"nginx:1.25.3"}}'`,
			do:      patchWeb(object{"spec": object{"image": demoNewImage}}, ""),
			missing: func(_, now world) string { return now.unless(demoNewImage, 5) },
			proof:   "the pods were replaced, all 5 run nginx:1.25.3",
		},
		{
			title: "Delete its Service",
			you:   "kubectl delete service web-service",
			do:    deleteChild(services, demoName+"-service"),
			missing: func(before, now world) string {
				if now.service == nil || now.service.UID == before.service.UID {
					return "the Service has not come back"
				}
				return now.unless(demoNewImage, 5)
			},
			proof: "a new Service is there, on the same node port 30010",
		},
		{
			title: "Delete its Deployment",
			you:   "kubectl delete deployment web",
			do:    deleteChild(deployments, demoName),
			missing: func(before, now world) string {
				if now.deployment == nil || now.deployment.UID == before.deployment.UID {
					return "the Deployment has not come back"
				}
				return now.unless(demoNewImage, 5)
			},
			proof: "a new Deployment is there, and 5 new pods are ready",
		},
		{
			title: "Change its Deployment by hand",
			you:   "kubectl set image deployment/web webserver=httpd:2; kubectl annotate deployment/web " + demoNote + "=mine",
			do: func(ctx context.Context, c *kube.Client, _ world) error {
				patch := object{
					"metadata": object{"annotations": object{demoNote: "mine"}},
					"spec": object{"template": object{"spec": object{"containers": []any{
						object{"name": "webserver", "image": "httpd:2"}}}}},
				}
				return c.Patch(ctx, deployments, kube.Key{Namespace: demoNamespace, Name: demoName}, kube.StrategicMergePatch, patch, nil,
					kube.WriteOptions{FieldManager: "kubectl-set"})
			},
			missing: func(before, now world) string {
				if now.deployment == nil || now.deployment.Generation < before.deployment.Generation+2 {
					return "the image has not been put back"
				}
				if note, _ := now.deployment.Annotations.Get(demoNote); note != "mine" {
					return "the annotation, which is not skiff's, was lost"
				}
				return now.unless(demoNewImage, 5)
			},
			proof: "the image is back as declared; the annotation, which is not skiff's, was left alone",
		},
		{
			title: "Delete the WebServer",
			you:   "kubectl delete webserver/web",
			do:    deleteChild(webServers, demoName),
			missing: func(_, now world) string {
				if now.web != nil || now.deployment != nil || now.service != nil || len(now.pods) > 0 {
					return "something is left of it"
				}
				return ""
			},
			proof: "the Deployment, the Service and the pods went with it: the garbage collector follows their owner references",
		},
	}
}

// unless says what is missing for a WebServer that is ready with so many pods of an image, and nothing else; "" if nothing is.
func (w world) unless(image string, replicas int) string {
	ready, all := w.podsWith(image)
	switch {
	case w.web == nil:
		return "there is no WebServer"
	case w.deployment == nil:
		return "there is no Deployment"
	case w.service.nodePort() != demoPort:
		return fmt.Sprintf("the Service has node port %d, not %d", w.service.nodePort(), demoPort)
	case ready != replicas || all != replicas:
		return fmt.Sprintf("%d of %d pods are ready and run %s, want %d", ready, all, image, replicas)
	case w.web.Status.ReadyReplicas != replicas || w.web.Status.UpdatedReplicas != replicas || !w.web.ready():
		return fmt.Sprintf("the status of the WebServer is behind: ready %d, updated %d of %d", w.web.Status.ReadyReplicas,
			w.web.Status.UpdatedReplicas, replicas)
	}
	return ""
}

func patchWeb(patch object, subresource string) func(context.Context, *kube.Client, world) error {
	return func(ctx context.Context, c *kube.Client, _ world) error {
		return c.Patch(ctx, webServers, kube.Key{Namespace: demoNamespace, Name: demoName}, kube.MergePatch, patch, nil,
			kube.WriteOptions{Subresource: subresource})
	}
}

func deleteChild(r kube.Resource, name string) func(context.Context, *kube.Client, world) error {
	return func(ctx context.Context, c *kube.Client, _ world) error {
		return c.Delete(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, kube.DeleteOptions{})
	}
}
