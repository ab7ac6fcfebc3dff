package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// slicesOf returns what each slice of a Service is: the addresses with their zones and the ports.
func (b *bench) slicesOf(service string) (out []string) {
	for _, e := range b.api.List(sliceResource, "default") {
		if str(e, "metadata", "labels", serviceLabel) != service {
			continue
		}
		var points []string
		list, _ := at(e, "endpoints").([]any)
		for _, p := range list {
			points = append(points, fmt.Sprintf("%s %v %s", str(p, "addresses", 0), at(p, "conditions", "ready"),
				str(p, "zone")))
		}
		out = append(out, fmt.Sprintf("%s %s %s %v %q", str(e, "metadata", "labels", slicesManager),
			str(e, "metadata", "ownerReferences", 0, "kind"), str(e, "addressType"),
			number(e, "ports", 0, "port"), points))
	}
	slices.Sort(out)
	return out
}

func (b *bench) wantSlices(when, service string, want ...string) {
	b.Helper()
	b.rest(2 * time.Second)
	if have := b.slicesOf(service); !slices.Equal(have, want) {
		b.Errorf("%s the slices are\n%q, want\n%q", when, have, want)
	}
}

// The same was seen of kube-controller-manager 1.36 (internal/tools/e2e, storageLines).
func TestSlicesMirrorTheEndpointsThatOthersWrite(t *testing.T) {
	const mirrored, selected = mirroringMarker + " Endpoints ", sliceController + " Service "
	simulated(t, func(b *bench) {
		b.create(serviceResource, "default", map[string]any{"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"name": "hand"}, "spec": map[string]any{"ports": []any{
				map[string]any{"port": 80}}}})
		address := func(ips ...string) (out []any) {
			for _, ip := range ips {
				out = append(out, map[string]any{"ip": ip})
			}
			return out
		}
		port := func(n int) []any { return []any{map[string]any{"port": n}} }
		subsets := []any{
			map[string]any{"addresses": address("192.0.2.7"), "notReadyAddresses": address("192.0.2.8"),
				"ports": port(1)},
			map[string]any{"addresses": address("192.0.2.7", "2001:db8::1"), "ports": port(2)}}
		for _, name := range []string{"hand", "no-service"} {
			b.create(endpointsResource, "default", map[string]any{"apiVersion": "v1", "kind": "Endpoints",
				"metadata": map[string]any{"name": name, "labels": map[string]any{"a": "b"}}, "subsets": subsets})
		}
		all := []string{mirrored + `IPv4 1 ["192.0.2.7 true " "192.0.2.8 false "]`,
			mirrored + `IPv4 2 ["192.0.2.7 true "]`, mirrored + `IPv6 2 ["2001:db8::1 true "]`}
		b.wantSlices("mirrored:", "hand", all...)
		b.wantSlices("without a Service:", "no-service")
		b.patch(endpointsResource, "hand", map[string]any{"subsets": subsets[:1]})
		b.wantSlices("with fewer subsets:", "hand", all[0])
		b.patch(endpointsResource, "hand", map[string]any{"subsets": []any{map[string]any{
			"addresses": address("2001:db8::1"), "ports": port(2)}}})
		b.wantSlices("of another IP family:", "hand", all[2])
		b.patch(endpointsResource, "hand", map[string]any{"subsets": subsets[:1]})
		b.patch(endpointsResource, "hand", map[string]any{"metadata": map[string]any{"labels": map[string]any{
			skipMirror: "true"}}})
		b.wantSlices("not to be mirrored:", "hand")
		b.patch(endpointsResource, "hand", map[string]any{"metadata": map[string]any{"labels": map[string]any{
			skipMirror: nil}}})
		b.wantSlices("to be mirrored again:", "hand", all[0])
		var many []string
		for i := range capacity + 100 {
			many = append(many, fmt.Sprintf("192.0.%d.%d", 3+i/250, i%250+1))
		}
		b.patch(endpointsResource, "hand", map[string]any{"subsets": []any{map[string]any{
			"addresses": address(many...), "ports": port(1)}}})
		b.rest(2 * time.Second)
		if n := len(at(b.slice("hand"), "endpoints").([]any)); n != capacity ||
			!slices.Equal(b.reasons("Endpoints", "hand"), []string{"TooManyAddressesToMirror"}) {
			b.Errorf("of many addresses %d are mirrored, the Events are %q", n, b.reasons("Endpoints", "hand"))
		}
		b.patch(serviceResource, "hand", map[string]any{"spec": map[string]any{"selector": map[string]any{"x": "y"}}})
		b.wantSlices("with a selector:", "hand", selected+"IPv4 0 []")
		b.delete(serviceResource, "hand", kube.Background)
		b.wantSlices("without a Service:", "hand")
		b.wantNames(endpointsResource, "kubernetes", "no-service")
	})
}

