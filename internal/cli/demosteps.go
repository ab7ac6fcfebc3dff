package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/examples"
	"skiff/internal/kube"
)

// object is the body of a request.
type object = map[string]any

// demoNote is an annotation that skiff knows nothing of.
const demoNote = "example.com/note"

// demoActs are the tour. In what a step shows, * stands for what differs from tour to tour.
func demoActs() []act {
	return []act{
		{"A WebServer: an image and a number of pods become a Deployment and a Service",
			webSteps()},
		{"A Redis: pods that are skiff's own, each with a name to keep",
			redisSteps()},
		{"A RestartTrigger: a proxy that remembers the addresses of Redis pods is restarted when one is replaced",
			restartSteps()},
	}
}

func webSteps() []step {
	return []step{{
		title: "Create a WebServer",
		you:   "kubectl apply -f examples/webserver.yaml     # image nginx:1.23.1, replicas 3, nodePort 30010",
		do:    apply(examples.Text("webserver.yaml")),
		now:   webLines("nginx:1.23.1", 3, "-"),
		tells: []string{"created Deployment default/web", "created Service default/web-service"},
		proof: "it became a Deployment and a Service on node port 30010, and 3 pods are ready",
	}, {
		title: "Scale it",
		you:   "kubectl scale webserver/web --replicas=5",
		do:    merge(webServers, "web", "scale", object{"spec": object{"replicas": 5}}),
		now:   webLines("nginx:1.23.1", 5, "-"),
		tells: []string{"applied Deployment default/web: spec.replicas"},
		proof: "5 pods are ready",
	}, {
		title: "Upgrade it",
		you:   `kubectl patch webserver/web --type=merge -p '{"spec":{"image":"nginx:1.25.3"}}'`,
		do:    merge(webServers, "web", "", object{"spec": object{"image": "nginx:1.25.3"}}),
		now:   webLines("nginx:1.25.3", 5, "-"),
		tells: []string{"applied Deployment default/web"},
		proof: "the pods were replaced, all 5 run nginx:1.25.3",
	}, {
		title:    "Delete its Service and its Deployment",
		you:      "kubectl delete service/web-service deployment/web",
		do:       all(remove(services, "web-service"), remove(deployments, "web")),
		now:      webLines("nginx:1.25.3", 5, "-"),
		replaced: []string{"Service/web-service", "Deployment/web", "Pod/web-"},
		tells:    []string{"created Deployment default/web", "created Service default/web-service"},
		proof:    "both are back, the Service on the same node port 30010, and 5 new pods are ready",
	}, {
		title: "Change its Deployment by hand",
		you: "kubectl set image deployment/web webserver=httpd:2; " +
			"kubectl annotate deployment/web " + demoNote + "=mine",
		do: func(ctx context.Context, c *kube.Client) error {
			containers := []any{object{"name": "webserver", "image": "httpd:2"}}
			patch := object{"metadata": object{"annotations": object{demoNote: "mine"}},
				"spec": object{"template": object{"spec": object{"containers": containers}}}}
			return c.Patch(ctx, deployments, kube.Key{Namespace: demoNamespace, Name: "web"}, kube.StrategicMergePatch,
				patch, nil, kube.WriteOptions{FieldManager: "kubectl-set"})
		},
		now:   webLines("nginx:1.25.3", 5, "mine"),
		tells: []string{"applied Deployment default/web"},
		proof: "the image is back as declared; the annotation, which is not skiff's, was left alone",
	}, {
		title: "Delete the WebServer",
		you:   "kubectl delete webserver/web",
		do:    remove(webServers, "web"),
		now:   []string{"nothing is left"},
		proof: "the Deployment, the Service and the pods went with it, by the garbage collector",
	}}
}

func redisSteps() []step {
	return []step{{
		title: "Create a Redis",
		you:   "kubectl apply -f examples/redis.yaml     # num 3, port 6379",
		do:    apply(examples.Text("redis.yaml")),
		now:   redisLines("redis:7-alpine", 3),
		tells: []string{"created Service default/cache", "created pod cache-0", "created pod cache-1",
			"created pod cache-2"},
		event: "Ready",
		proof: "it became the pods cache-0 to cache-2 behind a headless Service, and all are ready",
	}, {
		title: "Scale it down",
		you:   "kubectl scale redis/cache --replicas=2",
		do:    merge(redises, "cache", "scale", object{"spec": object{"replicas": 2}}),
		now:   redisLines("redis:7-alpine", 2),
		pods:  []string{"cache-2 gone"},
		tells: []string{"deleted pod cache-2"},
		event: "DeletePod",
		proof: "the highest number went, the others were not touched",
	}, {
		title:    "Kill a pod",
		you:      "kubectl delete pod cache-0 --wait=false",
		do:       remove(pods, "cache-0"),
		now:      redisLines("redis:7-alpine", 2),
		replaced: []string{"Pod/cache-0"},
		tells:    []string{"created pod cache-0"},
		proof:    "another pod has its name, and answers",
	}, {
		title: "Roll it to a new image",
		you:   `kubectl patch redis/cache --type=merge -p '{"spec":{"image":"redis:8-alpine"}}'`,
		do:    merge(redises, "cache", "", object{"spec": object{"image": "redis:8-alpine"}}),
		now:   redisLines("redis:8-alpine", 2),
		pods:  []string{"cache-1 gone", "cache-1 ready", "cache-0 gone", "cache-0 ready"},
		tells: []string{"deleted pod cache-1", "created pod cache-1", "deleted pod cache-0", "created pod cache-0"},
		proof: "the highest number was replaced first, the next only when it was ready: one pod served all the time",
	}}
}

