package webserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/operatortest"
)

// Whatever users, an autoscaler, nodes, networks and the process itself do: in the end the children are what is
// declared, what others own in them is what they have made of it, and no foreign object was touched.
//
// Rules: CCH-11, MGR-15, PL-04, PL-08, PL-10, WRT-04, WRT-13, WRT-14
func TestRandomHistoriesEndAsDeclared(t *testing.T) {
	operatortest.RandomHistories(t, options, func(h *operatortest.History) {
		(&history{History: h, others: map[string]map[string]any{}}).run()
	})
}

// history is a random sequence of what can happen to the WebServers a and b.
type history struct {
	*operatortest.History
	others map[string]map[string]any // what others have last made of a child, by uid: path and value
}

var names = []string{"a", "b"}

func (h *history) run() {
	operatortest.NewCluster(h.Env, h.step)
	h.crowd()
	h.Start()
	h.Steps(30, 4*time.Second, h.act)
	h.repair()
	h.Overfill()
	h.Pass(operatortest.LongWait)
	h.check()
	h.WantNoWrites()
	h.LeaveAlone(h.edit)
	h.check()
	for range 3 {
		h.PlanAndRun([]kube.Resource{deployments, services}, h.edit)
	}
	h.check()
	ports := h.loseChildren()
	h.Pass(operatortest.LongWait)
	h.check()
	for _, name := range names {
		if ws := h.webServer(name); ws != nil && ports[name] != nil {
			h.Want("node port of the Service made again for "+name, *ws.Status.NodePort, *ports[name])
		}
		h.TryDelete(resource, name, kube.DeleteOptions{Propagation: operatortest.Pick(h.History, kube.Background,
			kube.Foreground)})
	}
	h.Pass(operatortest.LongWait)
	h.check()
}

// crowd has users who create many or large objects.
func (h *history) crowd() {
	image := ""
	elsewhere := kube.Key{Namespace: operatortest.Elsewhere, Name: "quiet"}
	child := func(r kube.Resource, spec string) operatortest.Member {
		return operatortest.Member{Resource: r, Body: func(name string) string {
			return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"app.kubernetes.io/managed-by":"skiff"}},"spec":%s}`,
				r.APIVersion(), r.Kind, name, spec)
		}}
	}
	h.UseCrowd(operatortest.Crowd{
		Kinds: []operatortest.Member{
			{Resource: resource, Body: func(name string) string {
				return h.Body(name, operatortest.Pick(h.History, `{"image":"nginx:1"}`, `{"image":"nginx:1","replicas":2}`))
			}},
			child(services, `{"ports":[{"port":80}]}`),
			child(deployments, `{"replicas":0,"selector":{"matchLabels":{"app":"own"}},"template":{"metadata":{"labels":{"app":"own"}},"spec":{"containers":[{"name":"own","image":"own"}]}}}`),
		},
		Create: func() { h.PostIn(elsewhere.Namespace, resource, h.Body(elsewhere.Name, `{"image":"nginx:1"}`)) },
		Change: func() {
			image = operatortest.Pick(h.History, "nginx:2", "nginx:3")
			h.PatchIn(elsewhere.Namespace, resource, elsewhere.Name, `{"spec":{"image":"`+image+`"}}`)
		},
		Within: 4 * time.Second,
		Check: func() {
			ws, d := h.API.Get(resource, elsewhere), h.API.Get(deployments, elsewhere)
			h.Want("image elsewhere", at(d, "spec", "template", "spec", "containers", 0, "image"), image)
			h.Want("Ready elsewhere", at(ws, "status", "conditions", 0, "reason"), "Complete")
			h.Want("generation elsewhere", at(ws, "status", "observedGeneration"), at(ws, "metadata", "generation"))
		},
		Delete: []string{"b"},
	})
}

const (
	brokenImage  = "nginx:broken"  // its pods never become ready
	rollOutTime  = 2 * time.Second // from a new generation of a Deployment until its pods are ready
	restartedAt  = "kubectl.kubernetes.io/restartedAt"
	sharedPort   = 30020 // of all node ports, the one that both want
	sidecarImage = "proxy:1"
)

// step plays the garbage collector and the Deployment controller.
func (h *history) step(ctx context.Context, c *operatortest.Cluster) {
	c.Collect(ctx, deployments, services)
	for _, o := range h.API.List(deployments, "") {
		d := operatortest.Convert[deployment](h.Env, o)
		n := replicas(&WebServer{}, d)
		s := d.Status
		image := at(o, "spec", "template", "spec", "containers", 0, "image")
		switch {
		case s.ObservedGeneration == d.Generation && (s.AvailableReplicas == n || len(s.Conditions) > 0),
			!c.After(d.UID, fmt.Sprint(d.Generation, s.AvailableReplicas), rollOutTime):
		case image == brokenImage && n > 0:
			h.rolled(ctx, c, d, n, 0, `[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]`)
		default:
			h.rolled(ctx, c, d, n, n, "null")
		}
	}
}

func (h *history) rolled(ctx context.Context, c *operatortest.Cluster, d *deployment, replicas, available int32,
	conditions string) {
	c.Patch(ctx, deployments, &d.Meta, "status", h.JSON(fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%[2]d,
		"readyReplicas":%d,"availableReplicas":%[3]d,"conditions":%s}}`, d.Generation, replicas, available, conditions)))
}

