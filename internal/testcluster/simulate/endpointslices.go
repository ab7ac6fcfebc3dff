package simulate

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// truncate leaves as many addresses as an Endpoints may have, first ready addresses, with a share for each backend,
// and reports whether there were more.
func truncate(backends []*backend) bool {
	total := func(list func(*backend) *[]any) (n int) {
		for _, b := range backends {
			n += len(*list(b))
		}
		return n
	}
	ready, waiting := func(b *backend) *[]any { return &b.ready }, func(b *backend) *[]any { return &b.waiting }
	room := capacity
	over := total(ready)+total(waiting) > capacity
	for _, list := range []func(*backend) *[]any{ready, waiting} {
		all, most := total(list), room
		for _, b := range backends {
			have := list(b)
			share := min(len(*have), room)
			if all > most {
				share = min((len(*have)*most+all-1)/all, room)
			}
			*have = (*have)[:share]
			room -= share
		}
	}
	return over
}

// keepSlices makes the slices of an owner: the slices of parts, and no other slices of the manager. The names follow
// from the owner, the IP family, which cannot change, and the number, so that no slice is created twice.
func (c *endpoints) keepSlices(ctx context.Context, r kube.Resource, owner *kube.Meta, manager string,
	parts []object, meta func() object) error {
	names := map[string]bool{}
	for i, body := range parts {
		k := kube.Key{Namespace: owner.Namespace, Name: owner.Name + "-" +
			suffix(owner.UID+fmt.Sprint(body["addressType"], i))}
		names[k.Name] = true
		m := meta()
		labels := member(m, "labels")
		labels[serviceLabel], labels[slicesManager] = owner.Name, manager
		m["generateName"], m["ownerReferences"] = owner.Name+"-", []any{controllerRef(r, owner)}
		body["metadata"] = m
		if err := c.ensure(ctx, sliceResource, c.slices, k, body); err != nil {
			return err
		}
	}
	owned, err := c.slices.ByOwner(owner.Namespace, owner.UID)
	for _, e := range owned {
		if by, _ := e.Labels.Get(slicesManager); by == manager && !names[e.Name] && err == nil {
			err = c.remove(ctx, sliceResource, e)
		}
	}
	return err
}

// ensure creates an object, or changes the fields that differ.
func (c *endpoints) ensure(ctx context.Context, r kube.Resource, mirror *cache.Store[*published], k kube.Key,
	body object) error {
	e, ok, err := mirror.Get(k)
	if err != nil {
		return err
	}
	meta := body["metadata"].(object)
	if !ok {
		meta["name"] = k.Name
		return c.create(ctx, r, k.Namespace, body)
	}
	same := len(e.Labels.Map()) == len(meta["labels"].(object))
	for key, value := range e.Labels.Map() {
		if wanted := meta["labels"].(object); wanted[key] != any(value) {
			same = false
			if _, stays := wanted[key]; !stays {
				wanted[key] = nil // which removes the label
			}
		}
	}
	annotations := member(meta, "annotations")
	if _, over := e.Annotations.Get(overCapacity); over && annotations[overCapacity] == nil {
		same, annotations[overCapacity] = false, nil
	}
	for key, value := range annotations {
		have, _ := e.Annotations.Get(key)
		same = same && (key == triggerTime || value == any(have))
	}
	for name, raw := range map[string]kube.Raw{"subsets": e.Subsets, "endpoints": e.Endpoints, "ports": e.Ports} {
		var live any
		if err := readStatus(r, e, raw, &live); err != nil {
			return err
		}
		covered, _ := patch.Covered(nil, body[name], live)
		same = same && covered
	}
	if same {
		return nil
	}
	return c.change(ctx, r, e, false, "", body)
}

// subset is a part of an Endpoints.
type subset struct {
	Addresses         []subsetAddress `json:"addresses"`
	NotReadyAddresses []subsetAddress `json:"notReadyAddresses"`
	Ports             []object        `json:"ports"`
}

type subsetAddress struct {
	IP        string `json:"ip"`
	Hostname  string `json:"hostname"`
	NodeName  string `json:"nodeName"`
	TargetRef object `json:"targetRef"`
}

// Labels of Endpoints not to be mirrored, and of mirrored slices.
const (
	skipMirror      = "endpointslice.kubernetes.io/skip-mirror"
	mirroringMarker = "endpointslicemirroring-controller.k8s.io"
)

// mirrorSubsets makes slices of the Endpoints that users write for a Service without a selector, and with a selector
// (selected) deletes such slices.
func (c *endpoints) mirrorSubsets(ctx context.Context, k kube.Key, selected bool) error {
	e, ok, err := c.whole.Get(k)
	if err != nil || !ok { // the garbage collector deletes the slices
		return err
	}
	var parts []object
	if skip, _ := e.Labels.Get(skipMirror); !selected && skip != "true" {
		if parts, err = c.mirrored(e); err != nil {
			return err
		}
	}
	return c.keepSlices(ctx, endpointsResource, &e.Meta, mirroringMarker, parts, func() object {
		labels, annotations := anyMap(e.Labels.Map()), anyMap(e.Annotations.Map())
		delete(annotations, lastApplied)
		delete(annotations, triggerTime)
		return object{"labels": labels, "annotations": annotations}
	})
}

// mirrored returns the slices of an Endpoints: a slice for each set of ports and IP family.
func (c *endpoints) mirrored(e *published) ([]object, error) {
	var subsets []subset
	if err := readStatus(endpointsResource, e, e.Subsets, &subsets); err != nil {
		return nil, err
	}
	parts := map[string]object{}
	for _, s := range subsets {
		added := map[string]int{}
		skipped := 0
		for i, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
			family := "IPv4"
			if ip, err := netip.ParseAddr(a.IP); err == nil && ip.Is6() {
				family = "IPv6"
			}
			if added[family]++; added[family] > capacity {
				skipped++
				continue
			}
			point := object{"addresses": []any{a.IP},
				"conditions": object{"ready": i < len(s.Addresses)}}
			for field, text := range map[string]string{"hostname": a.Hostname, "nodeName": a.NodeName} {
				if text != "" {
					point[field] = text
				}
			}
			if a.TargetRef != nil {
				point["targetRef"] = a.TargetRef
			}
			key := fmt.Sprint(s.Ports, family)
			if parts[key] == nil {
				parts[key] = object{"ports": s.Ports, "addressType": family}
			}
			list, _ := parts[key]["endpoints"].([]any)
			parts[key]["endpoints"] = append(list, point)
		}
		if skipped > 0 {
			c.skipped(endpointsResource, e, events.Warning, "TooManyAddressesToMirror", fmt.Sprintf("A max of %d "+
				"addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
				capacity, skipped))
		}
	}
	out := make([]object, 0, len(parts))
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, parts[key])
	}
	return out, nil
}
