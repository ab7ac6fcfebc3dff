package webserver

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

const article = `{"image":"nginx:1.23.1","replicas":3,"nodePort":30010}`

// container returns a value of the web server's container.
func (w *world) container(path ...any) any {
	d := w.API.Get(deployments, web("web"))
	return at(d, append([]any{"spec", "template", "spec", "containers", 0}, path...)...)
}

func (w *world) replicas() any { return at(w.API.Get(deployments, web("web")), "spec", "replicas") }

func (w *world) nodePort() any {
	return at(w.API.Get(services, web("web-service")), "spec", "ports", 0, "nodePort")
}

// Rules: WRT-04, WRT-11, MGR-12
func TestStoryOfTheArticleWithTheWritesOfEachStep(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		made := w.Requests() // the children side by side, so in any order
		slices.Sort(made)
		w.WantLines("requests", made, []string{"PATCH webservers/web/status 200", "POST deployments 201",
			"POST services 201"})
		w.Want("image", w.container("image"), "nginx:1.23.1")
		w.Want("replicas", w.replicas(), 3)
		w.Want("node port", w.nodePort(), 30010)
		w.WantCondition("web", "Ready", "False/RollingOut")

		w.Forget()
		w.RollOut("web")
		w.WantRequests("PATCH webservers/web/status 200")
		w.WantCondition("web", "Ready", "True/Complete")
		w.WantCondition("web", "Progressing", "False/Complete")
		ws := w.API.Get(resource, web("web"))
		w.Want("ready replicas", at(ws, "status", "readyReplicas"), 3)
		w.Want("node port in status", at(ws, "status", "nodePort"), 30010)

		w.Forget()
		w.Patch(resource, "web", `{"spec":{"replicas":5}}`)
		w.WantRequests("GET deployments/web 200", "JSONPATCH deployments/web 200", "APPLY deployments/web 200",
			"PATCH webservers/web/status 200")
		w.Want("replicas", w.replicas(), 5)
		w.WantCondition("web", "Ready", "False/RollingOut")
		w.RollOut("web")
		w.WantCondition("web", "Ready", "True/Complete")

		w.Forget()
		w.Patch(resource, "web", `{"spec":{"image":"nginx:1.25"}}`)
		w.WantRequests("GET deployments/web 200", "APPLY deployments/web 200", "PATCH webservers/web/status 200")
		w.Want("image", w.container("image"), "nginx:1.25")

		w.Forget()
		w.Delete(services, "web-service")
		w.WantRequests("GET webservers/web 200", "POST services 201") // has it gone with its owner?
		w.Want("node port", w.nodePort(), 30010)

		w.Forget()
		w.Delete(deployments, "web")
		w.WantRequests("GET webservers/web 200", "POST deployments 201", "PATCH webservers/web/status 200")
		w.Want("replicas", w.replicas(), 5)

		w.Forget()
		w.Delete(resource, "web")
		w.Pass(10 * time.Minute)
		w.WantRequests() // the garbage collector's work, and nobody here plays that
		if o := at(w.API.Get(deployments, web("web")), "metadata", "ownerReferences", 0); at(o,
			"controller") != true || at(o, "blockOwnerDeletion") != true {
			w.Errorf("the Deployment's owner reference is %v", o)
		}
	})
}

// Rules: WRT-04, WRT-34
// There is no resync: it would list nothing, and tell each controller what it knows.
//
// Rules: RFL-10
func TestSteadyStateSendsNothing(t *testing.T) {
	story(t, func(w *world) {
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

// Rules: CCH-20
func TestWhatOthersOwnIsNotFought(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", `{"image":"nginx"}`)
		w.Patch(deployments, "web", `{"spec":{"replicas":7,"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
		if err := w.User.Patch(w.Context(), deployments, web("web"), kube.StrategicMergePatch,
			w.JSON(`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"proxy"}]}}}}`), nil, kube.WriteOptions{FieldManager: "user"}); err != nil {
			w.Fatal(err)
		}
		w.Settle()
		w.Patch(resource, "web", `{"spec":{"image":"nginx:2","port":8080}}`)
		w.Want("replicas", w.replicas(), 7)
		d := w.API.Get(deployments, web("web"))
		w.Want("restart annotation", at(d, "spec", "template", "metadata", "annotations",
			"kubectl.kubernetes.io/restartedAt"), "now")
		containers, _ := at(d, "spec", "template", "spec", "containers").([]any)
		images := map[any]any{}
		for _, c := range containers {
			images[at(c, "name")] = at(c, "image")
		}
		w.Want("images", images, map[any]any{"webserver": "nginx:2", "sidecar": "proxy"})
	})
}

// Rules: WRT-08
func TestRemovedFieldsGoFromTheDeployment(t *testing.T) {
	for name, restart := range map[string]bool{"in one life of the process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.Create("web", `{"image":"nginx","replicas":1,"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"template":{"spec":{"nodeSelector":{"disk":"ssd"}}}}`)
				if restart {
					w.Stop()
					w.Start()
				}
				w.Patch(resource, "web", `{"spec":{"env":[{"name":"B","value":"2"}],"template":null}}`)
				w.Want("env", w.container("env"), []any{map[string]any{"name": "B", "value": "2"}})
				w.Want("node selector", at(w.API.Get(deployments, web("web")), "spec", "template", "spec",
					"nodeSelector"), nil)
				w.Forget()
				w.Pass(time.Minute)
				w.WantRequests()
			})
		})
	}
}