func (h *history) webServer(name string) *WebServer {
	return operatortest.Convert[WebServer](h.Env, h.API.Get(resource, web(name)))
}

func (h *history) act() {
	name := operatortest.Pick(h.History, "a", "a", "b")
	policy := kube.DeleteOptions{Propagation: operatortest.Pick(h.History, "", kube.Background, kube.Foreground)}
	switch n := h.Rand.IntN(100); {
	case n < 18:
		h.create(name, operatortest.Pick(h.History, "", `,"replicas":3`, `,"replicas":2`,
			`,"nodePort":`+fmt.Sprint(sharedPort)))
	case n < 26:
		h.scale(name, operatortest.Pick(h.History, "0", "1", "4", "null", "null"), "")
	case n < 28:
		if ws := h.webServer(name); ws != nil && ws.Spec.Replicas != nil { // otherwise the server has nothing to scale
			h.scale(name, operatortest.Pick(h.History, "2", "3"), "scale")
		}
	case n < 42:
		h.TryPatch(resource, name, "", `{"spec":`+operatortest.Pick(h.History, `{"image":"nginx:2"}`, `{"image":"nginx:3"}`, `{"image":"`+brokenImage+`"}`, `{"port":8080}`,
			`{"port":null}`, `{"nodePort":30011}`, `{"nodePort":`+fmt.Sprint(sharedPort)+`}`, `{"nodePort":null}`, `{"env":[{"name":"A","value":"1"},{"name":"B","value":""}]}`,
			`{"env":[{"name":"B","value":"2"}]}`, `{"env":null}`, `{"resources":{"limits":{"cpu":"0.5"}}}`, `{"resources":null}`,
			`{"template":{"spec":{"nodeSelector":{"a":"b"},"hostNetwork":false}}}`, `{"template":{"spec":{"containers":[{"name":"X"}]}}}`, `{"template":null}`)+`}`)
	case n < 47:
		h.TryPatch(resource, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":`+operatortest.Pick(h.History, `"true"`, "null")+`}}}`)
	case n < 51:
		h.TryDelete(resource, name, policy)
	case n < 53:
		h.orphan(name)
	case n < 60:
		h.TryDelete(deployments, name, policy)
	case n < 63:
		h.TryDelete(services, serviceName(name), policy)
	case n < 66:
		h.TryPatch(deployments, name, "", `{"metadata":{"labels":{"`+operatortest.Pick(h.History, "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")+`":null}}}`)
		h.TryPatch(services, serviceName(name), "", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}},"spec":{"selector":null}}`)
	case n < 74:
		h.touch(name)
	case n < 77:
		h.TryPatch(deployments, name, "status", `{"status":{"readyReplicas":0,"availableReplicas":0}}`)
	case n < 80:
		h.makeForeign(name)
	case n < 90:
		h.InjectFault([]string{"create", "patch", "patch", "get"}, []string{"webservers", "deployments", "services"})
	case n < 95:
		h.Restart()
	default:
		h.RestartToBeKilled()
	}
}

// edit is what users do while the process is down. No two of their changes depend on each other.
func (h *history) edit() {
	for _, name := range names {
		switch h.Rand.IntN(6) {
		case 0:
			h.create(name, operatortest.Pick(h.History, "", `,"replicas":3`))
		case 1:
			h.scale(name, operatortest.Pick(h.History, "2", "4", "null"), "")
		case 2:
			h.TryPatch(resource, name, "", `{"spec":`+operatortest.Pick(h.History, `{"image":"nginx:2"}`, `{"port":8080}`, `{"port":null}`,
				`{"env":[{"name":"A","value":"1"},{"name":"B","value":""}]}`, `{"env":[{"name":"B","value":"2"}]}`, `{"env":null}`,
				`{"resources":{"limits":{"cpu":"0.5"}}}`, `{"resources":null}`,
				`{"template":{"spec":{"nodeSelector":{"a":"b"}}}}`, `{"template":null}`)+`}`)
		case 3:
			h.TryDelete(deployments, name, kube.DeleteOptions{})
		case 4:
			h.TryDelete(services, serviceName(name), kube.DeleteOptions{})
		case 5:
			h.touch(name)
		}
	}
}

// create makes a WebServer with more fields in its spec. One that declares replicas adopts a Deployment with that
// number.
func (h *history) create(name, fields string) {
	made := h.TryPost(resource, h.Body(name, `{"image":"nginx:1"`+fields+"}"))
	if made && strings.Contains(fields, "replicas") {
		uid, _ := at(h.API.Get(deployments, web(name)), "metadata", "uid").(string)
		delete(h.others[uid], "replicas")
	}
}

// scale declares a number of pods, or (null) leaves it to others. Then the last one that was declared stays.
func (h *history) scale(name, replicas, subresource string) {
	ws, d := h.webServer(name), h.API.Get(deployments, web(name))
	if ws == nil || ws.Spec.Replicas == nil && replicas == "null" {
		return
	}
	uid, _ := at(d, "metadata", "uid").(string)
	delete(h.others[uid], "replicas")
	now := at(d, "spec", "replicas")
	reached := ws.Spec.Replicas != nil && now == int64(*ws.Spec.Replicas) &&
		ws.Status.ObservedGeneration == ws.Generation
	if h.TryPatch(resource, name, subresource, `{"spec":{"replicas":`+replicas+`}}`) && replicas == "null" && reached {
		h.remember(uid, "replicas", now)
	}
}

// touch is what others do to a child in fields that are not ours: an autoscaler, `kubectl rollout restart`, an
// injector, a user.
func (h *history) touch(name string) {
	ws, d := h.webServer(name), h.API.Get(deployments, web(name))
	uid, _ := at(d, "metadata", "uid").(string)
	stamp := time.Now().Format(time.RFC3339)
	switch h.Rand.IntN(4) {
	case 0:
		// A user who scales while the controller has not seen yet that it is to let go meets its last word.
		if ws != nil && ws.Spec.Replicas == nil && ws.Status.ObservedGeneration == ws.Generation {
			n := int64(h.Rand.IntN(9))
			if h.TryPatch(deployments, name, "", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)) {
				h.remember(uid, "replicas", n)
			}
		}
	case 1:
		if h.TryPatch(deployments, name, "", `{"spec":{"template":{"metadata":{"annotations":{"`+restartedAt+`":"`+stamp+`"}}}}}`) {
			h.remember(uid, restartedAt, stamp)
		}
	case 2:
		h.Note("inject a sidecar into %s", name)
		err := h.User.Patch(h.Context(), deployments, web(name), kube.StrategicMergePatch,
			h.JSON(`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"`+sidecarImage+`"}]}}}}`), nil, kube.WriteOptions{FieldManager: "injector"})
		if err == nil {
			h.remember(uid, "sidecar", sidecarImage)
		} else if !kube.IsNotFound(err) {
			h.Fatal(err)
		}
	case 3:
		service, _ := at(h.API.Get(services, web(serviceName(name))), "metadata", "uid").(string)
		if h.TryPatch(services, serviceName(name), "", `{"metadata":{"annotations":{"example.com/mine":"`+stamp+`"}},"spec":{"sessionAffinity":"ClientIP"}}`) {
			h.remember(service, "annotation", stamp)
			h.remember(service, "affinity", "ClientIP")
		}
	}
}

func (h *history) remember(uid, what string, value any) {
	if h.others[uid] == nil {
		h.others[uid] = map[string]any{}
	}
	h.others[uid][what] = value
}

// orphan deletes a WebServer and leaves its children, which one of the same name adopts.
func (h *history) orphan(name string) {
	h.TryDelete(resource, name, kube.DeleteOptions{Propagation: kube.Orphan})
}

func (h *history) makeForeign(name string) {
	labels := operatortest.Pick(h.History, `{"app":"theirs"}`, `{"app.kubernetes.io/managed-by":"skiff"}`)
	if h.Rand.IntN(2) == 0 {
		h.CreateUnmanaged(services, fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"labels":%s},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%s}]}}`,
			serviceName(name), labels, operatortest.Pick(h.History, "30040", fmt.Sprint(sharedPort))))
		return
	}
	h.CreateUnmanaged(deployments, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"labels":%s},"spec":{"selector":{"matchLabels":{"app":"own"}},
		"template":{"metadata":{"labels":{"app":"own"}},"spec":{"containers":[{"name":"own","image":"own"}]}}}}`, name, labels))
}

// repair ends what would keep a WebServer from ever being ready, and changes nothing else.
func (h *history) repair() {
	h.EndFaults()
	h.Pass(2 * time.Second) // until the garbage collector has let orphans go
	h.RemoveUnmanaged()
	for _, name := range names {
		for r, child := range map[kube.Resource]string{deployments: name, services: serviceName(name)} {
			if o := h.API.Get(r, web(child)); o != nil && at(o, "metadata", "ownerReferences") == nil {
				h.TryDelete(r, child, kube.DeleteOptions{}) // an orphan that nothing adopts, or not yet
			}
		}
		h.TryPatch(resource, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":null}},"spec":{"template":null}}`)
		if ws := h.webServer(name); ws != nil && ws.Spec.Image == brokenImage {
			h.TryPatch(resource, name, "", `{"spec":{"image":"nginx:4"}}`)
		}
	}
	shared := at(h.API.Get(services, web(serviceName("b"))), "spec", "ports", 0, "nodePort") == int64(sharedPort)
	if ws := h.webServer("b"); ws != nil && (ws.Spec.NodePort != nil || shared) { // a may have it, or want it
		h.TryPatch(resource, "b", "", `{"spec":{"nodePort":30099}}`)
	}
}

