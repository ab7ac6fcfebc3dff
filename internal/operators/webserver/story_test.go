package webserver

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
	"skiff/internal/testcluster/simulate"
)

// env is the controller on an embedded API server, in virtual time. Nothing runs Deployments: rollOut plays that
// part.
type env struct{ *operatortest.Env }

var options = operatortest.Options{Resource: resource, Controller: "webserver", New: New}

// story runs f in a fresh environment with a running controller.
func story(t *testing.T, f func(w *env)) { storyWith(t, options, f) }

func storyWith(t *testing.T, o operatortest.Options, f func(w *env)) {
	operatortest.Run(t, o, func(w *operatortest.Env) {
		w.Start()
		f(&env{w})
	})
}

func web(name string) kube.Key { return operatortest.Named(name) }

var at = operatortest.At

const article = `{"image":"nginx:1.23.1","replicas":3,"nodePort":30010}`

// container returns a value of the web server's container.
func (w *env) container(path ...any) any {
	d := w.API.Get(deployments, web("web"))
	return at(d, append([]any{"spec", "template", "spec", "containers", 0}, path...)...)
}

func (w *env) replicas() any { return at(w.API.Get(deployments, web("web")), "spec", "replicas") }

func (w *env) nodePort() any {
	return at(w.API.Get(services, web("web-service")), "spec", "ports", 0, "nodePort")
}

// Rules: WRT-04, WRT-34
// There is no resync: it would list nothing, and tell each controller what it knows.
//
// Rules: RFL-10
func TestSteadyStateSendsNothing(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", `{"image":"nginx","replicas":2,"resources":{"requests":{"cpu":"0.5","memory":"0.5Gi"},"limits":{"cpu":1}},
			"env":[{"name":"EMPTY","value":""}],"template":{"spec":{"hostNetwork":false,"containers":[{"name":"webserver","securityContext":{"runAsUser":0}}]}}}`)
		w.RollOut("web")
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		for i := range 20 { // each wakes the reconcile
			w.PatchSub(deployments, "web", "status", `{"status":{"conditions":[{"type":"Available","status":"True"}]}}`)
			w.Patch(deployments, "web", `{"metadata":{"labels":{"example.com/round":"`+strconv.Itoa(i)+`"}}}`)
		}
		w.WantRequests()
		w.Stop()
		w.Start()
		w.Pass(time.Minute)
		// A server that does not store hostNetwork: false is asked once whether that is as it should be: get, migrate,
		// apply.
		if got := w.Requests(); len(got) > 3 || w.Count("POST") > 0 || w.Count("PATCH") > 0 {
			w.Errorf("after a restart: %v", got)
		}
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
	})
}

func TestRemovingReplicasKeepsThePresentCount(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", `{"image":"nginx","replicas":4}`)
		w.Forget()
		w.Patch(resource, "web", `{"spec":{"replicas":null}}`)
		w.Want("replicas", w.replicas(), 4)
		w.WantRequests("GET deployments/web 200", "JSONPATCH deployments/web 200",
			"APPLY as skiff-handover deployments/web 200",
			"APPLY deployments/web 200", "PATCH webservers/web/status 200")
		w.Patch(deployments, "web", `{"spec":{"replicas":9}}`)
		w.Patch(resource, "web", `{"spec":{"image":"nginx:2"}}`)
		w.Want("replicas after an autoscaler's change", w.replicas(), 9)
		w.Patch(resource, "web", `{"spec":{"replicas":2}}`)
		w.Want("replicas declared again", w.replicas(), 2)
		w.Stop()
		w.Patch(resource, "web", `{"spec":{"replicas":null,"image":"nginx:3"}}`)
		w.Start()
		w.Want("replicas removed while the controller was down", w.replicas(), 2)
		w.Want("image", w.container("image"), "nginx:3")
	})
}

func TestAllocatedNodePortIsKept(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", `{"image":"nginx"}`)
		port := w.nodePort()
		w.Want("node port in status", at(w.API.Get(resource, web("web")), "status", "nodePort"), port)
		w.Delete(services, "web-service")
		w.Want("node port of the Service made again", w.nodePort(), port)
		w.Patch(resource, "web", `{"spec":{"port":8080}}`)
		w.Want("node port after a change of the port", w.nodePort(), port)
		w.Patch(resource, "web", `{"spec":{"nodePort":30099}}`)
		w.Want("declared node port", w.nodePort(), 30099)
		w.Patch(resource, "web", `{"spec":{"nodePort":null}}`)
		w.Want("node port declared no longer", w.nodePort(), 30099)
		w.WantCondition("web", "Degraded", "False/AsExpected")
	})
}

// taker is a Service that has a node port.
func taker(name, port string) string {
	return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"` + name + `"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":` + port + `}]}}`
}

