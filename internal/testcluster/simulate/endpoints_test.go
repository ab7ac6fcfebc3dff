package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// service creates a Service that selects the pods of web.
func (b *bench) service(name, spec string) {
	b.Helper()
	o := b.parse("{metadata: {labels: {team: a}}, spec: " + spec + "}")
	member(o, "spec")["selector"] = object{"app": "web"}
	b.createObject(serviceResource, name, o)
}

// slicesOf returns the slices of a Service.
func (b *bench) slicesOf(service string) []object {
	return slices.DeleteFunc(b.list(sliceResource), func(e object) bool {
		return str(e, "metadata labels "+serviceLabel) != service
	})
}

// wantSlices compares the slices of a Service: their manager, owner, IP family, port, and the addresses with their
// readiness and zone.
func (b *bench) wantSlices(when, service string, want ...string) {
	b.Helper()
	b.rest(2 * time.Second)
	var have []string
	for _, e := range b.slicesOf(service) {
		var points []string
		for i := range length(e, "endpoints") {
			p := at(e, fmt.Sprint("endpoints ", i))
			points = append(points, fmt.Sprintf("%s %v %s", str(p, "addresses 0"), at(p, "conditions ready"),
				str(p, "zone")))
		}
		have = append(have, fmt.Sprintf("%s %s %s %d %q", str(e, "metadata labels "+slicesManager),
			str(e, "metadata ownerReferences 0 kind"), str(e, "addressType"), number(e, "ports 0 port"), points))
	}
	if slices.Sort(have); !slices.Equal(have, want) {
		b.Errorf("%s the slices are\n%q, want\n%q", when, have, want)
	}
}

// wantAddresses compares the pods of an Endpoints, those that are not ready in parentheses.
func (b *bench) wantAddresses(service string, want ...string) {
	b.Helper()
	var have []string
	for list, form := range map[string]string{"addresses": "%s", "notReadyAddresses": "(%s)"} {
		o := at(b.get(endpointsResource, service), "subsets 0")
		for i := range length(o, list) {
			have = append(have, fmt.Sprintf(form, str(o, fmt.Sprint(list, " ", i, " targetRef name"))))
		}
	}
	if slices.Sort(have); !slices.Equal(have, want) {
		b.Errorf("the addresses of %s are %q, want %q", service, have, want)
	}
}

func TestEndpointsFollowTheReadinessOfPods(t *testing.T) {
	simulated(t, func(b *bench) {
		b.service("web", `{ports: [{name: http, port: 80, targetPort: web},
			{name: none, port: 81, targetPort: unknown}]}`)
		b.service("db", "{clusterIP: None, publishNotReadyAddresses: true}")
		b.wantSlices("without pods", "web", sliceController+" Service IPv4 0 []")
		b.wantAddresses("web")
		wantOf(t, b.slicesOf("web")[0], "metadata labels team = a", "metadata ownerReferences 0 name = web")
		b.create(statefulSetResource, "web", `{spec: {replicas: 2, serviceName: db,
			selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [
				{name: main, image: "web:1", ports: [{name: web, containerPort: 8080}]}]}}}}`)
		b.rest(10 * time.Second)
		b.wantAddresses("web", "web-0", "web-1")
		b.want(endpointsResource, "web", "subsets 0 ports 0 port = 8080", "subsets 0 ports 0 name = http",
			"subsets 0 ports 1 =")
		wantOf(t, b.slicesOf("web")[0], "ports 0 port = 8080", "endpoints 1 targetRef name = web-1",
			"endpoints 0 conditions ready = true",
			"endpoints 0 nodeName = "+str(b.get(podResource, "web-0"), "spec nodeName"))
		if _, ok := at(b.get(endpointsResource, "db"), "metadata labels").(object)[headlessLabel]; !ok {
			b.Errorf("the Endpoints of a headless service are %v", b.get(endpointsResource, "db"))
		}
		b.wantAddresses("db", "web-0", "web-1") // also without ports
		wantOf(t, b.slicesOf("db")[0], "endpoints 0 hostname = web-0")

		b.scale(statefulSetResource, "web", 1)
		b.patch(serviceResource, "web", "{metadata: {labels: {team: null}}}")
		b.rest(10 * time.Second)
		b.wantAddresses("web", "web-0")
		slice := b.slicesOf("web")[0]
		wantOf(t, slice, "metadata labels team =", "endpoints 1 =")
		b.delete(endpointsResource, "web", kube.Background)
		b.rest(10 * time.Second)
		b.wantAddresses("web", "web-0") // made again
		wantOf(t, b.slicesOf("web")[0], "metadata resourceVersion = "+str(slice, "metadata resourceVersion"))
		b.delete(serviceResource, "web", kube.Background)
		b.rest(10 * time.Second)
		for _, name := range append(b.names(endpointsResource), b.names(sliceResource)...) {
			if strings.HasPrefix(name, "web") {
				b.Errorf("after the service is deleted, there is %s", name)
			}
		}
	})
}