// loseChildren deletes all children that are left, and returns the node ports that have to come back.
func (h *history) loseChildren() map[string]*int32 {
	ports := map[string]*int32{}
	for _, name := range names {
		if ws := h.webServer(name); ws != nil {
			ports[name] = ws.Status.NodePort
		}
		h.TryDelete(deployments, name, kube.DeleteOptions{})
		h.TryDelete(services, serviceName(name), kube.DeleteOptions{})
	}
	return ports
}

// check compares the cluster with what is declared.
func (h *history) check() {
	h.Helper()
	n := 0
	for _, name := range names {
		ws := h.webServer(name)
		if ws == nil {
			continue
		}
		n++
		if ws.Deleting() {
			h.Errorf("WebServer %s is still being deleted: %v", name, ws.Finalizers)
			continue
		}
		want, err := definition.Declare(ws)
		if err != nil {
			h.Fatal(err)
		}
		d := h.child(ws, deployments, name, want[0].Body)
		svc := h.child(ws, services, serviceName(name), want[1].Body)
		h.checkWhole(want[0].Body, d)
		h.checkOthers(ws, d, svc)
		h.checkStatus(ws, d, svc)
	}
	h.Want("Deployments", len(h.API.List(deployments, "default")), n)
	h.Want("Services besides that of the API server", len(h.API.List(services, "default"))-1, n)
}

