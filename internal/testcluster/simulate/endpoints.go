package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// service is the part of a Service that endpoints are made from.
type service struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Type                     string            `json:"type"`
		ClusterIP                string            `json:"clusterIP"`
		Selector                 map[string]string `json:"selector"`
		PublishNotReadyAddresses bool              `json:"publishNotReadyAddresses"`
		Ports                    []servicePort     `json:"ports"`
	} `json:"spec"`
}

type servicePort struct {
	Name        string   `json:"name"`
	Protocol    string   `json:"protocol"`
	AppProtocol string   `json:"appProtocol"`
	TargetPort  kube.Raw `json:"targetPort"` // a number, or the name of a container's port
}

func (s *service) selects(p *setPod) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != "ExternalName" && include(p.Labels, s.Spec.Selector)
}

// published is an Endpoints or an EndpointSlice; each kind has some of the fields.
type published struct {
	kube.MetaAnnotated `json:"metadata"`
	Subsets            kube.Raw `json:"subsets"`
	Endpoints          kube.Raw `json:"endpoints"`
	Ports              kube.Raw `json:"ports"`
}

const (
	serviceLabel  = "kubernetes.io/service-name"
	headlessLabel = "service.kubernetes.io/headless"
	// labels of objects of the real controllers
	slicesManager, sliceController        = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
	endpointsManager, endpointsController = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
	triggerTime                           = "endpoints.kubernetes.io/last-change-trigger-time"
	overCapacity                          = "endpoints.kubernetes.io/over-capacity"
	zoneLabel                             = "topology.kubernetes.io/zone"
	sliceSize                             = 100  // endpoints in a slice at most
	capacity                              = 1000 // addresses in an Endpoints at most
)

// endpoints is the controller of both Endpoints and EndpointSlices. A key is a Service.
type endpoints struct {
	controllerOf[*service]
	pods    *cache.Store[*setPod]
	nodes   *cache.Store[*node]
	whole   *cache.Store[*published] // Endpoints
	slices  *cache.Store[*published]
	skipped recordFunc
	known   sync.Map // keys of existing Services: the Endpoints are deleted with the Service, also Endpoints of users
}

func newEndpoints(s *shared) runner {
	c := &endpoints{controllerOf: newController[*service](s, serviceResource, ""),
		pods: mirrorOf[*setPod](s, podResource), nodes: mirrorOf[*node](s, nodeResource),
		whole: mirrorOf[*published](s, endpointsResource), slices: mirrorOf[*published](s, sliceResource),
		skipped: s.recorder("endpoint-slice-mirroring-controller")}
	c.gone = c.removeWhole
	return c.forEach("endpoints", c.sync, controller.Watches(c.pods, selecting(c.mirror)),
		controller.Watches(c.nodes, func(*node) []kube.Key { return everyKey(c.mirror) }),
		controller.Watches(c.whole, func(e *published) []kube.Key { return []kube.Key{e.Key()} }),
		controller.Owns(c.slices, serviceResource.Kind), controller.Owns(c.slices, endpointsResource.Kind))
}

// backend has the endpoints of pods with the same ports.
type backend struct {
	ports                []any
	ready, waiting, each []any // addresses of Endpoints, and endpoints of slices
}

// backends groups the pods of a Service on nodes by ports, and returns when the last pod became ready. A new pod comes
// last, to change a single slice.
func (s *service) backends(pods []*setPod, nodeOf func(*setPod) *node) (backends map[string]*backend,
	since time.Time) {
	slices.SortFunc(pods, func(a, b *setPod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp), strings.Compare(a.Name, b.Name))
	})
	since, backends = s.CreationTimestamp, map[string]*backend{}
	for _, p := range pods {
		if !s.selects(p) || p.ended() || p.Status.PodIP == "" || p.Spec.NodeName == "" {
			continue
		}
		if at, ok := p.readySince(); ok && at.After(since) {
			since = at
		}
		ports := s.portsOf(p)
		b := backends[fmt.Sprint(ports)]
		if b == nil {
			b = &backend{ports: ports}
			backends[fmt.Sprint(ports)] = b
		}
		b.add(s, p, nodeOf(p))
	}
	return backends, since
}

func (c *endpoints) sync(ctx context.Context, s *service) (time.Duration, error) {
	k := s.Key()
	c.known.Store(k, true)
	switch {
	case k == apiService:
		return 0, c.publishAPI(ctx)
	case s.Deleting() || s.Spec.Type == "ExternalName":
		return 0, nil
	case len(s.Spec.Selector) == 0: // the Endpoints are written by users
		return 0, c.mirrorSubsets(ctx, k, false)
	}
	if err := c.publish(ctx, s); err != nil {
		return 0, err
	}
	return 0, c.mirrorSubsets(ctx, k, true)
}

// removeWhole deletes the Endpoints of a Service that is gone, even if the mirror does not have the Endpoints yet. The
// garbage collector deletes the slices.
func (c *endpoints) removeWhole(ctx context.Context, k kube.Key) error {
	if _, was := c.known.Load(k); !was {
		return nil
	}
	err := c.client.Delete(ctx, endpointsResource, k, kube.DeleteOptions{Propagation: kube.Background})
	if err != nil && !kube.IsNotFound(err) {
		return err
	}
	c.known.Delete(k)
	return nil
}