func TestPodsThatAreNotReadyAreInEndpointsAsSuch(t *testing.T) {
	simulatedWith(t, Options{PodStartDelay: 10 * time.Second}, func(b *bench) {
		b.service("web", "{ports: [{port: 80}]}")
		b.create(podResource, "p", `{metadata: {labels: {app: web}, annotations: {`+RestartsAnnotation+`: "1"}},
			spec: {containers: [{name: main, image: "web:1"}]}}`)
		b.rest(15 * time.Second) // it restarts
		b.wantAddresses("web", "(p)")
		b.rest(15 * time.Second)
		b.wantAddresses("web", "p")
		wantOf(t, b.slicesOf("web")[0], "ports 0 port = 80")
	})
}

func TestAPodThatFinalizersKeepIsNotReadyAndLeavesItsService(t *testing.T) {
	simulatedWith(t, Options{Without: []Part{Leases}}, func(b *bench) {
		b.service("web", "{ports: [{port: 80}]}")
		b.create(podResource, "p", `{metadata: {labels: {app: web}, finalizers: [a.b/c]},
			spec: {containers: [{name: main, image: "web:1"}]}}`)
		b.rest(time.Minute)
		b.delete(podResource, "p", "")
		b.rest(500 * time.Millisecond)
		wantOf(t, b.slicesOf("web")[0], "endpoints 0 conditions ready = false",
			"endpoints 0 conditions serving = true", "endpoints 0 conditions terminating = true")
		b.wantAddresses("web")
		b.rest(time.Minute)
		b.want(podResource, "p", "status phase = Failed", "status conditions Ready status = False",
			"status containerStatuses 0 state terminated exitCode = 143")
		b.wantSlices("after the containers have stopped", "web", sliceController+" Service IPv4 0 []")
		before := b.runs()
		b.rest(time.Hour)
		if runs := b.runs() - before; runs > 0 {
			b.Errorf("the controllers ran %d times for a pod that a finalizer keeps", runs)
		}
	})
}