func TestSlicesThatOthersMakeForAServiceStay(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(serviceResource, "default", serviceBody("web", map[string]any{"ports": []any{
			map[string]any{"port": 80}}}))
		var s kube.Meta
		owner := b.get(serviceResource, "web")
		s.Name, s.UID = "web", str(owner, "metadata", "uid")
		b.create(sliceResource, "default", map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata": map[string]any{"name": "mine", "ownerReferences": []any{controllerRef(serviceResource, &s)},
				"labels": map[string]any{serviceLabel: "web", slicesManager: "operator"}},
			"addressType": "IPv4", "endpoints": []any{}, "ports": []any{}})
		b.wantSlices("beside the simulated ones", "web", sliceController+" Service IPv4 0 []",
			"operator Service IPv4 0 []")
	})
}

func TestSlicesTellTheZonesOfNodes(t *testing.T) {
	simulatedWith(t, Options{Nodes: []string{"n"}}, func(b *bench) {
		b.create(serviceResource, "default", serviceBody("web", map[string]any{"ports": []any{
			map[string]any{"port": 80}}}))
		pod := podTemplate("web", "web:1")
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		pod["metadata"].(map[string]any)["name"] = "p"
		b.create(podResource, "default", pod)
		b.wantSlices("at first", "web", sliceController+` Service IPv4 80 ["10.128.0.1 true "]`)
		zone := map[string]any{"metadata": map[string]any{"labels": map[string]any{zoneLabel: "z1"}}}
		if err := b.client.Patch(b.Context(), nodeResource, kube.Key{Name: "n"}, kube.MergePatch, zone, nil,
			kube.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.wantSlices("with a zone", "web", sliceController+` Service IPv4 80 ["10.128.0.1 true z1"]`)
	})
}

func TestEndpointsHaveAThousandAddressesAndSlicesAHundred(t *testing.T) {
	others := slices.DeleteFunc(Parts(), func(p Part) bool { return p == Endpoints })
	simulatedWith(t, Options{Without: others}, func(b *bench) {
		pod := podTemplate("web", "web:1")
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		for i := range capacity + 5 {
			name := fmt.Sprintf("p%04d", i)
			pod["metadata"].(map[string]any)["name"] = name
			b.create(podResource, "default", pod)
			ready := map[bool]string{true: "True", false: "False"}[i%2 == 0]
			if err := b.client.Patch(b.Context(), podResource, kube.Key{Namespace: "default", Name: name},
				kube.MergePatch, map[string]any{"status": map[string]any{"phase": "Running",
					"podIP":      fmt.Sprintf("10.0.%d.%d", i/250, i%250),
					"conditions": []any{map[string]any{"type": "Ready", "status": ready}}}}, nil,
				kube.WriteOptions{Subresource: "status"}); err != nil {
				b.Fatal(err)
			}
		}
		b.create(serviceResource, "default", serviceBody("web", map[string]any{"ports": []any{
			map[string]any{"port": 80}}}))
		b.rest(time.Second)
		e := b.get(endpointsResource, "web")
		ready, _ := at(e, "subsets", 0, "addresses").([]any)
		waiting, _ := at(e, "subsets", 0, "notReadyAddresses").([]any)
		if str(e, "metadata", "annotations", overCapacity) != "truncated" || len(ready) != 503 || len(waiting) != 497 {
			b.Errorf("of %d ready pods and %d others are %d and %d in the Endpoints, with %v", 503, 502, len(ready),
				len(waiting), at(e, "metadata", "annotations"))
		}
		var sizes []int
		for _, s := range b.api.List(sliceResource, "default") {
			if list, _ := at(s, "endpoints").([]any); str(s, "metadata", "labels", serviceLabel) == "web" {
				sizes = append(sizes, len(list))
			}
		}
		slices.Sort(sizes)
		if len(sizes) != 11 || sizes[0] != 5 || sizes[1] != sliceSize {
			b.Errorf("the slices have %v endpoints", sizes)
		}
		for i := range 5 {
			b.delete(podResource, fmt.Sprintf("p%04d", i), kube.Background)
		}
		b.rest(time.Second)
		if e := b.get(endpointsResource, "web"); str(e, "metadata", "annotations", overCapacity) != "" {
			b.Error("the annotation stays when all addresses have room")
		}
	})
}

func TestEachBackendKeepsItsShareOfTheAddresses(t *testing.T) {
	a, z := &backend{ready: make([]any, 900), waiting: make([]any, 1)}, &backend{ready: make([]any, 300)}
	if !truncate([]*backend{a, z}) || len(a.ready) != 750 || len(z.ready) != 250 || len(a.waiting) != 0 {
		t.Errorf("of 900 and 300 ready addresses %d and %d stay", len(a.ready), len(z.ready))
	}
	a, z = &backend{ready: make([]any, 600), waiting: make([]any, 400)}, &backend{ready: make([]any, 200)}
	if !truncate([]*backend{a, z}) || len(a.ready) != 600 || len(a.waiting) != 200 || len(z.ready) != 200 {
		t.Errorf("of 400 addresses that are not ready %d stay, want 200", len(a.waiting))
	}
}
