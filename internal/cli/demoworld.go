package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"skiff/internal/cache"
	"skiff/internal/kube"
)

// demoNamespace is where the tour takes place. The names in it are those of the examples.
const demoNamespace = "default"

var (
	webServers = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	redises    = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	triggers   = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "restarttriggers",
		Kind: "RestartTrigger"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	eventsV1    = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}
)

// demoObject is an object of the tour, with the pods whose names begin with NAME-.
type demoObject struct {
	resource kube.Resource
	name     string
	line     func(o object) string
	pods     func(all []*podView) []string // nil: the pods are shown with another object
}

// demoObjects are all of them, in the order in which they are shown.
var demoObjects = []demoObject{
	{webServers, "web", line("webserver/web  %s  image %s  pods ready %s of %s, updated %s  node port %s", "ready",
		"spec image",
		"status readyReplicas", "spec replicas", "status updatedReplicas", "status nodePort"), nil},
	{services, "web-service", line("service/web-service  node port %s", "spec ports 0 nodePort"), nil},
	{deployments, "web", line("deployment/web  ready %s  "+demoNote+": %s", "status readyReplicas",
		"metadata annotations "+demoNote), podSummary},
	{redises, "cache", line("redis/cache  %s  port %s  pods ready %s of %s, updated %s  finalizer %s", "ready",
		"spec port",
		"status readyReplicas", "spec num", "status updatedReplicas", "metadata finalizers 0"), nil},
	{services, "cache", line("service/cache  clusterIP %s", "spec clusterIP"), podLines},
	{triggers, "predixy", line("restarttrigger/predixy  %s  restarts %s  last for %s of pod %s", "ready",
		"status restarts",
		"status lastRestart reason", "status lastRestart pod"), nil},
	{deployments, "predixy", line("deployment/predixy  ready %s of %s  restarted at %s", "status readyReplicas",
		"spec replicas",
		"spec template metadata annotations kubectl.kubernetes.io/restartedAt"), podSummary},
}

// line returns a function that shows the fields of an object, each a path of names; "ready" stands for what its
// conditions say.
func line(format string, fields ...string) func(o object) string {
	return func(o object) string {
		var values []any
		for _, f := range fields {
			if f == "ready" {
				values = append(values, readiness(condition("Ready")(o) == "True" &&
					at(o, "status observedGeneration") == at(o, "metadata generation")))
				continue
			}
			values = append(values, at(o, f))
		}
		return fmt.Sprintf(format, values...)
	}
}

// at returns a field as text, "-" where it is not set. 0 is the first of a list.
func at(o object, names string) string {
	var v any = o
	for name := range strings.FieldsSeq(names) {
		if list, ok := v.([]any); ok && name == "0" && len(list) > 0 {
			v = list[0]
			continue
		}
		o, _ := v.(object)
		v = o[name]
	}
	return cmp.Or(scalar(v), "-")
}

func readiness(ready bool) string {
	if ready {
		return "Ready"
	}
	return "not ready"
}

type podView struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Containers []struct {
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		PodIP      string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (p *podView) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True" && !p.Deleting()
		}
	}
	return false
}

func (p *podView) image() string {
	if len(p.Spec.Containers) == 0 {
		return ""
	}
	return p.Spec.Containers[0].Image
}

// podLines show pods one by one.
func podLines(all []*podView) (lines []string) {
	for _, p := range all {
		lines = append(lines, fmt.Sprintf("pod/%s  %s  %s  uid %.8s  %s", p.Name, readiness(p.ready()), p.Status.PodIP,
			p.UID, p.image()))
	}
	return lines
}

// podSummary shows many pods in one line.
func podSummary(all []*podView) []string {
	ready, images := 0, map[string]bool{}
	for _, p := range all {
		images[p.image()] = true
		if p.ready() {
			ready++
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d pods ready, running %s", ready, len(all),
		strings.Join(slices.Sorted(maps.Keys(images)), ", "))}
}

// world is the part of the cluster that the tour is about, as a user sees it.
type world struct {
	lines   []string             // what there is, to be shown and to be compared
	ids     map[string][2]string // by "Service/web-service" or "Pod/cache-0": the uid, and the address of a pod
	history []string             // of the pods since the tour began: "cache-2 gone", "cache-2 ready"
	events  []string
}

// look reads the world from the server.
func (t *tour) look(ctx context.Context) (world, error) {
	w := world{ids: map[string][2]string{}}
	all, err := t.pods.read(&w)
	if err != nil {
		return w, err
	}
	for _, d := range demoObjects {
		var o object
		err := t.client.Get(ctx, d.resource, kube.Key{Namespace: demoNamespace, Name: d.name}, &o)
		if err != nil && !kube.IsNotFound(err) {
			return w, err
		}
		if err == nil {
			w.lines = append(w.lines, d.line(o))
			w.ids[d.resource.Kind+"/"+d.name] = [2]string{at(o, "metadata uid")}
		}
		if d.pods != nil {
			w.lines = append(w.lines, d.pods(slices.DeleteFunc(slices.Clone(all), func(p *podView) bool {
				return !strings.HasPrefix(p.Name, d.name+"-")
			}))...)
		}
	}
	if w.lines == nil {
		w.lines = []string{"nothing is left"}
	}
	list, err := kube.List[*eventView](ctx, t.client, kube.Query{Resource: eventsV1, Namespace: demoNamespace},
		kube.ListOptions{})
	for _, e := range list.Items {
		w.events = append(w.events, fmt.Sprintf("%s/%s  %s  %s", strings.ToLower(e.Regarding.Kind), e.Regarding.Name,
			e.Reason, e.Note))
	}
	return w, err
}

// newEvents returns the Events of a reason that were not there before.
func (w world) newEvents(before world, reason string) []string {
	return slices.DeleteFunc(slices.Clone(w.events), func(e string) bool {
		return !strings.Contains(e, "  "+reason+"  ") || slices.Contains(before.events, e)
	})
}

type eventView struct {
	kube.Meta `json:"metadata"`
	Regarding struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"regarding"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
}

// podHistory follows the pods of the tour's namespace through skiff's own mirror: looks from time to time would miss
// the order of a roll.
type podHistory struct {
	store *cache.Store[*podView]
	mu    sync.Mutex // guards lines
	lines []string
}

func newPodHistory(c *kube.Client) *podHistory {
	h := &podHistory{store: cache.New[*podView](cache.Options{Resource: pods, Namespaces: []string{demoNamespace},
		Client: c})}
	h.store.OnChange(func(c cache.Change[*podView]) {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch p := c.Object(); {
		case c.Type == cache.Gone:
			h.lines = append(h.lines, p.Name+" gone")
		case p.ready() && (c.Type == cache.Appeared || !c.Old.ready()):
			h.lines = append(h.lines, p.Name+" ready")
		}
	})
	return h
}

// read returns the pods, in the order of their names, and puts what is known of them into w.
func (h *podHistory) read(w *world) ([]*podView, error) {
	all, err := h.store.List(demoNamespace)
	all = slices.SortedFunc(slices.Values(all), func(a, b *podView) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range all {
		w.ids["Pod/"+p.Name] = [2]string{p.UID, p.Status.PodIP}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w.history = slices.Clone(h.lines)
	return all, err
}

// follow keeps up with the server while work runs.
func (h *podHistory) follow(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { h.store.Run(ctx) })
	err := h.store.WaitSynced(ctx)
	if err == nil {
		err = work(ctx)
	}
	stop()
	running.Wait()
	return err
}
