package webserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"skiff/internal/kube"
	"skiff/internal/operatortest"
	"skiff/internal/patch"
)

// Whatever users, an autoscaler, nodes, networks and the process itself do: when all is calm, the children are what is declared, what
// others own in them is what they have made of it, and nobody else's object was touched.
//
// Rules: CCH-11, MGR-15, WRT-04, WRT-13, WRT-14
func TestAnyLifeEndsAsDeclared(t *testing.T) {
	operatortest.Lives(t, options, func(l *operatortest.Life) {
		(&life{Life: l, others: map[string]map[string]any{}}).run()
	})
}

// life is a random sequence of what can happen to the WebServers a and b.
type life struct {
	*operatortest.Life
	others map[string]map[string]any // what others have last made of a child, by uid: path and value
}

var names = []string{"a", "b"}

func (l *life) run() {
	cluster := operatortest.NewCluster(l.World, l.turn)
	cluster.Orphaned = l.Strange
	l.Start()
	l.Go(30, 4*time.Second, l.act)
	l.repair()
	l.Pass(operatortest.Calm)
	l.check()
	l.Steady()
	ports := l.loseChildren()
	l.Pass(operatortest.Calm)
	l.check()
	for _, name := range names {
		if ws := l.webServer(name); ws != nil && ports[name] != nil {
			l.Want("node port of the Service made again for "+name, *ws.Status.NodePort, *ports[name])
		}
		l.TryDelete(resource, name, kube.DeleteOptions{Propagation: operatortest.Pick(l.Life, kube.Background, kube.Foreground)})
	}
	l.Pass(operatortest.Calm)
	l.check()
}

const (
	brokenImage  = "nginx:broken"  // its pods never become ready
	rollOutTime  = 2 * time.Second // from a new generation of a Deployment until its pods are ready
	restartedAt  = "kubectl.kubernetes.io/restartedAt"
	sharedPort   = 30020 // of all node ports, the one that both want
	sidecarImage = "proxy:1"
)

// turn plays the garbage collector and the Deployment controller.
func (l *life) turn(ctx context.Context, c *operatortest.Cluster) {
	c.Collect(ctx, deployments, services)
	for _, o := range l.API.List(deployments, "") {
		d := operatortest.Convert[deployment](l.World, o)
		n := replicas(&WebServer{}, d)
		s := d.Status
		image := at(o, "spec", "template", "spec", "containers", 0, "image")
		switch {
		case s.ObservedGeneration == d.Generation && (s.AvailableReplicas == n || len(s.Conditions) > 0),
			!c.After(d.UID, fmt.Sprint(d.Generation, s.AvailableReplicas), rollOutTime):
		case image == brokenImage && n > 0:
			l.rolled(ctx, c, d, n, 0, `[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]`)
		default:
			l.rolled(ctx, c, d, n, n, "null")
		}
	}
}