// child returns a child that has to be there, to be ours, and to have all that is declared.
func (h *history) child(ws *WebServer, r kube.Resource, name string, want map[string]any) map[string]any {
	h.Helper()
	o := h.API.Get(r, web(name))
	if meta := operatortest.Convert[deployment](h.Env, o); meta == nil || meta.ControllerUID() != ws.UID ||
		meta.Deleting() {
		h.Fatalf("%s %s is not there or not ours: %v", r.Kind, name, at(o, "metadata"))
	}
	if ok, path := patch.Covered(patch.SchemaFor(r.APIVersion(), r.Kind), want, o); !ok {
		h.Errorf("%s %s is not as declared in %s: %v", r.Kind, name, path, o["spec"])
	}
	return o
}

// ours returns what we alone declare of a pod template; null and {} are the same.
func ours(deployment map[string]any, field string) any {
	spec := at(deployment, "spec", "template", "spec")
	if field == "nodeSelector" {
		return at(spec, field)
	}
	containers, _ := at(spec, "containers").([]any)
	for _, c := range containers {
		if v := at(c, field); at(c, "name") == Container && fmt.Sprint(v) != "map[]" {
			return v
		}
	}
	return nil
}

// checkWhole checks that a Deployment has nothing of what is declared no longer.
func (h *history) checkWhole(want, got map[string]any) {
	h.Helper()
	for _, field := range []string{"env", "nodeSelector"} {
		h.Want(field, len(list(ours(got, field))), len(list(ours(want, field))))
	}
	if ours(want, "resources") == nil {
		h.Want("resources", ours(got, "resources"), nil)
	}
}