func TestRemovingReplicasKeepsThePresentCount(t *testing.T) {
	story(t, func(w *world) {
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

// What the process has learned of a Deployment in an apply that was refused is all that it knows of it.
func TestRemovingReplicasWhileTheTemplateIsRefusedKeepsThePresentCount(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", `{"image":"nginx","replicas":4}`)
		w.Stop()
		w.Start()
		w.Patch(resource, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"without-image"}]}}}}`)
		w.WantCondition("web", "Stalled", "True/DeploymentRefused")
		w.Patch(resource, "web", `{"spec":{"replicas":null}}`)
		w.Patch(resource, "web", `{"spec":{"template":null,"image":"nginx:2"}}`)
		w.Pass(time.Minute)
		w.Want("image", w.container("image"), "nginx:2")
		w.Want("replicas", w.replicas(), 4)
	})
}

func TestAllocatedNodePortIsKept(t *testing.T) {
	story(t, func(w *world) {
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

// taker is a Service of somebody else.
func taker(name, port string) string {
	return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"` + name + `"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":` + port + `}]}}`
}

func TestKeptNodePortThatIsTakenIsReplacedAndReported(t *testing.T) {
	story(t, func(w *world) {
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
	story(t, func(w *world) {
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
		w.WantRequests("GET webservers/web 200", "POST services 422", "GET services/web-service 404",
			"GET webservers/web 200", "POST services 422", "GET services/web-service 404",
			"GET webservers/web 200", "POST services 201")
	})
}

func TestNodePortsThatAreUsedUpAreReportedAndWaitedFor(t *testing.T) {
	story(t, func(w *world) {
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

func TestServiceTypeIsHeeded(t *testing.T) {
	story(t, func(w *world) {
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

// Rules: WRT-26
func TestChildrenThatWereOrphanedAreAdopted(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", `{"image":"nginx","replicas":1}`)
		port, uid := w.nodePort(), at(w.API.Get(deployments, web("web")), "metadata", "uid")
		w.Delete(resource, "web")
		for r, name := range map[kube.Resource]string{deployments: "web", services: "web-service"} {
			w.Patch(r, name, `{"metadata":{"ownerReferences":null}}`) // as --cascade=orphan does
		}
		w.Create("web", `{"image":"nginx:2","replicas":1}`)
		w.RollOut("web")
		w.WantCondition("web", "Ready", "True/Complete")
		w.Want("uid of the Deployment", at(w.API.Get(deployments, web("web")), "metadata", "uid"), uid)
		w.Want("image", w.container("image"), "nginx:2")
		w.Want("node port", w.nodePort(), port)
		w.Want("owner", at(w.API.Get(services, web("web-service")), "metadata", "ownerReferences", 0, "uid"),
			at(w.API.Get(resource, web("web")), "metadata", "uid"))
		if events := w.EventLines("web"); !slices.Contains(events, "Normal Adopt") {
			w.Errorf("no Event of the adoption among %q", events)
		}
	})
}

// Rules: WRT-26
func TestWhatMayNotBeOursIsAdoptedOnlyOnRequest(t *testing.T) {
	const ready = `"spec":{"type":"NodePort","selector":{"app.kubernetes.io/name":"webserver","app.kubernetes.io/instance":"web"},"ports":[{"port":80}]}}`
	story(t, func(w *world) {
		w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service"},`+ready)
		w.Create("web", `{"image":"nginx","replicas":1}`)
		w.RollOut("web")
		w.WantCondition("web", "Ready", "False/NameTaken", "is not managed by skiff")
		w.Patch(resource, "web", `{"metadata":{"annotations":{"skiff.dev/adopt":"true"}}}`)
		w.Pass(2 * time.Minute)
		w.WantCondition("web", "Ready", "True/Complete")

		// One that selects other pods is not, nor one of another controller.
		w.Post(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}}`)
		w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"c-service","ownerReferences":[
			{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"7","controller":true}]},"spec":{"ports":[{"port":80}]}}`)
		for name, want := range map[string]string{"b": "has another spec.selector", "c": "belongs to ConfigMap x"} {
			w.Post(resource, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"`+name+
				`","annotations":{"skiff.dev/adopt":"true"}},"spec":{"image":"nginx","replicas":1}}`)
			w.WantCondition(name, "Ready", "False/NameTaken", want)
		}
	})
}

func TestARestoredStatusKeepsTheNodePort(t *testing.T) {
	story(t, func(w *world) {
		w.Stop()
		w.Create("web", `{"image":"nginx"}`)
		w.PatchSub(resource, "web", "status", `{"status":{"nodePort":31717}}`) // as a backup tool does that restores status
		w.Start()
		w.Want("node port", w.nodePort(), 31717)
	})
}

func TestEachChangeThatWasUndoneCanBeReadInEvents(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Patch(deployments, "web", `{"spec":{"replicas":9}}`)
		w.Patch(deployments, "web", `{"metadata":{"labels":{"app.kubernetes.io/name":"other"}}}`)
		w.Patch(deployments, "web", `{"spec":{"replicas":8,"minReadySeconds":4}}`)
		w.Pass(10 * time.Minute)
		notes := map[any]bool{}
		for _, e := range w.Events(resource.Kind, "web") {
			notes[e["note"]] = true
		}
		for _, want := range []string{"changed Deployment web, which differed in spec.replicas",
			"changed Deployment web, which differed in metadata.labels.app.kubernetes.io/name"} {
			if !notes[want] {
				w.Errorf("no Event says %q: %v", want, notes)
			}
		}
	})
}

func TestDeclaredNodePortThatIsTakenIsReportedAndTakenOnceFree(t *testing.T) {
	story(t, func(w *world) {
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

// Rules: WRT-13
func TestForeignObjectIsLeftAloneAndReported(t *testing.T) {
	for name, label := range map[string]string{"unseen by the cache": "", "seen by the cache": `"app.kubernetes.io/managed-by":"skiff"`} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				foreign := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service","labels":{` + label + `}},"spec":{"ports":[{"port":1234}]}}`
				w.Post(services, foreign)
				before := w.API.Get(services, web("web-service"))
				w.Create("web", `{"image":"nginx","replicas":1}`)
				w.RollOut("web")
				w.WantCondition("web", "Degraded", "True/NameTaken")
				w.WantCondition("web", "Ready", "False/NameTaken")
				w.WantCondition("web", "Progressing", "False/Complete")
				w.Want("the foreign Service", w.API.Get(services, web("web-service")), before)
				w.Forget()
				for i := range 10 {
					w.Patch(deployments, "web", `{"metadata":{"labels":{"example.com/round":"`+strconv.Itoa(i)+`"}}}`)
				}
				w.WantRequests() // whatever wakes the reconcile, the foreign object is looked at slowly
				w.Pass(10 * time.Minute)
				if n := len(w.Requests()); n > 11 {
					w.Errorf("%d requests in ten minutes: %v", n, w.Requests())
				}
				w.Delete(services, "web-service")
				w.Pass(2 * time.Minute)
				w.WantCondition("web", "Ready", "True/Complete")
			})
		})
	}
}