func (l *life) rolled(ctx context.Context, c *operatortest.Cluster, d *deployment, replicas, available int32, conditions string) {
	c.Patch(ctx, deployments, &d.Meta, "status", l.JSON(fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%[2]d,
		"readyReplicas":%d,"availableReplicas":%[3]d,"conditions":%s}}`, d.Generation, replicas, available, conditions)))
}

func (l *life) webServer(name string) *WebServer {
	return operatortest.Convert[WebServer](l.World, l.API.Get(resource, web(name)))
}

func (l *life) act() {
	name := operatortest.Pick(l.Life, "a", "a", "b")
	policy := kube.DeleteOptions{Propagation: operatortest.Pick(l.Life, "", kube.Background, kube.Foreground)}
	switch n := l.Rand.IntN(100); {
	case n < 18:
		l.TryPost(resource, l.Body(name, `{"image":"nginx:1"`+operatortest.Pick(l.Life, "", `,"replicas":3`, `,"replicas":2`, `,"nodePort":`+fmt.Sprint(sharedPort))+"}"))
	case n < 26:
		l.scale(name, operatortest.Pick(l.Life, "0", "1", "4", "null", "null"), "")
	case n < 28:
		if ws := l.webServer(name); ws != nil && ws.Spec.Replicas != nil { // otherwise the server has nothing to scale
			l.scale(name, operatortest.Pick(l.Life, "2", "3"), "scale")
		}
	case n < 42:
		l.TryPatch(resource, name, "", `{"spec":`+operatortest.Pick(l.Life, `{"image":"nginx:2"}`, `{"image":"nginx:3"}`, `{"image":"`+brokenImage+`"}`, `{"port":8080}`,
			`{"port":null}`, `{"nodePort":30011}`, `{"nodePort":`+fmt.Sprint(sharedPort)+`}`, `{"nodePort":null}`, `{"env":[{"name":"A","value":"1"},{"name":"B","value":""}]}`,
			`{"env":[{"name":"B","value":"2"}]}`, `{"env":null}`, `{"resources":{"limits":{"cpu":"0.5"}}}`, `{"resources":null}`,
			`{"template":{"spec":{"nodeSelector":{"a":"b"},"hostNetwork":false}}}`, `{"template":{"spec":{"containers":[{"name":"X"}]}}}`, `{"template":null}`)+`}`)
	case n < 47:
		l.TryPatch(resource, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":`+operatortest.Pick(l.Life, `"true"`, "null")+`}}}`)
	case n < 51:
		l.TryDelete(resource, name, policy)
	case n < 53:
		l.orphan(name)
	case n < 60:
		l.TryDelete(deployments, name, policy)
	case n < 63:
		l.TryDelete(services, serviceName(name), policy)
	case n < 66:
		l.TryPatch(deployments, name, "", `{"metadata":{"labels":{"`+operatortest.Pick(l.Life, "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")+`":null}}}`)
		l.TryPatch(services, serviceName(name), "", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}},"spec":{"selector":null}}`)
	case n < 74:
		l.touch(name)
	case n < 77:
		l.TryPatch(deployments, name, "status", `{"status":{"readyReplicas":0,"availableReplicas":0}}`)
	case n < 80:
		l.makeForeign(name)
	case n < 90:
		l.Break([]string{"create", "patch", "patch", "get"}, []string{"webservers", "deployments", "services"})
	case n < 95:
		l.Restart()
	default:
		l.RestartToBeKilled()
	}
}

// scale declares a number of pods, or (null) leaves it to others. Then the last one that was declared stays.
func (l *life) scale(name, replicas, subresource string) {
	ws, d := l.webServer(name), l.API.Get(deployments, web(name))
	if ws == nil || ws.Spec.Replicas == nil && replicas == "null" {
		return
	}
	uid, _ := at(d, "metadata", "uid").(string)
	delete(l.others[uid], "replicas")
	now := at(d, "spec", "replicas")
	reached := ws.Spec.Replicas != nil && now == int64(*ws.Spec.Replicas) && ws.Status.ObservedGeneration == ws.Generation
	if l.TryPatch(resource, name, subresource, `{"spec":{"replicas":`+replicas+`}}`) && replicas == "null" && reached {
		l.remember(uid, "replicas", now)
	}
}

// touch is what others do to a child in fields that are not ours: an autoscaler, `kubectl rollout restart`, an injector, a user.
func (l *life) touch(name string) {
	ws, d := l.webServer(name), l.API.Get(deployments, web(name))
	uid, _ := at(d, "metadata", "uid").(string)
	stamp := time.Now().Format(time.RFC3339)
	switch l.Rand.IntN(4) {
	case 0:
		// Whoever scales while the controller has not seen yet that it is to let go meets its last word.
		if ws != nil && ws.Spec.Replicas == nil && ws.Status.ObservedGeneration == ws.Generation {
			n := int64(l.Rand.IntN(9))
			if l.TryPatch(deployments, name, "", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)) {
				l.remember(uid, "replicas", n)
			}
		}
	case 1:
		if l.TryPatch(deployments, name, "", `{"spec":{"template":{"metadata":{"annotations":{"`+restartedAt+`":"`+stamp+`"}}}}}`) {
			l.remember(uid, restartedAt, stamp)
		}
	case 2:
		l.Tell("inject a sidecar into %s", name)
		err := l.User.Patch(l.Context(), deployments, web(name), kube.StrategicMergePatch,
			l.JSON(`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"`+sidecarImage+`"}]}}}}`), nil, kube.WriteOptions{FieldManager: "injector"})
		if err == nil {
			l.remember(uid, "sidecar", sidecarImage)
		} else if !kube.IsNotFound(err) {
			l.Fatal(err)
		}
	case 3:
		service, _ := at(l.API.Get(services, web(serviceName(name))), "metadata", "uid").(string)
		if l.TryPatch(services, serviceName(name), "", `{"metadata":{"annotations":{"example.com/mine":"`+stamp+`"}},"spec":{"sessionAffinity":"ClientIP"}}`) {
			l.remember(service, "annotation", stamp)
			l.remember(service, "affinity", "ClientIP")
		}
	}
}

func (l *life) remember(uid, what string, value any) {
	if l.others[uid] == nil {
		l.others[uid] = map[string]any{}
	}
	l.others[uid][what] = value
}

// orphan deletes a WebServer and leaves its children. What the controller has sent already must not come after that.
func (l *life) orphan(name string) {
	l.Mend()
	l.Pass(10 * time.Second)
	l.TryDelete(resource, name, kube.DeleteOptions{Propagation: kube.Orphan})
	l.Pass(time.Second) // the garbage collector has let the children go
}

func (l *life) makeForeign(name string) {
	labels := operatortest.Pick(l.Life, `{"app":"theirs"}`, `{"app.kubernetes.io/managed-by":"skiff"}`)
	if l.Rand.IntN(2) == 0 {
		l.Foreign(services, fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"labels":%s},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%s}]}}`,
			serviceName(name), labels, operatortest.Pick(l.Life, "30040", fmt.Sprint(sharedPort))))
		return
	}
	l.Foreign(deployments, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"labels":%s},"spec":{"selector":{"matchLabels":{"app":"own"}},
		"template":{"metadata":{"labels":{"app":"own"}},"spec":{"containers":[{"name":"own","image":"own"}]}}}}`, name, labels))
}

// repair ends what would keep a WebServer from ever being ready, and changes nothing else.
func (l *life) repair() {
	l.Mend()
	l.Dismiss()
	for _, name := range names {
		l.TryPatch(resource, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":null}},"spec":{"template":null}}`)
		if ws := l.webServer(name); ws != nil && ws.Spec.Image == brokenImage {
			l.TryPatch(resource, name, "", `{"spec":{"image":"nginx:4"}}`)
		}
	}
	shared := at(l.API.Get(services, web(serviceName("b"))), "spec", "ports", 0, "nodePort") == int64(sharedPort)
	if ws := l.webServer("b"); ws != nil && (ws.Spec.NodePort != nil || shared) { // a may have it, or want it
		l.TryPatch(resource, "b", "", `{"spec":{"nodePort":30099}}`)
	}
}

