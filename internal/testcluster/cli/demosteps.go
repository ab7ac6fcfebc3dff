package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"skiff/examples"
	"skiff/internal/runtime/kube"
)

// object is the body of a request.
type object = map[string]any

// demoNote is an annotation that skiff knows nothing of.
const demoNote = "example.com/note"

// step is one station of the tour. It is done when a snapshot has all that it names; * stands there for what
// differs from tour to tour.
type step struct {
	part  string // title of the part of the tour that begins here
	title string
	you   string // what the user does, as they would type it
	do    action
	now   []string // what there is, all of it, in any order
	// replaced begins the names of the objects that are others than before: "pod/web-" for all pods of web. The rest
	// of what was there before and still is must be the same objects.
	replaced []string
	event    string // reason of a new Event; "" for none
	proof    string // what is shown by that
	look     string // what of the live page is worth a look then; "": nothing
}

// missing returns what a step still lacks, "" if it is done.
func (s *step) missing(before, now snapshot) string {
	if !matches(now.lines, s.now) {
		return fmt.Sprintf("there is\n%s\nwant\n%s", strings.Join(now.lines, "\n"), strings.Join(s.now, "\n"))
	}
	for name, old := range before.ids {
		id, there := now.ids[name]
		replaced := slices.ContainsFunc(s.replaced, func(begin string) bool { return strings.HasPrefix(name, begin) })
		switch {
		case there && replaced && id == old:
			return name + " has not been replaced"
		case there && !replaced && id != old:
			return name + " has been replaced"
		}
	}
	if s.event != "" && len(now.newEvents(before, s.event)) == 0 {
		return "there is no Event " + s.event
	}
	return ""
}