// Rules: WRT-28
func TestChildrenOfAnEarlierWebServerOfTheSameNameAreForeign(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		old := w.API.Get(deployments, web("web"))
		w.Stop()
		w.Delete(resource, "web")
		w.Create("web", `{"image":"other","replicas":1}`)
		w.Start()
		w.WantCondition("web", "Degraded", "True/NameTaken")
		w.Want("the old Deployment", w.API.Get(deployments, web("web")), old)
		w.Delete(deployments, "web") // as the garbage collector does
		w.Delete(services, "web-service")
		w.Want("image", w.container("image"), "other")
		w.RollOut("web")
		w.WantCondition("web", "Ready", "True/Complete")
	})
}

func TestLostLabelComesBack(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		uid := at(w.API.Get(deployments, web("web")), "metadata", "uid")
		for _, r := range []kube.Resource{deployments, services} {
			name := map[bool]string{true: "web", false: "web-service"}[r == deployments]
			w.Patch(r, name, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
			w.Pass(5 * time.Second)
			w.Want("label of the "+r.Kind, at(w.API.Get(r, web(name)), "metadata", "labels",
				"app.kubernetes.io/managed-by"), "skiff")
		}
		w.Want("uid", at(w.API.Get(deployments, web("web")), "metadata", "uid"), uid)
		w.Forget()
		w.Pass(time.Minute)
		w.WantRequests()
	})
}