// loseChildren deletes all children that are left, and returns the node ports that have to come back.
func (l *life) loseChildren() map[string]*int32 {
	ports := map[string]*int32{}
	for _, name := range names {
		if ws := l.webServer(name); ws != nil {
			ports[name] = ws.Status.NodePort
		}
		l.TryDelete(deployments, name, kube.DeleteOptions{})
		l.TryDelete(services, serviceName(name), kube.DeleteOptions{})
	}
	return ports
}

// check compares the world with what is declared.
func (l *life) check() {
	l.Helper()
	n := 0
	for _, name := range names {
		ws := l.webServer(name)
		if ws == nil {
			continue
		}
		n++
		if ws.Deleting() {
			l.Errorf("WebServer %s is still being deleted: %v", name, ws.Finalizers)
			continue
		}
		want, err := desired(ws)
		if err != nil {
			l.Fatal(err)
		}
		d := l.child(ws, deployments, name, want.deployment.Body)
		svc := l.child(ws, services, serviceName(name), want.service.Body)
		l.checkWhole(want.deployment.Body, d)
		l.checkOthers(ws, d, svc)
		l.checkStatus(ws, d, svc)
	}
	l.Want("Deployments", len(l.API.List(deployments, "")), n)
	l.Want("Services besides that of the API server", len(l.API.List(services, ""))-1, n)
}

