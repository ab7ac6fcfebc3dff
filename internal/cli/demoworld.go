package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/kube"
)

// Where the tour takes place, and what it is about. The names are those of the examples.
const (
	demoNamespace = "default"
	demoWeb       = "web"
	demoRedis     = "cache"
	demoProxy     = "predixy" // the RestartTrigger and its target
)

var (
	webServers  = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	redises     = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	triggers    = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "restarttriggers", Kind: "RestartTrigger"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	eventsV1    = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}
)

// conditionView is one condition of a status.
type conditionView struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// isTrue says whether there is such a condition, and it is True.
func isTrue(list []conditionView, conditionType string) bool {
	return slices.Contains(list, conditionView{conditionType, "True"})
}

type webServerView struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Image    string `json:"image"`
		Replicas int    `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64           `json:"observedGeneration"`
		ReadyReplicas      int             `json:"readyReplicas"`
		UpdatedReplicas    int             `json:"updatedReplicas"`
		NodePort           int             `json:"nodePort"`
		Conditions         []conditionView `json:"conditions"`
	} `json:"status"`
}

// ready says whether the status speaks of the present spec and says Ready; so do the others.
func (w *webServerView) ready() bool {
	return isTrue(w.Status.Conditions, "Ready") && w.Status.ObservedGeneration == w.Generation
}

type redisView struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Num   int    `json:"num"`
		Port  int    `json:"port"`
		Image string `json:"image"` // "" is a default of skiff's
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64           `json:"observedGeneration"`
		Replicas           int             `json:"replicas"`
		ReadyReplicas      int             `json:"readyReplicas"`
		UpdatedReplicas    int             `json:"updatedReplicas"`
		Conditions         []conditionView `json:"conditions"`
	} `json:"status"`
}

func (r *redisView) ready() bool {
	return isTrue(r.Status.Conditions, "Ready") && r.Status.ObservedGeneration == r.Generation
}

type triggerView struct {
	kube.Meta `json:"metadata"`
	Status    struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Restarts           int   `json:"restarts"`
		LastRestart        struct {
			Reason string `json:"reason"`
			Pod    string `json:"pod"`
		} `json:"lastRestart"`
		Conditions []conditionView `json:"conditions"`
	} `json:"status"`
}

func (r *triggerView) ready() bool {
	return isTrue(r.Status.Conditions, "Ready") && r.Status.ObservedGeneration == r.Generation
}

type deploymentView struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               struct {
		Replicas int `json:"replicas"`
		Template struct {
			Metadata struct {
				Annotations kube.Labels `json:"annotations"`
			} `json:"metadata"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		ReadyReplicas int `json:"readyReplicas"`
	} `json:"status"`
}

// restartedAt is what `kubectl rollout restart` and a RestartTrigger set, "" before the first time.
func (d *deploymentView) restartedAt() string {
	at, _ := d.Spec.Template.Metadata.Annotations.Get("kubectl.kubernetes.io/restartedAt")
	return at
}

type serviceView struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		ClusterIP string `json:"clusterIP"`
		Ports     []struct {
			NodePort int `json:"nodePort"`
		} `json:"ports"`
	} `json:"spec"`
}

func (s *serviceView) nodePort() int {
	if s == nil || len(s.Spec.Ports) == 0 {
		return 0
	}
	return s.Spec.Ports[0].NodePort
}

type podView struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		PodIP      string          `json:"podIP"`
		Conditions []conditionView `json:"conditions"`
	} `json:"status"`
}

func (p *podView) ready() bool { return isTrue(p.Status.Conditions, "Ready") && !p.Deleting() }

// image is that of the first container.
func (p *podView) image() string {
	if len(p.Spec.Containers) == 0 {
		return ""
	}
	return p.Spec.Containers[0].Image
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

// world is the part of the cluster that the tour is about, as a user sees it. What is not there is nil.
type world struct {
	web           *webServerView
	webDeployment *deploymentView
	webService    *serviceView
	redis         *redisView
	redisService  *serviceView
	trigger       *triggerView
	proxy         *deploymentView
	pods          []*podView
	history       []string // of the pods, since the tour began: see podHistory
	events        []*eventView
}

// look reads the world from the server.
func (t *tour) look(ctx context.Context) (w world, err error) {
	read := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	read(func() (err error) { w.web, err = get[webServerView](ctx, t.client, webServers, demoWeb); return })
	read(func() (err error) {
		w.webDeployment, err = get[deploymentView](ctx, t.client, deployments, demoWeb)
		return
	})
	read(func() (err error) {
		w.webService, err = get[serviceView](ctx, t.client, services, demoWeb+"-service")
		return
	})
	read(func() (err error) { w.redis, err = get[redisView](ctx, t.client, redises, demoRedis); return })
	read(func() (err error) { w.redisService, err = get[serviceView](ctx, t.client, services, demoRedis); return })
	read(func() (err error) { w.trigger, err = get[triggerView](ctx, t.client, triggers, demoProxy); return })
	read(func() (err error) { w.proxy, err = get[deploymentView](ctx, t.client, deployments, demoProxy); return })
	read(func() error {
		list, err := kube.List[*eventView](ctx, t.client, kube.Query{Resource: eventsV1, Namespace: demoNamespace}, kube.ListOptions{})
		w.events = list.Items
		return err
	})
	w.pods, w.history = t.pods.read()
	return w, err
}

// get reads one object, nil where there is none.
func get[V any](ctx context.Context, c *kube.Client, r kube.Resource, name string) (*V, error) {
	v := new(V)
	err := c.Get(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, v)
	if kube.IsNotFound(err) {
		return nil, nil
	}
	return v, err
}

// podsOf returns the pods whose names begin with NAME-.
func (w world) podsOf(name string) []*podView {
	var out []*podView
	for _, p := range w.pods {
		if strings.HasPrefix(p.Name, name+"-") {
			out = append(out, p)
		}
	}
	return out
}

// pod returns one pod, nil where there is none.
func (w world) pod(name string) *podView {
	for _, p := range w.pods {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// podsReady says how many pods of a name are ready and run an image ("": any), and how many there are in all.
func (w world) podsReady(name, image string) (ready, all int) {
	for _, p := range w.podsOf(name) {
		all++
		if p.ready() && (image == "" || p.image() == image) {
			ready++
		}
	}
	return ready, all
}

// since returns what has happened to the pods of a name since before.
func (w world) since(before world, name string) []string {
	var out []string
	for _, line := range w.history[min(len(before.history), len(w.history)):] {
		if strings.HasPrefix(line, name+"-") {
			out = append(out, line)
		}
	}
	return out
}

// newEvents returns the Events of a reason that were not there before, as text.
func (w world) newEvents(before world, reason string) []string {
	var out []string
	for _, e := range w.events {
		old := slices.ContainsFunc(before.events, func(b *eventView) bool { return b.UID == e.UID })
		if e.Reason == reason && !old {
			out = append(out, fmt.Sprintf("%s/%s  %s  %s", strings.ToLower(e.Regarding.Kind), e.Regarding.Name, e.Reason, e.Note))
		}
	}
	return out
}