func TestKeptNodePortThatIsTakenIsReplacedAndReported(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", article)
		w.Patch(resource, "web", `{"spec":{"nodePort":null}}`)
		w.Stop()
		w.Delete(services, "web-service")
		w.Post(services, taker("other", "30010"))
		w.Forget()
		w.Start()
		if n := w.nodePort(); n != nil {
			w.Errorf("there is a Service with node port %v at once: the API server may just not have freed ours yet",
				n)
		}
		w.Pass(10 * time.Second)
		port, _ := w.nodePort().(int64)
		if port == 0 || port == 30010 {
			w.Errorf("node port %d, want another one", port)
		}
		w.Want("node port in status", at(w.API.Get(resource, web("web")), "status", "nodePort"), port)
		w.WantCondition("web", "Degraded", "False/NodePortChanged")
		w.Patch(deployments, "web", `{"metadata":{"annotations":{"x":"y"}}}`)
		w.WantCondition("web", "Degraded", "False/NodePortChanged")
		if n := len(w.Requests()); n > 30 {
			w.Errorf("%d requests for it: %v", n, w.Requests())
		}
	})
}

// The API server tells of a Service's deletion before it has freed its node port.
func TestNodePortThatIsFreedLateIsStillKept(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", `{"image":"nginx"}`)
		port := w.nodePort()
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "services", UserAgent: operatortest.Agent, Times: 2,
			Reply: &apiserver.Reply{Code: 422, ContentType: "application/json",
				Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"Service \"web-service\" is invalid",
				"details":{"name":"web-service","kind":"Service","causes":[{"reason":"FieldValueInvalid","message":"provided port is already allocated","field":"spec.ports[0].nodePort"}]}}`}})
		w.Forget()
		w.Delete(services, "web-service")
		w.Pass(100 * time.Millisecond)
		w.Want("node port", w.nodePort(), port)
		w.WantRequests("GET webservers/web 200", "POST services 422", "POST services 422",
			"GET services/web-service 404", "POST services 201")
	})
}

func TestNodePortsThatAreUsedUpAreReportedAndWaitedFor(t *testing.T) {
	story(t, func(w *env) {
		remove := w.API.Inject(apiserver.Fault{Verb: "create", Resource: "services", UserAgent: operatortest.Agent,
			Reply: &apiserver.Reply{
				Code: 500, Reason: "InternalError", // as a real server
				Message: "Internal error occurred: failed to allocate a nodePort: range is full"}})
		w.Create("web", `{"image":"nginx"}`)
		w.Pass(30 * time.Second)
		w.WantCondition("web", "Degraded", "True/NoNodePort", "the cluster has no free node port",
			"spec.serviceType: ClusterIP")
		w.Want("attempts in half a minute", w.Count("POST services"), 1)
		w.Create("web2", `{"image":"nginx"}`)
		w.Pass(10 * time.Minute)
		w.WantCondition("web2", "Degraded", "True/NoNodePort")
		if n := w.Count("POST services"); n > 12 {
			w.Errorf("%d attempts of both in ten minutes, want one a minute", n)
		}
		remove()
		w.Pass(2 * time.Minute)
		w.Want("a node port", w.nodePort() != nil, true)
		w.WantCondition("web", "Degraded", "False/AsExpected")
		w.WantCondition("web2", "Degraded", "False/AsExpected")
	})
}

func TestTheServiceHasTheDeclaredType(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", `{"image":"nginx","replicas":1,"serviceType":"ClusterIP"}`)
		w.RollOut("web")
		w.WantCondition("web", "Ready", "True/Complete")
		w.Want("type", at(w.API.Get(services, web("web-service")), "spec", "type"), "ClusterIP")
		w.Want("node port", w.nodePort(), nil)
		w.Patch(resource, "web", `{"spec":{"serviceType":"LoadBalancer"}}`)
		w.Want("type", at(w.API.Get(services, web("web-service")), "spec", "type"), "LoadBalancer")
		w.Want("node port in status", at(w.API.Get(resource, web("web")), "status", "nodePort"), w.nodePort())
		w.Patch(resource, "web", `{"spec":{"serviceType":"ClusterIP"}}`)
		w.Want("node port", w.nodePort(), nil)
		w.Want("node port in status", at(w.API.Get(resource, web("web")), "status", "nodePort"), nil)
		w.Patch(resource, "web", `{"spec":{"serviceType":null}}`)
		w.Want("type", at(w.API.Get(services, web("web-service")), "spec", "type"), "NodePort")
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
	})
}

func TestARestoredStatusKeepsTheNodePort(t *testing.T) {
	story(t, func(w *env) {
		w.Stop()
		w.Create("web", `{"image":"nginx"}`)
		w.PatchSub(resource, "web", "status", `{"status":{"nodePort":31717}}`) // as a backup tool does that restores status
		w.Start()
		w.Want("node port", w.nodePort(), 31717)
	})
}

func TestDeclaredNodePortThatIsTakenIsReportedAndTakenOnceFree(t *testing.T) {
	story(t, func(w *env) {
		w.Post(services, taker("other", "30010"))
		w.Create("web", article)
		w.Pass(10 * time.Second)
		w.WantCondition("web", "Degraded", "True/NodePortRefused")
		w.WantCondition("web", "Ready", "False/NodePortRefused")
		w.Forget()
		w.Pass(10 * time.Minute)
		if n := len(w.Requests()); n > 25 {
			w.Errorf("%d requests in ten minutes: %v", n, w.Requests())
		}
		w.Delete(services, "other")
		w.Pass(2 * time.Minute)
		w.Want("node port", w.nodePort(), 30010)
		w.WantCondition("web", "Degraded", "False/AsExpected")
	})
}

// In a cluster that rolls things out: a WebServer's status follows its Deployment's, and nothing is told twice.
func TestARolloutCostsAsManyWritesAsTheDeploymentHasStatuses(t *testing.T) {
	story(t, func(w *env) {
		cluster := w.Connect("cluster")
		w.Background(func(ctx context.Context) error {
			defer cluster.Close()
			return simulate.New(cluster, simulate.Options{}).Run(ctx)
		})
		w.WaitIdle()
		count := func(agent, path string) (n int) {
			for _, r := range w.API.Requests() {
				// 409: an Event of the same nanosecond, which is often here, had the name already.
				if r.UserAgent == agent && r.Method != "GET" && r.Status != 409 && strings.HasSuffix(r.Path, path) {
					n++
				}
			}
			return n
		}
		for _, step := range []struct {
			name   string
			do     func()
			events int // what was done, and that all is well again
		}{
			{"create", func() { w.Create("web", article) }, 2},
			{"upgrade", func() { w.Patch(resource, "web", `{"spec":{"image":"nginx:1.25"}}`) }, 2},
			{"scale", func() { w.Patch(resource, "web", `{"spec":{"replicas":10}}`) }, 2},
			{"delete both children", func() { w.Delete(services, "web-service"); w.Delete(deployments, "web") }, 3},
		} {
			w.Forget()
			step.do()
			w.Pass(5 * time.Minute)
			w.WantCondition("web", "Ready", "True/Complete")
			ours, theirs := count(operatortest.Agent, "/webservers/web/status"),
				count("cluster", "/deployments/web/status")
			t.Logf("%s: %d writes of our status, %d of the Deployment's", step.name, ours, theirs)
			if ours > theirs+1 || ours < 2 { // one before the first of them
				w.Errorf("%s: %d writes of our status, %d of the Deployment's", step.name, ours, theirs)
			}
			if n := count(operatortest.Agent, "/events"); n > step.events {
				w.Errorf("%s: %d Events, want %d at most", step.name, n, step.events)
			}
		}
	})
}

// podOfWeb posts a pod of web with a status.
func (w *env) podOfWeb(name, status string) {
	w.podWith(name, "[]", status)
}

// podWith posts a pod of web with some volumes and a status.
func (w *env) podWith(name, volumes, status string) {
	pods := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	w.Post(pods, `{"metadata":{"name":"`+name+`","namespace":"default","labels":{"app.kubernetes.io/name":"webserver",
		"app.kubernetes.io/instance":"web"}},"spec":{"volumes":`+volumes+`,"containers":[{"name":"webserver","image":"nginx"}]}}`)
	w.PatchSub(pods, name, "status", `{"status":`+status+`}`)
}

func TestWhyPodsAreNotReadyIsSaidAfterHalfAMinute(t *testing.T) {
	pending := `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
		"message":"0/3 nodes are available"}]}`
	for _, test := range []struct {
		name    string
		pods    []string
		reason  string
		message string
	}{
		{"unschedulable", []string{pending, pending}, "Unschedulable",
			"2 pods cannot be scheduled (0/3 nodes are available)"},
		{"no image", []string{`{"containerStatuses":[{"name":"webserver","image":"x","imageID":"","ready":false,
			"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}`},
			"ImagePullBackOff", "pod web-0: ImagePullBackOff (container webserver: no such image)"},
		{"crash", []string{`{"containerStatuses":[{"name":"webserver","image":"x","imageID":"","ready":false,
			"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 40s"}},
			"lastState":{"terminated":{"exitCode":2,"reason":"Error"}}}]}`},
			"CrashLoopBackOff", "container webserver ended with exit code 2 (Error)"},
		{"no secret", []string{`{"containerStatuses":[{"name":"webserver","image":"x","imageID":"","ready":false,
			"restartCount":0,"state":{"waiting":{"reason":"CreateContainerConfigError",
			"message":"secret \"s\" not found"}}}]}`}, "CreateContainerConfigError", `secret "s" not found`},
	} {
		t.Run(test.name, func(t *testing.T) {
			story(t, func(w *env) {
				w.Create("web", `{"image":"nginx","replicas":2}`)
				w.Pass(time.Second)
				for i, status := range test.pods {
					w.podOfWeb("web-"+strconv.Itoa(i), status)
				}
				w.PatchSub(deployments, "web", "status", `{"status":{"observedGeneration":1,"replicas":2,
					"updatedReplicas":2,"unavailableReplicas":2}}`)
				w.Pass(20 * time.Second)
				w.WantCondition("web", "Degraded", "False/AsExpected")
				w.Forget()
				w.Pass(20 * time.Second)
				w.WantCondition("web", "Degraded", "True/"+test.reason, test.message, "0 of 2 pods are available",
					"kubectl describe pods -n default -l ")
				w.Want("state", at(w.API.Get(resource, web("web")), "status", "state"), test.reason)
				w.Want("ready", at(w.API.Get(resource, web("web")), "status", "ready"), "0/2")
				w.Pass(10 * time.Minute)
				lists := 0
				for _, r := range w.API.Requests() {
					if strings.HasSuffix(r.Path, "/namespaces/default/pods") && r.Query.Get("limit") == "100" {
						lists++
					}
				}
				if lists < 3 || lists > 6 {
					t.Errorf("%d lists of pods in ten minutes", lists)
				}
				w.RollOut("web")
				w.Pass(time.Second)
				w.WantReady("web")
				w.Forget()
				w.Pass(time.Hour)
				w.Want("requests at rest", len(w.Requests()), 0)
			})
		})
	}
}