// child returns a child that has to be there, to be ours, and to have all that is declared.
func (l *life) child(ws *WebServer, r kube.Resource, name string, want map[string]any) map[string]any {
	l.Helper()
	o := l.API.Get(r, web(name))
	if meta := operatortest.Convert[deployment](l.World, o); meta == nil || meta.ControllerUID() != ws.UID || meta.Deleting() {
		l.Fatalf("%s %s is not there or not ours: %v", r.Kind, name, at(o, "metadata"))
	}
	if ok, path := patch.Covered(patch.SchemaFor(r.APIVersion(), r.Kind), want, o); !ok {
		l.Errorf("%s %s is not as declared in %s: %v", r.Kind, name, path, o["spec"])
	}
	return o
}

// ours returns what nobody but us declares of a pod template; null and {} are the same.
func ours(deployment map[string]any, field string) any {
	spec := at(deployment, "spec", "template", "spec")
	if field == "nodeSelector" {
		return at(spec, field)
	}
	containers, _ := at(spec, "containers").([]any)
	for _, c := range containers {
		if v := at(c, field); at(c, "name") == container && fmt.Sprint(v) != "map[]" {
			return v
		}
	}
	return nil
}

// checkWhole checks that a Deployment has nothing of what is declared no longer.
func (l *life) checkWhole(want, got map[string]any) {
	l.Helper()
	for _, field := range []string{"env", "nodeSelector"} {
		l.Want(field, len(list(ours(got, field))), len(list(ours(want, field))))
	}
	if ours(want, "resources") == nil {
		l.Want("resources", ours(got, "resources"), nil)
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
func (l *life) checkOthers(ws *WebServer, d, svc map[string]any) {
	l.Helper()
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
		for what, value := range l.others[uid] {
			if what != "replicas" || ws.Spec.Replicas == nil {
				l.Want("what others have made of "+what+" of "+ws.Name, now[what], value)
			}
		}
	}
}

func (l *life) checkStatus(ws *WebServer, d, svc map[string]any) {
	l.Helper()
	degraded := "False/AsExpected"
	if l.Condition(ws.Name, "Degraded") == "False/"+nodePortChanged { // news, and no fault
		degraded = "False/" + nodePortChanged
	}
	l.WantCondition(ws.Name, "Ready", "True/Complete")
	l.WantCondition(ws.Name, "Progressing", "False/Complete")
	l.WantCondition(ws.Name, "Degraded", degraded)
	l.WantCondition(ws.Name, "Stalled", "False/AsExpected")
	l.WantCondition(ws.Name, "Paused", "False/NotAnnotated")
	s := ws.Status
	n := at(d, "spec", "replicas")
	l.Want("replicas in the status", []any{int64(s.Replicas), int64(s.ReadyReplicas), int64(s.UpdatedReplicas)}, []any{n, n, n})
	l.Want("generation in the status", s.ObservedGeneration, ws.Generation)
	l.Want("selector", s.Selector, selector(ws.Name))
	l.Want("node port in the status", int64(*s.NodePort), at(svc, "spec", "ports", 0, "nodePort"))
}
