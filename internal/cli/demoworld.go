package cli

import (
	"context"
	"fmt"
	"strings"

	"skiff/internal/kube"
)

// Where the tour takes place, and what it looks at.
const (
	demoNamespace = "default"
	demoName      = "web"
)

var (
	webServers  = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
)

type webServerView struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Image    string `json:"image"`
		Replicas int    `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		ReadyReplicas      int   `json:"readyReplicas"`
		UpdatedReplicas    int   `json:"updatedReplicas"`
		NodePort           int   `json:"nodePort"`
		Conditions         []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// ready says whether the status speaks of the present spec and says Ready.
func (w *webServerView) ready() bool {
	for _, c := range w.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True" && w.Status.ObservedGeneration == w.Generation
		}
	}
	return false
}

type deploymentView struct {
	kube.MetaAnnotated `json:"metadata"`
	Status             struct {
		ReadyReplicas int `json:"readyReplicas"`
	} `json:"status"`
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
		Phase      string `json:"phase"`
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

// world is the part of the cluster that the tour is about, as a user sees it. What is not there is nil.
type world struct {
	web        *webServerView
	deployment *deploymentView
	service    *serviceView
	pods       []*podView
}

// look reads the world from the server.
func look(ctx context.Context, c *kube.Client) (world, error) {
	var w world
	var err error
	if w.web, err = get[webServerView](ctx, c, webServers, demoName); err != nil {
		return w, err
	}
	if w.deployment, err = get[deploymentView](ctx, c, deployments, demoName); err != nil {
		return w, err
	}
	if w.service, err = get[serviceView](ctx, c, services, demoName+"-service"); err != nil {
		return w, err
	}
	list, err := kube.List[*podView](ctx, c, kube.Query{Resource: pods, Namespace: demoNamespace}, kube.ListOptions{})
	w.pods = list.Items
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

// podsWith returns how many pods are ready and run the image, and how many there are in all.
func (w world) podsWith(image string) (ready, all int) {
	for _, p := range w.pods {
		if p.ready() && len(p.Spec.Containers) > 0 && p.Spec.Containers[0].Image == image {
			ready++
		}
	}
	return ready, len(w.pods)
}

// text shows the world in a few lines, the first one behind label.
func (w world) text(label string) string {
	var lines []string
	if w.web != nil {
		ready := "not ready"
		if w.web.ready() {
			ready = "Ready"
		}
		lines = append(lines, fmt.Sprintf("webserver/%s  %s  image %s  pods ready %d of %d  node port %d",
			w.web.Name, ready, w.web.Spec.Image, w.web.Status.ReadyReplicas, w.web.Spec.Replicas, w.web.Status.NodePort))
	}
	if w.deployment != nil {
		lines = append(lines, fmt.Sprintf("deployment/%s  ready %d", w.deployment.Name, w.deployment.Status.ReadyReplicas))
	}
	if w.service != nil {
		lines = append(lines, fmt.Sprintf("service/%s  %s  node port %d", w.service.Name, w.service.Spec.ClusterIP, w.service.nodePort()))
	}
	if len(w.pods) > 0 {
		nodes := map[string]bool{}
		images := map[string]bool{}
		var names []string
		for _, p := range w.pods {
			nodes[p.Spec.NodeName] = true
			for _, c := range p.Spec.Containers {
				if !images[c.Image] {
					images[c.Image] = true
					names = append(names, c.Image)
				}
			}
		}
		lines = append(lines, fmt.Sprintf("%d pods on %d nodes, running %s", len(w.pods), len(nodes), strings.Join(names, ", ")))
	}
	if lines == nil {
		lines = []string{"nothing is left"}
	}
	return label + strings.Join(lines, "\n"+strings.Repeat(" ", len(label))) + "\n"
}
