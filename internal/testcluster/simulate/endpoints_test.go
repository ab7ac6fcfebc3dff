package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func serviceBody(name string, spec map[string]any) map[string]any {
	spec["selector"] = map[string]any{"app": "web"}
	return map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name,
		"labels": map[string]any{"team": "a"}}, "spec": spec}
}

// slice returns the only slice of a Service.
func (b *bench) slice(service string) map[string]any {
	b.Helper()
	var out []map[string]any
	for _, e := range b.api.List(sliceResource, "default") {
		if str(e, "metadata", "labels", serviceLabel) == service {
			out = append(out, e)
		}
	}
	if len(out) != 1 {
		b.Fatalf("service %s has %d slices, want 1: %v", service, len(out), out)
	}
	return out[0]
}

// addresses are the addresses of an Endpoints, those that are not ready in parentheses.
func (b *bench) addresses(service string) (out []string) {
	subset := at(b.get(endpointsResource, service), "subsets", 0)
	for _, list := range []string{"addresses", "notReadyAddresses"} {
		addresses, _ := at(subset, list).([]any)
		for _, a := range addresses {
			name := str(a, "targetRef", "name")
			if list == "notReadyAddresses" {
				name = "(" + name + ")"
			}
			out = append(out, name)
		}
	}
	return out
}

func TestEndpointsFollowTheReadinessOfPods(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(serviceResource, "default", serviceBody("web", map[string]any{"ports": []any{
			map[string]any{"name": "http", "port": 80, "targetPort": "web"},
			map[string]any{"name": "none", "port": 81, "targetPort": "unknown"}}}))
		b.create(serviceResource, "default", serviceBody("db", map[string]any{"clusterIP": "None",
			"publishNotReadyAddresses": true}))
		b.rest(time.Second)
		if e := b.slice("web"); str(e, "addressType") != "IPv4" || len(b.addresses("web")) != 0 ||
			str(e, "metadata", "labels", slicesManager) != sliceController ||
			str(e, "metadata", "labels", "team") != "a" || str(e, "metadata", "ownerReferences", 0, "name") != "web" {
			b.Errorf("the slice of a service without pods is %v", e)
		}
		set := body(statefulSetResource, "web", "web:1", map[string]any{"replicas": 2, "serviceName": "db"})
		containers := at(set, "spec", "template", "spec", "containers").([]any)
		containers[0].(map[string]any)["ports"] = []any{map[string]any{"name": "web", "containerPort": 8080}}
		b.create(statefulSetResource, "default", set)
		b.rest(10 * time.Second)
		if have := b.addresses("web"); !slices.Equal(have, []string{"web-0", "web-1"}) {
			b.Errorf("the addresses are %q", have)
		}
		subset, e := at(b.get(endpointsResource, "web"), "subsets", 0), b.slice("web")
		ports, _ := at(subset, "ports").([]any)
		if len(ports) != 1 || number(ports[0], "port") != 8080 || str(ports[0], "name") != "http" ||
			number(e, "ports", 0, "port") != 8080 || str(e, "endpoints", 1, "targetRef", "name") != "web-1" ||
			at(e, "endpoints", 0, "conditions", "ready") != true || str(e, "endpoints", 0, "nodeName") == "" {
			b.Errorf("the subset is %v, the slice %v", subset, e)
		}
		if _, ok := at(b.get(endpointsResource, "db"), "metadata", "labels").(map[string]any)[headlessLabel]; !ok ||
			str(b.slice("db"), "endpoints", 0, "hostname") != "web-0" {
			b.Errorf("a headless service has %v and %v", b.get(endpointsResource, "db"), b.slice("db"))
		}
		b.delete(podResource, "web-0", kube.Background)
		b.rest(500 * time.Millisecond)
		if e := b.slice("web"); at(e, "endpoints", 0, "conditions", "terminating") != true ||
			at(e, "endpoints", 0, "conditions", "ready") == true || len(b.addresses("web")) != 1 {
			b.Errorf("with a pod that terminates the slice is %v, the addresses %q", e, b.addresses("web"))
		}
		b.rest(10 * time.Second)
		b.patch(statefulSetResource, "web", map[string]any{"spec": map[string]any{"replicas": 1}})
		b.patch(serviceResource, "web", map[string]any{"metadata": map[string]any{"labels": map[string]any{
			"team": nil}}})
		b.rest(10 * time.Second)
		if e, have := b.slice("web"), b.addresses("web"); !slices.Equal(have, []string{"web-0"}) ||
			str(e, "metadata", "labels", "team") != "" || at(e, "endpoints", 1) != nil {
			b.Errorf("after the scale-down the addresses are %q, the slice %v", have, e)
		}
		before := str(b.slice("web"), "metadata", "resourceVersion")
		b.delete(endpointsResource, "web", kube.Background)
		b.rest(10 * time.Second)
		if b.get(endpointsResource, "web") == nil || str(b.slice("web"), "metadata", "resourceVersion") != before {
			b.Error("deleted Endpoints were not made again, or the slice was written without a need")
		}
		b.delete(serviceResource, "web", kube.Background)
		b.rest(10 * time.Second)
		for _, r := range []kube.Resource{endpointsResource, sliceResource} {
			for _, name := range b.names(r) {
				if strings.HasPrefix(name, "web") {
					b.Errorf("after the service is deleted, there is %s %s", r, name)
				}
			}
		}
	})
}

func TestPodsThatAreNotReadyAreInEndpointsAsSuch(t *testing.T) {
	simulatedWith(t, Options{PodStartDelay: 10 * time.Second}, func(b *bench) {
		b.create(serviceResource, "default", serviceBody("web", map[string]any{"ports": []any{
			map[string]any{"port": 80}}}))
		pod := podTemplate("web", "web:1")
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		pod["metadata"].(map[string]any)["name"] = "p"
		pod["metadata"].(map[string]any)["annotations"] = map[string]any{RestartsAnnotation: "1"}
		b.create(podResource, "default", pod)
		b.rest(15 * time.Second) // it restarts
		if have := b.addresses("web"); !slices.Equal(have, []string{"(p)"}) {
			b.Errorf("the addresses are %q", have)
		}
		b.rest(15 * time.Second)
		if have := b.addresses("web"); !slices.Equal(have, []string{"p"}) ||
			number(b.slice("web"), "ports", 0, "port") != 80 {
			b.Errorf("the addresses are %q", have)
		}
	})
}

func TestEndpointsGoWithTheirServiceEvenIfTheirDeletionFailsFirst(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(serviceResource, "default", serviceBody("web", map[string]any{"ports": []any{
			map[string]any{"port": 80}}}))
		b.rest(2 * time.Second)
		b.api.Inject(apiserver.Fault{UserAgent: apiserver.Simulation, Verb: "delete", Resource: "endpoints", Times: 1,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden"}})
		b.delete(serviceResource, "web", kube.Background)
		b.rest(20 * time.Minute)
		b.wantNames(endpointsResource, "kubernetes")
	})
}