func restartSteps() []step {
	return []step{{
		title: "Create the proxy and its RestartTrigger",
		you:   "sed 's/# debounce: 10s/debounce: 1s/' examples/restarttrigger.yaml | kubectl apply -f -",
		do:    apply(strings.Replace(examples.Text("restarttrigger.yaml"), "# debounce: 10s", "debounce: 1s", 1)),
		now:   append(redisLines("redis:8-alpine", 2), proxyLines("0  last for - of pod -", "-")...),
		proof: "it watches; the Redis pods that are there already are no reason to restart anything",
	}, {
		title:    "Replace a Redis pod",
		you:      "kubectl delete pod cache-0 --wait=false",
		do:       remove(pods, "cache-0"),
		now:      append(redisLines("redis:8-alpine", 2), proxyLines(restartedOnce, "20*")...),
		replaced: []string{"Pod/cache-0", "Pod/predixy-"},
		tells:    []string{"created pod cache-0", "restarted deployment/predixy: pod cache-0 replaced, new IP"},
		event:    "Restarted",
		proof:    "the pod came back at a new address, and once that was quiet, the pods of the proxy were replaced",
	}, {
		title: "Delete the Redis",
		you:   "kubectl delete redis/cache",
		do:    remove(redises, "cache"),
		now:   proxyLines(restartedOnce, "20*"),
		pods:  []string{"cache-1 gone", "cache-0 gone"},
		tells: []string{"deleted pod cache-1", "deleted pod cache-0"},
		event: "PodsDeleted",
		proof: "the pods went one by one, the highest number first; the finalizer skiff.dev/pods kept the Redis",
	}}
}

// webLines are what the tour shows of the WebServer when it is ready with so many pods of an image.
func webLines(image string, n int, note string) []string {
	return []string{
		fmt.Sprintf("webserver/web  Ready  image %s  pods ready %d of %[2]d, updated %[2]d  node port 30010",
			image, n),
		"service/web-service  node port 30010",
		fmt.Sprintf("deployment/web  ready %d  %s: %s", n, demoNote, note),
		fmt.Sprintf("%d of %[1]d pods ready, running %s", n, image),
	}
}

// redisLines are what the tour shows of the Redis when it is ready with so many pods of an image.
func redisLines(image string, n int) []string {
	lines := []string{
		fmt.Sprintf("redis/cache  Ready  port 6379  pods ready %d of %[1]d, updated %[1]d  "+
			"finalizer skiff.dev/pods", n),
		"service/cache  clusterIP None",
	}
	for i := range n {
		lines = append(lines, fmt.Sprintf("pod/cache-%d  Ready  *  uid *  %s", i, image))
	}
	return lines
}

// restartedOnce is what the trigger says after one restart.
const restartedOnce = "1  last for NewPodRunning of pod cache-0"

// proxyLines are what the tour shows of the proxy and its trigger when both are ready.
func proxyLines(restarts, at string) []string {
	return []string{"restarttrigger/predixy  Ready  restarts " + restarts,
		"deployment/predixy  ready 2 of 2  restarted at " + at, "2 of 2 pods ready, running predixy*"}
}

// all does one thing after the other.
func all(do ...func(context.Context, *kube.Client) error) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		for _, f := range do {
			if err := f(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// apply creates the objects of a YAML text.
func apply(text string) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
			var body object
			if err := d.Decode(&body); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			i := slices.IndexFunc(demoObjects, func(d demoObject) bool { return d.resource.Kind == body["kind"] })
			if i < 0 {
				return fmt.Errorf("create %v: the tour does not know this kind", body["kind"])
			}
			err := c.Create(ctx, demoObjects[i].resource, demoNamespace, body, nil, kube.WriteOptions{})
			if err != nil {
				return err
			}
		}
	}
}

// merge patches an object, or a subresource of it where that is not empty.
func merge(r kube.Resource, name, subresource string, patch object) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		return c.Patch(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, kube.MergePatch, patch, nil,
			kube.WriteOptions{Subresource: subresource})
	}
}

// remove deletes an object.
func remove(r kube.Resource, name string) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		return c.Delete(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, kube.DeleteOptions{})
	}
}