func TestEndpointsGoWithTheirServiceEvenIfTheirDeletionFailsFirst(t *testing.T) {
	simulated(t, func(b *bench) {
		b.service("web", "{ports: [{port: 80}]}")
		b.rest(2 * time.Second)
		b.api.Inject(apiserver.Fault{UserAgent: apiserver.Simulation, Verb: "delete", Resource: "endpoints", Times: 1,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden"}})
		b.delete(serviceResource, "web", kube.Background)
		b.rest(20 * time.Minute)
		b.wantNames(endpointsResource, "kubernetes")
	})
}

func TestSlicesOfAnotherManagerStay(t *testing.T) {
	simulated(t, func(b *bench) {
		b.service("web", "{ports: [{port: 80}]}")
		b.create(sliceResource, "mine", fmt.Sprintf(`{metadata: {labels: {%s: web, %s: operator}, ownerReferences: [
			{apiVersion: v1, kind: Service, name: web, uid: %s, controller: true}]}, addressType: IPv4, endpoints: [],
			ports: []}`, serviceLabel, slicesManager, str(b.get(serviceResource, "web"), "metadata uid")))
		b.wantSlices("beside the simulated ones", "web", sliceController+" Service IPv4 0 []",
			"operator Service IPv4 0 []")
	})
}

func TestSlicesHaveTheZonesOfNodes(t *testing.T) {
	simulatedWith(t, Options{Nodes: []string{"n"}}, func(b *bench) {
		b.service("web", "{ports: [{port: 80}]}")
		b.pod("p", "web:1")
		b.wantSlices("at first", "web", sliceController+` Service IPv4 80 ["10.128.0.1 true "]`)
		b.patch(nodeResource, "n", "{metadata: {labels: {"+zoneLabel+": z1}}}")
		b.wantSlices("with a zone", "web", sliceController+` Service IPv4 80 ["10.128.0.1 true z1"]`)
		b.create(podResource, "lost", `{metadata: {labels: {app: web}}, spec: {nodeName: ghost,
			containers: [{name: c, image: "web:1"}]}}`)
		b.wantSlices("with a pod on no node", "web", sliceController+` Service IPv4 80 ["10.128.0.1 true z1"]`)
		b.wantAddresses("web", "lost", "p")
	})
}

func TestEndpointsHaveAThousandAddressesAndSlicesAHundred(t *testing.T) {
	others := slices.DeleteFunc(Parts(), func(p Part) bool { return p == Endpoints })
	simulatedWith(t, Options{Without: others}, func(b *bench) {
		b.create(nodeResource, "n", "{}")
		for i := range capacity + 5 {
			name := fmt.Sprintf("p%04d", i)
			b.create(podResource, name, `{metadata: {labels: {app: web}}, spec: {nodeName: n,
				containers: [{name: c, image: "web:1"}]}}`)
			b.patchStatus(podResource, name, fmt.Sprintf(`{phase: Running, podIP: 10.0.%d.%d,
				conditions: [{type: Ready, status: %q}]}`, i/250, i%250, map[int]string{0: "True", 1: "False"}[i%2]))
		}
		b.service("web", "{ports: [{port: 80}]}")
		b.rest(time.Second)
		e := b.get(endpointsResource, "web")
		wantOf(t, e, "metadata annotations "+overCapacity+" = truncated")
		ready, waiting := length(e, "subsets 0 addresses"), length(e, "subsets 0 notReadyAddresses")
		if ready != 503 || waiting != 497 {
			b.Errorf("of 503 ready pods and 502 others are %d and %d in the Endpoints", ready, waiting)
		}
		var sizes []int
		for _, s := range b.slicesOf("web") {
			sizes = append(sizes, length(s, "endpoints"))
		}
		if slices.Sort(sizes); len(sizes) != 11 || sizes[0] != 5 || sizes[1] != sliceSize {
			b.Errorf("the slices have %v endpoints", sizes)
		}
		for i := range 5 {
			b.delete(podResource, fmt.Sprintf("p%04d", i), kube.Background)
		}
		b.rest(time.Second)
		b.want(endpointsResource, "web", "metadata annotations "+overCapacity+" =") // all addresses have room
	})
}

func TestEachBackendKeepsItsShareOfTheAddresses(t *testing.T) {
	for _, c := range []struct{ ready, waiting, other, wantReady, wantWaiting, wantOther int }{
		{900, 1, 300, 750, 0, 250},
		{600, 400, 200, 600, 200, 200},
	} {
		a, z := &backend{ready: make([]any, c.ready), waiting: make([]any, c.waiting)},
			&backend{ready: make([]any, c.other)}
		if !truncate([]*backend{a, z}) || len(a.ready) != c.wantReady || len(a.waiting) != c.wantWaiting ||
			len(z.ready) != c.wantOther {
			t.Errorf("of %+v stay %d, %d and %d", c, len(a.ready), len(a.waiting), len(z.ready))
		}
	}
}
