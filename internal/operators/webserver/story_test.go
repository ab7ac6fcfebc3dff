package webserver

import (
	"strconv"
	"testing"
	"time"

	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

const article = `{"image":"nginx:1.23.1","replicas":3,"nodePort":30010}`

// container returns a value of the web server's container.
func (w *world) container(path ...any) any {
	d := w.api.Get(deployments, web("web"))
	return at(d, append([]any{"spec", "template", "spec", "containers", 0}, path...)...)
}

func (w *world) replicas() any { return at(w.api.Get(deployments, web("web")), "spec", "replicas") }

func (w *world) nodePort() any {
	return at(w.api.Get(services, web("web-service")), "spec", "ports", 0, "nodePort")
}

// Rules: WRT-04, WRT-11, MGR-12
func TestStoryOfTheArticleWithTheWritesOfEachStep(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.wantRequests("POST deployments 201", "POST services 201", "PATCH webservers/web/status 200")
		w.want("image", w.container("image"), "nginx:1.23.1")
		w.want("replicas", w.replicas(), 3)
		w.want("node port", w.nodePort(), 30010)
		w.wantCondition("web", "Ready", "False/RollingOut")

		w.forget()
		w.rollOut("web")
		w.wantRequests("PATCH webservers/web/status 200")
		w.wantCondition("web", "Ready", "True/Complete")
		w.wantCondition("web", "Progressing", "False/Complete")
		ws := w.api.Get(resource, web("web"))
		w.want("ready replicas", at(ws, "status", "readyReplicas"), 3)
		w.want("node port in status", at(ws, "status", "nodePort"), 30010)

		w.forget()
		w.patch(resource, "web", `{"spec":{"replicas":5}}`)
		w.wantRequests("GET deployments/web 200", "MIGRATE deployments/web 200", "APPLY deployments/web 200", "PATCH webservers/web/status 200")
		w.want("replicas", w.replicas(), 5)
		w.wantCondition("web", "Ready", "False/RollingOut")
		w.rollOut("web")
		w.wantCondition("web", "Ready", "True/Complete")

		w.forget()
		w.patch(resource, "web", `{"spec":{"image":"nginx:1.25"}}`)
		w.wantRequests("APPLY deployments/web 200", "PATCH webservers/web/status 200")
		w.want("image", w.container("image"), "nginx:1.25")

		w.forget()
		w.delete(services, "web-service")
		w.wantRequests("GET webservers/web 200", "POST services 201") // has it gone with its owner?
		w.want("node port", w.nodePort(), 30010)

		w.forget()
		w.delete(deployments, "web")
		w.wantRequests("GET webservers/web 200", "POST deployments 201", "PATCH webservers/web/status 200")
		w.want("replicas", w.replicas(), 5)

		w.forget()
		w.delete(resource, "web")
		w.pass(10 * time.Minute)
		w.wantRequests() // the garbage collector's work, and nobody here plays that
		if o := at(w.api.Get(deployments, web("web")), "metadata", "ownerReferences", 0); at(o, "controller") != true || at(o, "blockOwnerDeletion") != true {
			w.Errorf("the Deployment's owner reference is %v", o)
		}
	})
}

// Rules: WRT-04, WRT-34
func TestSteadyStateSendsNothing(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", `{"image":"nginx","replicas":2,"resources":{"requests":{"cpu":"0.5","memory":"0.5Gi"},"limits":{"cpu":1}},
			"env":[{"name":"EMPTY","value":""}],"template":{"spec":{"hostNetwork":false,"containers":[{"name":"webserver","securityContext":{"runAsUser":0}}]}}}`)
		w.rollOut("web")
		w.forget()
		w.pass(time.Hour)
		w.wantRequests()
		for i := range 20 { // each wakes the reconcile
			w.patchSub(deployments, "web", "status", `{"status":{"conditions":[{"type":"Available","status":"True"}]}}`)
			w.patch(deployments, "web", `{"metadata":{"labels":{"example.com/round":"`+strconv.Itoa(i)+`"}}}`)
		}
		w.wantRequests()
		w.stop()
		w.start()
		w.pass(time.Minute)
		// A server that does not store hostNetwork: false is asked once whether that is as it should be: get, migrate, apply.
		if got := w.requests(); len(got) > 3 || w.count("POST") > 0 || w.count("PATCH") > 0 {
			w.Errorf("after a restart: %v", got)
		}
		w.forget()
		w.pass(time.Hour)
		w.wantRequests()
	})
}

func TestWhatOthersOwnIsNotFought(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", `{"image":"nginx"}`)
		w.patch(deployments, "web", `{"spec":{"replicas":7,"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
		if err := w.user.Patch(w.Context(), deployments, web("web"), kube.StrategicMergePatch,
			w.json(`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"proxy"}]}}}}`), nil, kube.WriteOptions{FieldManager: "user"}); err != nil {
			w.Fatal(err)
		}
		w.settle()
		w.patch(resource, "web", `{"spec":{"image":"nginx:2","port":8080}}`)
		w.want("replicas", w.replicas(), 7)
		d := w.api.Get(deployments, web("web"))
		w.want("restart annotation", at(d, "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"), "now")
		containers, _ := at(d, "spec", "template", "spec", "containers").([]any)
		images := map[any]any{}
		for _, c := range containers {
			images[at(c, "name")] = at(c, "image")
		}
		w.want("images", images, map[any]any{"webserver": "nginx:2", "sidecar": "proxy"})
	})
}

