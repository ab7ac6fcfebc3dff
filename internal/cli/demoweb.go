package cli

import (
	"context"
	"fmt"

	"skiff/examples"
	"skiff/internal/kube"
)

const (
	webImage    = "nginx:1.23.1" // of the example
	webNewImage = "nginx:1.25.3"
	webPort     = 30010              // of the example
	webNote     = "example.com/note" // an annotation that skiff knows nothing of
)

// webAct shows a WebServer.
func webAct() act {
	return act{"A WebServer: an image and a number of pods become a Deployment and a Service", []step{
		{
			title:   "Create a WebServer",
			you:     "kubectl apply -f examples/webserver.yaml     # image nginx:1.23.1, replicas 3, nodePort 30010",
			do:      apply(examples.Text("webserver.yaml")),
			missing: func(_, now world) string { return now.webUnless(webImage, 3) },
			tells:   []string{"created Deployment default/web", "created Service default/web-service"},
			proof:   "it became a Deployment and a Service on node port 30010, and 3 pods are ready",
		},
		{
			title:   "Scale it",
			you:     "kubectl scale webserver/web --replicas=5",
			do:      merge(webServers, demoWeb, "scale", object{"spec": object{"replicas": 5}}),
			missing: func(_, now world) string { return now.webUnless(webImage, 5) },
			tells:   []string{"applied Deployment default/web: spec.replicas"},
			proof:   "5 pods are ready",
		},
		{
			title:   "Upgrade it",
			you:     `kubectl patch webserver/web --type=merge -p '{"spec":{"image":"nginx:1.25.3"}}'`,
			do:      merge(webServers, demoWeb, "", object{"spec": object{"image": webNewImage}}),
			missing: func(_, now world) string { return now.webUnless(webNewImage, 5) },
			tells:   []string{"applied Deployment default/web"},
			proof:   "the pods were replaced, all 5 run nginx:1.25.3",
		},
		{
			title: "Delete its Service and its Deployment",
			you:   "kubectl delete service/web-service deployment/web",
			do: func(ctx context.Context, c *kube.Client) error {
				if err := remove(services, demoWeb+"-service")(ctx, c); err != nil {
					return err
				}
				return remove(deployments, demoWeb)(ctx, c)
			},
			missing: func(before, now world) string {
				switch {
				case now.webService == nil || now.webService.UID == before.webService.UID:
					return "the Service has not come back"
				case now.webDeployment == nil || now.webDeployment.UID == before.webDeployment.UID:
					return "the Deployment has not come back"
				}
				return now.webUnless(webNewImage, 5)
			},
			tells: []string{"created Deployment default/web", "created Service default/web-service"},
			proof: "both are back, the Service on the same node port 30010, and 5 new pods are ready",
		},
		{
			title: "Change its Deployment by hand",
			you:   "kubectl set image deployment/web webserver=httpd:2; kubectl annotate deployment/web " + webNote + "=mine",
			do: func(ctx context.Context, c *kube.Client) error {
				patch := object{
					"metadata": object{"annotations": object{webNote: "mine"}},
					"spec": object{"template": object{"spec": object{"containers": []any{
						object{"name": "webserver", "image": "httpd:2"}}}}},
				}
				return c.Patch(ctx, deployments, kube.Key{Namespace: demoNamespace, Name: demoWeb}, kube.StrategicMergePatch, patch, nil,
					kube.WriteOptions{FieldManager: "kubectl-set"})
			},
			missing: func(before, now world) string {
				if now.webDeployment == nil || now.webDeployment.Generation < before.webDeployment.Generation+2 {
					return "the image has not been put back"
				}
				if note, _ := now.webDeployment.Annotations.Get(webNote); note != "mine" {
					return "the annotation, which is not skiff's, was lost"
				}
				return now.webUnless(webNewImage, 5)
			},
			tells: []string{"applied Deployment default/web"},
			proof: "the image is back as declared; the annotation, which is not skiff's, was left alone",
		},
		{
			title: "Delete the WebServer",
			you:   "kubectl delete webserver/web",
			do:    remove(webServers, demoWeb),
			missing: func(_, now world) string {
				if now.web != nil || now.webDeployment != nil || now.webService != nil || len(now.podsOf(demoWeb)) > 0 {
					return "something is left of it"
				}
				return ""
			},
			proof: "the Deployment, the Service and the pods went with it: the garbage collector follows their owner references",
		},
	}}
}

// webUnless says what is missing for a WebServer that is ready with so many pods of an image, and nothing else; "" if nothing is.
func (w world) webUnless(image string, replicas int) string {
	ready, all := w.podsReady(demoWeb, image)
	switch {
	case w.web == nil:
		return "there is no WebServer"
	case w.webDeployment == nil:
		return "there is no Deployment"
	case w.webService.nodePort() != webPort:
		return fmt.Sprintf("the Service has node port %d, not %d", w.webService.nodePort(), webPort)
	case ready != replicas || all != replicas:
		return fmt.Sprintf("%d of %d pods are ready and run %s, want %d", ready, all, image, replicas)
	case w.web.Status.ReadyReplicas != replicas || w.web.Status.UpdatedReplicas != replicas || !w.web.ready():
		return fmt.Sprintf("the status of the WebServer is behind: ready %d, updated %d of %d", w.web.Status.ReadyReplicas,
			w.web.Status.UpdatedReplicas, replicas)
	}
	return ""
}