// publish writes the Endpoints and the slices of a Service that selects pods.
func (c *endpoints) publish(ctx context.Context, s *service) error {
	pods, err := c.pods.List(s.Namespace)
	if err != nil {
		return err
	}
	backends, since := s.backends(pods, func(p *setPod) *node {
		n, ok, err := c.nodes.Get(kube.Key{Name: p.Spec.NodeName})
		if !ok || err != nil {
			return nil // the event may come later
		}
		return n
	})
	meta := func(key, value string) object {
		labels := anyMap(s.Labels.Map())
		if labels[key] = value; s.Spec.ClusterIP == "None" {
			labels[headlessLabel] = ""
		}
		return object{"labels": labels, "annotations": object{triggerTime: wireTime(since)}}
	}
	var subsets []any
	var parts []object
	var all []*backend
	for _, key := range slices.Sorted(maps.Keys(backends)) {
		b := backends[key]
		if len(b.ports) > 0 || s.Spec.ClusterIP == "None" {
			all = append(all, b)
		}
		for chunk := range slices.Chunk(b.each, sliceSize) {
			parts = append(parts, object{"ports": b.ports, "endpoints": chunk, "addressType": "IPv4"})
		}
	}
	whole := object{"metadata": meta(endpointsManager, endpointsController)}
	if truncate(all) {
		member(member(whole, "metadata"), "annotations")[overCapacity] = "truncated"
	}
	for _, b := range all {
		if len(b.ready)+len(b.waiting) > 0 {
			subsets = append(subsets, object{"addresses": b.ready, "notReadyAddresses": b.waiting, "ports": b.ports})
		}
	}
	if len(parts) == 0 {
		parts = []object{{"ports": []any{}, "endpoints": []any{}, "addressType": "IPv4"}}
	}
	whole["subsets"] = subsets
	if err := c.ensure(ctx, endpointsResource, c.whole, s.Key(), whole); err != nil {
		return err
	}
	return c.keepSlices(ctx, serviceResource, &s.Meta, sliceController, parts, func() object {
		return meta(slicesManager, sliceController)
	})
}

// apiService is the Service of the API server, which writes its own endpoints on a real cluster.
var apiService = kube.Key{Namespace: "default", Name: "kubernetes"}

// publishAPI creates the endpoints of the API server, with an address for documentation (RFC 5737): loopback addresses
// are not allowed there.
func (c *endpoints) publishAPI(ctx context.Context) error {
	const address = "192.0.2.250"
	ports := []any{object{"name": "https", "port": int64(6443), "protocol": "TCP"}}
	err := c.create(ctx, endpointsResource, apiService.Namespace, object{"metadata": object{"name": apiService.Name,
		"labels": object{"endpointslice.kubernetes.io/skip-mirror": "true"}},
		"subsets": []any{object{"addresses": []any{object{"ip": address}}, "ports": ports}}})
	if err != nil {
		return err
	}
	return c.create(ctx, sliceResource, apiService.Namespace, object{"metadata": object{"name": apiService.Name,
		"labels": object{serviceLabel: apiService.Name}}, "addressType": "IPv4", "ports": ports,
		"endpoints": []any{object{"addresses": []any{address}, "conditions": object{"ready": true}}}})
}

// portsOf returns the ports of the endpoints of a pod; ports whose names no container has are left out.
func (s *service) portsOf(p *setPod) []any {
	out := []any{}
	for _, port := range s.Spec.Ports {
		number, err := strconv.Atoi(string(port.TargetPort))
		if name := strings.Trim(string(port.TargetPort), `"`); err != nil {
			number = p.port(name, port.Protocol)
		}
		if number == 0 {
			continue
		}
		e := object{"port": int64(number), "protocol": port.Protocol}
		for field, text := range map[string]string{"name": port.Name, "appProtocol": port.AppProtocol} {
			if text != "" {
				e[field] = text
			}
		}
		out = append(out, e)
	}
	return out
}

// add adds a pod on a node; nil: there is no such node, and slices have no endpoints there.
func (b *backend) add(s *service, p *setPod, on *node) {
	ref := object{"kind": podResource.Kind, "namespace": p.Namespace, "name": p.Name, "uid": p.UID}
	common := object{"targetRef": ref, "nodeName": p.Spec.NodeName}
	if p.Spec.Hostname != "" && p.Spec.Subdomain == s.Name {
		common["hostname"] = p.Spec.Hostname
	}
	ready, publish := p.ready(), s.Spec.PublishNotReadyAddresses
	if on != nil || publish {
		e := maps.Clone(common)
		if on != nil {
			if zone, ok := on.Labels.Get(zoneLabel); ok {
				e["zone"] = zone
			}
		}
		e["addresses"] = []any{p.Status.PodIP}
		e["conditions"] = object{"ready": publish || ready && !p.Deleting(), "serving": ready,
			"terminating": p.Deleting()}
		b.each = append(b.each, e)
	}
	if p.Deleting() && !publish {
		return
	}
	if common["ip"] = p.Status.PodIP; ready || publish {
		b.ready = append(b.ready, common)
	} else {
		b.waiting = append(b.waiting, common)
	}
}