// Rules: LP-12
func TestThePodsOfAWebServerAreThereForThoseWhoLookAtIt(t *testing.T) {
	var c *controller.Controller
	o := options
	o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
		c = New(s, r)
		return c
	}
	storyWith(t, o, func(w *env) {
		w.Create("web", `{"image":"nginx","replicas":2}`)
		w.Pass(time.Second)
		w.podOfWeb("web-0", `{"containerStatuses":[{"name":"webserver","image":"x","imageID":"","ready":false,
			"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}`)
		w.podOfWeb("web-1", `{"conditions":[{"type":"Ready","status":"True","lastProbeTime":null}]}`)
		pods, known, err := c.Pods(context.Background(), web("web"))
		if err != nil || !known || pods.More || len(pods.List) != 2 {
			t.Fatalf("%+v, known: %v, %v", pods, known, err)
		}
		if broken := pods.List[0]; broken.Ready || broken.Reason != "ImagePullBackOff" ||
			broken.Message != "container webserver: no such image" || !pods.List[1].Ready {
			t.Errorf("%+v", pods.List)
		}
		if _, known, err := c.Pods(context.Background(), web("none")); known || err != nil {
			t.Errorf("of no object: %v, %v", known, err)
		}
	})
}

// The kubelet names the missing object in an Event, which skiff has no right to read; the pod says what it mounts.
func TestAPodThatWaitsForItsVolumesNamesTheirSecretsAndConfigMaps(t *testing.T) {
	const volumes = `[{"name":"a","secret":{"secretName":"tls"}},{"name":"b","configMap":{"name":"conf"}},
		{"name":"c","secret":{"secretName":"may-miss","optional":true}},{"name":"d","emptyDir":{}},
		{"name":"e","projected":{"sources":[{"secret":{"name":"key"}},{"configMap":{"name":"kube-root-ca.crt"}},
			{"configMap":{"name":"may-miss","optional":true}}]}}]`
	for _, test := range []struct{ name, volumes, scheduled, mounted, container, want string }{
		{"a missing Secret", volumes, "True", "False", "ContainerCreating", "ConfigMap conf, Secret key, Secret tls)"},
		{"behind an init container", volumes, "True", "False", "PodInitializing", "Secret tls"},
		{"all is mounted", volumes, "True", "True", "ContainerCreating", ""},
		{"a server that does not say", volumes, "True", "Unknown", "ContainerCreating", ""},
		{"nothing that may be missing", `[{"name":"d","emptyDir":{}}]`, "True", "False", "ContainerCreating", ""},
		{"no node yet", volumes, "Unknown", "False", "ContainerCreating", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			story(t, func(w *env) {
				w.Create("web", `{"image":"nginx","replicas":1}`)
				w.Pass(time.Second)
				now := time.Now().UTC().Format(time.RFC3339)
				w.podWith("web-0", test.volumes, `{"conditions":[
					{"type":"PodScheduled","status":"`+test.scheduled+`","lastProbeTime":null,
						"lastTransitionTime":"`+now+`"},
					{"type":"PodReadyToStartContainers","status":"`+test.mounted+`","lastProbeTime":null,
						"lastTransitionTime":"`+now+`"}],
					"containerStatuses":[{"name":"webserver","image":"x","imageID":"","ready":false,"restartCount":0,
						"state":{"waiting":{"reason":"`+test.container+`"}}}]}`)
				w.PatchSub(deployments, "web", "status", `{"status":{"observedGeneration":1,"replicas":1,
					"updatedReplicas":1,"unavailableReplicas":1}}`)
				w.Pass(20 * time.Second)
				w.WantCondition("web", "Degraded", "False/AsExpected")
				w.Pass(2 * time.Minute)
				if test.want == "" {
					w.WantCondition("web", "Degraded", "False/AsExpected")
					return
				}
				w.WantCondition("web", "Degraded", "True/ContainerCreating", test.want,
					"kubectl describe pods -n default -l ")
			})
		})
	}
}