// list returns the entries of a JSON list or object.
func list(v any) []any {
	out, _ := v.([]any)
	m, _ := v.(map[string]any)
	for _, e := range m {
		out = append(out, e)
	}
	return out
}

// checkOthers checks that what others have written is still there.
func (h *history) checkOthers(ws *WebServer, d, svc map[string]any) {
	h.Helper()
	sidecar := any(nil)
	for _, c := range list(at(d, "spec", "template", "spec", "containers")) {
		if at(c, "name") == "sidecar" {
			sidecar = at(c, "image")
		}
	}
	now := map[string]any{
		"replicas":   at(d, "spec", "replicas"),
		restartedAt:  at(d, "spec", "template", "metadata", "annotations", restartedAt),
		"sidecar":    sidecar,
		"annotation": at(svc, "metadata", "annotations", "example.com/mine"),
		"affinity":   at(svc, "spec", "sessionAffinity"),
	}
	for _, o := range []map[string]any{d, svc} {
		uid, _ := at(o, "metadata", "uid").(string)
		for what, value := range h.others[uid] {
			if what != "replicas" || ws.Spec.Replicas == nil {
				h.Want("what others have made of "+what+" of "+ws.Name, now[what], value)
			}
		}
	}
}

func (h *history) checkStatus(ws *WebServer, d, svc map[string]any) {
	h.Helper()
	degraded := "False/AsExpected"
	if h.Condition(ws.Name, "Degraded") == "False/"+"NodePortChanged" { // news, and no fault
		degraded = "False/" + "NodePortChanged"
	}
	h.WantCondition(ws.Name, "Ready", "True/Complete")
	h.WantCondition(ws.Name, "Progressing", "False/Complete")
	h.WantCondition(ws.Name, "Degraded", degraded)
	h.WantCondition(ws.Name, "Stalled", "False/AsExpected")
	h.WantCondition(ws.Name, "Paused", "False/NotAnnotated")
	s := ws.Status
	n := at(d, "spec", "replicas")
	h.Want("replicas in the status", []any{int64(s.Replicas), int64(s.ReadyReplicas), int64(s.UpdatedReplicas)},
		[]any{n, n, n})
	h.Want("generation in the status", s.ObservedGeneration, ws.Generation)
	h.Want("selector", s.Selector, operator.Selector(app, ws.Name))
	h.Want("node port in the status", int64(*s.NodePort), at(svc, "spec", "ports", 0, "nodePort"))
}