// Rules: WRT-08
func TestRemovedFieldsGoFromTheDeployment(t *testing.T) {
	for name, restart := range map[string]bool{"in one life of the process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.create("web", `{"image":"nginx","replicas":1,"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"template":{"spec":{"nodeSelector":{"disk":"ssd"}}}}`)
				if restart {
					w.stop()
					w.start()
				}
				w.patch(resource, "web", `{"spec":{"env":[{"name":"B","value":"2"}],"template":null}}`)
				w.want("env", w.container("env"), []any{map[string]any{"name": "B", "value": "2"}})
				w.want("node selector", at(w.api.Get(deployments, web("web")), "spec", "template", "spec", "nodeSelector"), nil)
				w.forget()
				w.pass(time.Minute)
				w.wantRequests()
			})
		})
	}
}

func TestRemovingReplicasKeepsThePresentCount(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", `{"image":"nginx","replicas":4}`)
		w.forget()
		w.patch(resource, "web", `{"spec":{"replicas":null}}`)
		w.want("replicas", w.replicas(), 4)
		w.wantRequests("GET deployments/web 200", "MIGRATE deployments/web 200", "APPLY as skiff-handover deployments/web 200",
			"APPLY deployments/web 200", "PATCH webservers/web/status 200")
		w.patch(deployments, "web", `{"spec":{"replicas":9}}`)
		w.patch(resource, "web", `{"spec":{"image":"nginx:2"}}`)
		w.want("replicas after an autoscaler's change", w.replicas(), 9)
		w.patch(resource, "web", `{"spec":{"replicas":2}}`)
		w.want("replicas declared again", w.replicas(), 2)
		w.stop()
		w.patch(resource, "web", `{"spec":{"replicas":null,"image":"nginx:3"}}`)
		w.start()
		w.want("replicas removed while the controller was down", w.replicas(), 2)
		w.want("image", w.container("image"), "nginx:3")
	})
}

func TestAllocatedNodePortIsKept(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", `{"image":"nginx"}`)
		port := w.nodePort()
		w.want("node port in status", at(w.api.Get(resource, web("web")), "status", "nodePort"), port)
		w.delete(services, "web-service")
		w.want("node port of the Service made again", w.nodePort(), port)
		w.patch(resource, "web", `{"spec":{"port":8080}}`)
		w.want("node port after a change of the port", w.nodePort(), port)
		w.patch(resource, "web", `{"spec":{"nodePort":30099}}`)
		w.want("declared node port", w.nodePort(), 30099)
		w.patch(resource, "web", `{"spec":{"nodePort":null}}`)
		w.want("node port declared no longer", w.nodePort(), 30099)
		w.wantCondition("web", "Degraded", "False/AsExpected")
	})
}

// taker is a Service of somebody else.
func taker(name, port string) string {
	return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"` + name + `"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":` + port + `}]}}`
}

func TestKeptNodePortThatIsTakenIsReplacedAndReported(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.patch(resource, "web", `{"spec":{"nodePort":null}}`)
		w.stop()
		w.delete(services, "web-service")
		w.post(services, w.json(taker("other", "30010")))
		w.forget()
		w.start()
		if n := w.nodePort(); n != nil {
			w.Errorf("there is a Service with node port %v at once: the API server may just not have freed ours yet", n)
		}
		w.pass(10 * time.Second)
		port, _ := w.nodePort().(int64)
		if port == 0 || port == 30010 {
			w.Errorf("node port %d, want another one", port)
		}
		w.want("node port in status", at(w.api.Get(resource, web("web")), "status", "nodePort"), port)
		w.wantCondition("web", "Degraded", "False/NodePortChanged")
		w.patch(deployments, "web", `{"metadata":{"annotations":{"x":"y"}}}`)
		w.wantCondition("web", "Degraded", "False/NodePortChanged")
		if n := len(w.requests()); n > 30 {
			w.Errorf("%d requests for it: %v", n, w.requests())
		}
	})
}