func TestAPodThatIsOnlySlowIsNoFault(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", `{"image":"nginx","replicas":1}`)
		w.Pass(time.Second)
		w.podOfWeb("web-0", `{"conditions":[{"type":"Ready","status":"False","lastProbeTime":null,
			"message":"containers with unready status: [webserver]"}]}`)
		w.PatchSub(deployments, "web", "status", `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,
			"unavailableReplicas":1}}`)
		w.Pass(5 * time.Minute)
		w.WantCondition("web", "Degraded", "False/AsExpected")
		w.WantCondition("web", "Ready", "False/PodNotReady", "containers with unready status: [webserver]")
	})
}

// Large pods count as read, so that their number costs no second page, and are not kept.
func TestPodsThatAreTooLargeAreNotReadToTheEnd(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", `{"image":"nginx","replicas":1}`)
		w.Pass(time.Second)
		pods := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
		for i := range 120 {
			name := "large-" + strconv.Itoa(i)
			w.Post(pods, `{"metadata":{"name":"`+name+`","namespace":"default","labels":{
				"app.kubernetes.io/name":"webserver","app.kubernetes.io/instance":"web"},"annotations":{"a":"`+
				strings.Repeat("x", 100<<10)+`"}},"spec":{"containers":[{"name":"webserver","image":"nginx"}]}}`)
		}
		w.podOfWeb("web-0", `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
			"message":"no node"}]}`) // behind the large ones in the order of names
		w.PatchSub(deployments, "web", "status", `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,
			"unavailableReplicas":1}}`)
		w.Pass(40 * time.Second)
		w.WantCondition("web", "Ready", "False/PodsUnavailable", "0 of 1 pods are available")
		lists := 0
		for _, r := range w.API.Requests() {
			if strings.HasSuffix(r.Path, "/namespaces/default/pods") && r.Query.Get("limit") == "100" {
				lists++
			}
		}
		w.Want("pages read", lists, 1)
	})
}