// matches reports whether each line has a pattern of its own, and each pattern a line.
func matches(lines, patterns []string) bool {
	rest := slices.Clone(lines)
	for _, pattern := range patterns {
		i := slices.IndexFunc(rest, func(line string) bool { return like(line, pattern) })
		if i < 0 {
			return false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return len(rest) == 0
}

// like compares text with a pattern, in which * stands for anything within a line.
func like(text, pattern string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + "$").MatchString(text)
}

// demoSteps are the tour.
func demoSteps() []step { return slices.Concat(webSteps(), redisSteps(), restartSteps()) }

func webSteps() []step {
	return []step{{
		part:  "A WebServer: an image and a number of pods become a Deployment and a Service",
		title: "Create a WebServer",
		you:   "kubectl apply -f examples/webserver.yaml     # image nginx:1.23.1, replicas 3, nodePort 30010",
		do:    apply(examples.Text("webserver.yaml")),
		now:   webLines("nginx:1.23.1", 3, "-"),
		proof: "it became a Deployment and a Service on node port 30010, and 3 pods are ready",
		look:  "object/WebServer/default/web",
	}, {
		title: "Scale it",
		you:   "kubectl scale webserver/web --replicas=5",
		do:    merge(webServers, "web", "scale", object{"spec": object{"replicas": 5}}),
		now:   webLines("nginx:1.23.1", 5, "-"),
		proof: "5 pods are ready",
	}, {
		title: "Upgrade it",
		you:   `kubectl patch webserver/web --type=merge -p '{"spec":{"image":"nginx:1.25.3"}}'`,
		do:    merge(webServers, "web", "", object{"spec": object{"image": "nginx:1.25.3"}}),
		now:   webLines("nginx:1.25.3", 5, "-"),
		proof: "the pods were replaced, all 5 run nginx:1.25.3",
	}, {
		title:    "Delete its Service and its Deployment",
		you:      "kubectl delete service/web-service deployment/web",
		do:       all(remove(services, "web-service"), remove(deployments, "web")),
		now:      webLines("nginx:1.25.3", 5, "-"),
		replaced: []string{"service/web-service", "deployment/web", "pod/web-"},
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
		part:  "A Redis: pods that are skiff's own, each with a name to keep",
		title: "Create a Redis",
		you:   "kubectl apply -f examples/redis.yaml     # num 3, port 6379",
		do:    apply(examples.Text("redis.yaml")),
		now:   redisLines("redis:7-alpine", 3),
		event: "Ready",
		proof: "it became the pods cache-0 to cache-2 behind a headless Service, and all are ready",
	}, {
		title: "Scale it down",
		you:   "kubectl scale redis/cache --replicas=2",
		do:    merge(redises, "cache", "scale", object{"spec": object{"replicas": 2}}),
		now:   redisLines("redis:7-alpine", 2),
		event: "DeletePod",
		proof: "the highest number went, the others were not touched",
	}, {
		title:    "Kill a pod",
		you:      "kubectl delete pod cache-0 --wait=false",
		do:       remove(pods, "cache-0"),
		now:      redisLines("redis:7-alpine", 2),
		replaced: []string{"pod/cache-0"},
		proof:    "another pod has its name, and answers",
	}, {
		title:    "Roll it to a new image",
		you:      `kubectl patch redis/cache --type=merge -p '{"spec":{"image":"redis:8-alpine"}}'`,
		do:       merge(redises, "cache", "", object{"spec": object{"image": "redis:8-alpine"}}),
		now:      redisLines("redis:8-alpine", 2),
		replaced: []string{"pod/cache-"},
		proof:    "the highest number was replaced first, the next when it was ready",
		look:     "object/Redis/default/cache",
	}}
}

func restartSteps() []step {
	return []step{{
		part:  "A RestartTrigger: a proxy that remembers addresses of Redis pods is restarted when one is replaced",
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
		replaced: []string{"pod/cache-0", "pod/predixy-"},
		event:    "Restarted",
		proof:    "the pod came back at a new address, and once that was quiet, the pods of the proxy were replaced",
		look:     "object/RestartTrigger/default/predixy",
	}, {
		title: "Delete the Redis",
		you:   "kubectl delete redis/cache",
		do:    remove(redises, "cache"),
		now:   proxyLines(restartedOnce, "20*"),
		event: "PodsDeleted",
		proof: "the pods went one by one, the highest number first; the finalizer skiff.dev/pods kept the Redis",
	}}
}

// webLines are what the tour shows of the WebServer when it is ready with so many pods of an image.
func webLines(image string, n int, note string) []string {
	return append([]string{
		fmt.Sprintf("webserver/web  Ready  image %s  pods ready %d of %[2]d, updated %[2]d  node port 30010",
			image, n),
		"service/web-service  cluster IP *  node port 30010",
		fmt.Sprintf("deployment/web  image %s  ready %d of %[2]d  %s: %s  restarted at -", image, n, demoNote, note),
	}, slices.Repeat([]string{"pod/web-*  Ready  *  " + image}, n)...)
}

// redisLines are what the tour shows of the Redis when it is ready with so many pods of an image.
func redisLines(image string, n int) []string {
	lines := []string{
		fmt.Sprintf("redis/cache  Ready  port 6379  pods ready %d of %[1]d, updated %[1]d  "+
			"finalizer skiff.dev/pods", n),
		"service/cache  cluster IP None  node port -",
	}
	for i := range n {
		lines = append(lines, fmt.Sprintf("pod/cache-%d  Ready  *  %s", i, image))
	}
	return lines
}

// restartedOnce is what the trigger says after one restart.
const restartedOnce = "1  last for NewPodRunning of pod cache-0"

// proxyLines are what the tour shows of the proxy and its trigger when both are ready.
func proxyLines(restarts, at string) []string {
	return []string{"restarttrigger/predixy  Ready  restarts " + restarts,
		"deployment/predixy  image predixy  ready 2 of 2  " + demoNote + ": -  restarted at " + at,
		"pod/predixy-*  Ready  *  predixy", "pod/predixy-*  Ready  *  predixy"}
}

// action is what a user does.
type action func(ctx context.Context, c *kube.Client) error

// all does one thing after the other.
func all(actions ...action) action {
	return func(ctx context.Context, c *kube.Client) error {
		for _, do := range actions {
			if err := do(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// apply applies the objects of a YAML text.
func apply(text string) action {
	return func(ctx context.Context, c *kube.Client) error {
		objects, err := parseManifests("the example", []byte(text))
		if err != nil {
			return err
		}
		return loadManifests(ctx, c, objects)
	}
}

// merge patches an object, or a subresource of it where that is not empty.
func merge(r kube.Resource, name, subresource string, patch object) action {
	return func(ctx context.Context, c *kube.Client) error {
		return c.Patch(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, kube.MergePatch, patch, nil,
			kube.WriteOptions{Subresource: subresource})
	}
}

// remove deletes an object.
func remove(r kube.Resource, name string) action {
	return func(ctx context.Context, c *kube.Client) error {
		return c.Delete(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, kube.DeleteOptions{})
	}
}