// The API server tells of a Service's deletion before it has freed its node port.
func TestNodePortThatIsFreedLateIsStillKept(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", `{"image":"nginx"}`)
		port := w.nodePort()
		w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "services", UserAgent: agent, Times: 2, Reply: &fakeapi.Reply{Code: 422, ContentType: "application/json",
			Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"Service \"web-service\" is invalid",
				"details":{"name":"web-service","kind":"Service","causes":[{"reason":"FieldValueInvalid","message":"provided port is already allocated","field":"spec.ports[0].nodePort"}]}}`}})
		w.forget()
		w.delete(services, "web-service")
		w.pass(100 * time.Millisecond)
		w.want("node port", w.nodePort(), port)
		w.wantRequests("GET webservers/web 200", "POST services 422", "GET services/web-service 404",
			"GET webservers/web 200", "POST services 422", "GET services/web-service 404",
			"GET webservers/web 200", "POST services 201")
	})
}

func TestNodePortsThatAreUsedUpAreReportedAndWaitedFor(t *testing.T) {
	story(t, func(w *world) {
		remove := w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "services", UserAgent: agent, Reply: &fakeapi.Reply{
			Code: 422, ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,
				"message":"Service \"web-service\" is invalid: spec.ports[0].nodePort: Internal error: failed to allocate a nodePort: range is full",
				"details":{"name":"web-service","kind":"Service","causes":[{"reason":"InternalError","message":"Internal error: failed to allocate a nodePort: range is full","field":"spec.ports[0].nodePort"}]}}`}})
		w.create("web", `{"image":"nginx"}`)
		w.pass(30 * time.Second)
		w.wantCondition("web", "Degraded", "True/NodePortRefused")
		if n := w.count("POST services"); n > 15 {
			w.Errorf("%d attempts in half a minute", n)
		}
		remove()
		w.pass(2 * time.Minute)
		w.want("a node port", w.nodePort() != nil, true)
		w.wantCondition("web", "Degraded", "False/AsExpected")
	})
}

func TestDeclaredNodePortThatIsTakenIsReportedAndTakenOnceFree(t *testing.T) {
	story(t, func(w *world) {
		w.post(services, w.json(taker("other", "30010")))
		w.create("web", article)
		w.pass(10 * time.Second)
		w.wantCondition("web", "Degraded", "True/NodePortRefused")
		w.wantCondition("web", "Ready", "False/NodePortRefused")
		w.forget()
		w.pass(10 * time.Minute)
		if n := len(w.requests()); n > 25 {
			w.Errorf("%d requests in ten minutes: %v", n, w.requests())
		}
		w.delete(services, "other")
		w.pass(2 * time.Minute)
		w.want("node port", w.nodePort(), 30010)
		w.wantCondition("web", "Degraded", "False/AsExpected")
	})
}

// Rules: WRT-13
func TestForeignObjectIsLeftAloneAndReported(t *testing.T) {
	for name, label := range map[string]string{"unseen by the cache": "", "seen by the cache": `"app.kubernetes.io/managed-by":"skiff"`} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				foreign := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service","labels":{` + label + `}},"spec":{"ports":[{"port":1234}]}}`
				w.post(services, w.json(foreign))
				before := w.api.Get(services, web("web-service"))
				w.create("web", `{"image":"nginx","replicas":1}`)
				w.rollOut("web")
				w.wantCondition("web", "Degraded", "True/NameTaken")
				w.wantCondition("web", "Ready", "False/NameTaken")
				w.wantCondition("web", "Progressing", "False/Complete")
				w.want("the foreign Service", w.api.Get(services, web("web-service")), before)
				w.forget()
				for i := range 10 {
					w.patch(deployments, "web", `{"metadata":{"labels":{"example.com/round":"`+strconv.Itoa(i)+`"}}}`)
				}
				w.wantRequests() // whatever wakes the reconcile, the foreign object is looked at slowly
				w.pass(10 * time.Minute)
				if n := len(w.requests()); n > 11 {
					w.Errorf("%d requests in ten minutes: %v", n, w.requests())
				}
				w.delete(services, "web-service")
				w.pass(2 * time.Minute)
				w.wantCondition("web", "Ready", "True/Complete")
			})
		})
	}
}

// Rules: WRT-28
func TestChildrenOfAnEarlierWebServerOfTheSameNameAreForeign(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		old := w.api.Get(deployments, web("web"))
		w.stop()
		w.delete(resource, "web")
		w.create("web", `{"image":"other","replicas":1}`)
		w.start()
		w.wantCondition("web", "Degraded", "True/NameTaken")
		w.want("the old Deployment", w.api.Get(deployments, web("web")), old)
		w.delete(deployments, "web") // as the garbage collector does
		w.delete(services, "web-service")
		w.want("image", w.container("image"), "other")
		w.rollOut("web")
		w.wantCondition("web", "Ready", "True/Complete")
	})
}

func TestLostLabelComesBack(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		uid := at(w.api.Get(deployments, web("web")), "metadata", "uid")
		for _, r := range []kube.Resource{deployments, services} {
			name := map[bool]string{true: "web", false: "web-service"}[r == deployments]
			w.patch(r, name, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
			w.pass(5 * time.Second)
			w.want("label of the "+r.Kind, at(w.api.Get(r, web(name)), "metadata", "labels", "app.kubernetes.io/managed-by"), "skiff")
		}
		w.want("uid", at(w.api.Get(deployments, web("web")), "metadata", "uid"), uid)
		w.forget()
		w.pass(time.Minute)
		w.wantRequests()
	})
}