// Rules: WRT-23
func TestTheStatusSaysThatADeletedWebServerIsHeldByAnother(t *testing.T) {
	story(t, func(w *env) {
		w.Create("web", article)
		w.RollOut("web")
		w.WantReady("web")
		w.Patch(resource, "web", `{"metadata":{"finalizers":["example.com/backup"]}}`)
		w.Forget()
		w.Delete(resource, "web")
		w.WantRequests("PATCH webservers/web/status 200")
		w.Want("state", at(w.API.Get(resource, web("web")), "status", "state"), "Terminating")
		w.WantCondition("web", "Ready", "False/Terminating", "example.com/backup")
		w.WantCondition("web", "Progressing", "False/Terminating")
		w.Want("ready", at(w.API.Get(resource, web("web")), "status", "ready"), "3/3")

		w.Delete(deployments, "web") // which nothing makes again
		w.Want("ready", at(w.API.Get(resource, web("web")), "status", "ready"), "0/3")
		w.Forget()
		w.Pass(time.Hour)
		w.Stop()
		w.Start()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Patch(resource, "web", `{"metadata":{"finalizers":null}}`)
		w.Want("the WebServer", w.API.Get(resource, web("web")) == nil, true)
	})
}

func TestADeletedWebServerThatGoesBeforeItsStatusIsWrittenIsNoError(t *testing.T) {
	var failed atomic.Int32
	o := options
	o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
		s.Log = funcr.New(func(_, text string) {
			if strings.Contains(text, "reconcile failed") {
				failed.Add(1)
			}
		}, funcr.Options{Verbosity: 1})
		return New(s, r)
	}
	storyWith(t, o, func(w *env) {
		w.Create("web", article)
		w.Patch(resource, "web", `{"metadata":{"finalizers":["example.com/backup"]}}`)
		defer w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "webservers", UserAgent: operatortest.Agent,
			Delay: time.Second})()
		w.Forget()
		w.Delete(resource, "web")
		w.Patch(resource, "web", `{"metadata":{"finalizers":null}}`)
		w.Pass(time.Hour)
		w.WantRequests("PATCH webservers/web/status 404", "GET webservers/web 404")
		w.Want("failures", failed.Load(), 0)
	})
}
