package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/patch"
)

// childKind is a kind that people make children of.
type childKind struct {
	r         kube.Resource
	body      string // what is declared besides metadata
	tamper    string // a merge patch of another client that changes a declared field
	immutable string // what is declared then, which the server refuses; "": all of it can be changed
}

const (
	podTemplate = `{"metadata":{"labels":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"c",
		"image":"nginx","resources":{"requests":{"cpu":"0.5","memory":"0.5Gi"}},"env":[{"name":"E","value":""}],
		"ports":[{"containerPort":80}]}]}}`
	workload      = `"selector":{"matchLabels":{"a":"b"}},"template":` + podTemplate
	otherWorkload = `"selector":{"matchLabels":{"a":"c"}},"template":{"metadata":{"labels":{"a":"c"}},
		"spec":{"containers":[{"name":"c","image":"nginx"}]}}`
	jobTemplate = `{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx"}]}}`
)

var childKinds = []childKind{
	{kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"},
		`"spec":{"replicas":1,` + workload + `}`, `{"spec":{"replicas":2}}`, `"spec":{` + otherWorkload + `}`},
	{kube.Resource{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet"},
		`"spec":{"replicas":1,"serviceName":"x",` + workload + `}`, `{"spec":{"replicas":2}}`,
		`"spec":{"serviceName":"y",` + workload + `}`},
	{kube.Resource{Group: "apps", Version: "v1", Plural: "daemonsets", Kind: "DaemonSet"},
		`"spec":{"minReadySeconds":1,` + workload + `}`, `{"spec":{"minReadySeconds":5}}`,
		`"spec":{` + otherWorkload + `}`},
	{kube.Resource{Version: "v1", Plural: "services", Kind: "Service"},
		`"spec":{"selector":{"a":"b"},"ports":[{"name":"p","port":80,"protocol":"TCP"}]}`,
		`{"spec":{"selector":{"a":"c"}}}`,
		`"spec":{"clusterIP":"None","selector":{"a":"b"},"ports":[{"name":"p","port":80,"protocol":"TCP"}]}`},
	{kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"},
		`"data":{"k":"v"},"immutable":false`, `{"data":{"k":"w"}}`, ""},
	{kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"},
		`"data":{"k":"dg=="},"type":"Opaque"`, `{"data":{"k":"dw=="}}`,
		`"data":{"k":"dg=="},"type":"example.com/other"`},
	{kube.Resource{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount"},
		`"automountServiceAccountToken":false,"imagePullSecrets":[{"name":"s"}]`,
		`{"automountServiceAccountToken":true}`, ""},
	{kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles", Kind: "Role"},
		`"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`,
		`{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","delete"]}]}`, ""},
	{kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "rolebindings", Kind: "RoleBinding"},
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},
			"subjects":[{"kind":"ServiceAccount","name":"s"}]`,
		`{"subjects":[]}`, `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"other"}`},
	{kube.Resource{Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers",
		Kind: "HorizontalPodAutoscaler"},
		`"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"none"},
			"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}`,
		`{"spec":{"maxReplicas":4}}`, ""},
	{kube.Resource{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget"},
		`"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}`, `{"spec":{"minAvailable":2}}`, ""},
	{kube.Resource{Group: "networking.k8s.io", Version: "v1", Plural: "networkpolicies", Kind: "NetworkPolicy"},
		`"spec":{"podSelector":{"matchLabels":{"a":"b"}},"ingress":[{"ports":[{"port":80}]}],"policyTypes":["Ingress"]}`,
		`{"spec":{"ingress":[]}}`, ""},
	{kube.Resource{Group: "networking.k8s.io", Version: "v1", Plural: "ingresses", Kind: "Ingress"},
		`"spec":{"rules":[{"host":"a.example.com","http":{"paths":[{"path":"/","pathType":"Prefix",
			"backend":{"service":{"name":"s","port":{"number":80}}}}]}}]}`, `{"spec":{"rules":[{"host":"b.example.com"}]}}`, ""},
	{kube.Resource{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job"},
		`"spec":{"parallelism":0,"template":` + jobTemplate + `}`, `{"spec":{"parallelism":1}}`,
		`"spec":{"parallelism":0,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"other"}]}}}`},
	{kube.Resource{Group: "batch", Version: "v1", Plural: "cronjobs", Kind: "CronJob"},
		`"spec":{"schedule":"0 0 1 1 *","suspend":true,"jobTemplate":{"spec":{"template":` + jobTemplate + `}}}`,
		`{"spec":{"schedule":"1 0 1 1 *"}}`, ""},
	{kube.Resource{Version: "v1", Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim"},
		`"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1024Mi"}}}`,
		`{"metadata":{"labels":{"app.kubernetes.io/name":"other"}}}`,
		`"spec":{"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"1024Mi"}}}`},
	{kube.Resource{Group: "example.com", Version: "v1", Plural: "pages", Kind: "Page"},
		`"spec":{"text":"hello","replicas":1}`, `{"spec":{"text":"defaced"}}`,
		`"spec":{"text":"hello","replicas":"many"}`},
}

// The engine of package apply on a real server, with each kind that people make children of: created and settled with
// one write, a declared field that is changed by hand restored, what cannot be changed refused once, and deleted when
// it is not declared any more.
func TestChildrenOfAllKinds(t *testing.T) {
	s := newScope(t)
	if err := applyFiles(s.c, filepath.Join(repository, "internal", "operators", "operator", "testdata",
		"pages.yaml")); err != nil {
		t.Fatal(err)
	}
	s.Kubectl("wait", "--for=condition=Established", "crd/pages.example.com", "--timeout=60s")
	for _, k := range childKinds {
		t.Run(k.r.Kind, func(t *testing.T) {
			t.Parallel()
			newParent(newScope(t), k.r).live(k)
		})
	}
	t.Run("OfAClusterScopedOwner", func(t *testing.T) {
		t.Parallel()
		p := newParent(newScope(t), childKinds[4].r)
		namespaces := kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
		p.owner = apply.Owner{Resource: namespaces,
			Name: p.NS, UID: p.get("/api/v1/namespaces/" + p.NS).UID()}
		p.live(childKinds[4])
	})
}

// parent is the owner of a child, with a mirror of the child's kind.
type parent struct {
	*Scope
	client *kube.Client
	mirror *cache.Store[*apply.Live[kube.Raw]]
	engine *apply.Engine
	owner  apply.Owner
	began  time.Time
}

func newParent(s *Scope, r kube.Resource) *parent {
	p := &parent{Scope: s, began: time.Now()}
	path := must(s.c.Kubeconfig(admin))(s)
	cfg, _, err := kubeconfig.Load(kubeconfig.Flags{Kubeconfig: path}, kubeconfig.OSEnv(func(string) {}))
	if err != nil {
		s.Fatal(err)
	}
	cfg.UserAgent = "children/" + r.Kind + "/" + p.NS
	if p.client, err = kube.New(cfg); err != nil {
		s.Fatal(err)
	}
	p.mirror = cache.New[*apply.Live[kube.Raw]](cache.Options{Resource: r, Namespaces: []string{p.NS},
		LabelSelector: apply.ManagedBySelector, Client: p.client, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(noContext)
	var running sync.WaitGroup
	served := make(chan struct{}, 1)
	p.mirror.OnServes(func() {
		select {
		case served <- struct{}{}:
		default:
		}
	})
	running.Go(func() { p.mirror.Run(ctx) })
	s.Cleanup(func() {
		cancel()
		running.Wait()
		p.client.Close()
	})
	for !p.mirror.Serves("") {
		select {
		case <-served:
		case <-s.Context().Done():
			s.Fatalf("the mirror of %s is not synced: %+v", r, p.mirror.State())
		}
	}
	p.Kubectl("create", "configmap", "owner")
	p.owner = apply.Owner{Resource: kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"},
		Namespace: p.NS,
		Name:      "owner", UID: p.get("/api/v1/namespaces/" + p.NS + "/configmaps/owner").UID()}
	p.restart()
	return p
}

// restart is a new process: an engine without memory.
func (p *parent) restart() {
	p.engine = apply.New(p.client, apply.Own(), apply.Of(p.mirror, apply.InPlace))
}

// apply declares one child with these members.
func (p *parent) apply(members string) apply.Result {
	p.Helper()
	return p.engine.Apply(p.Context(), p.owner, []apply.Child{p.child("child", members)}, false).Children[0]
}

func (p *parent) child(name, members string) apply.Child {
	p.Helper()
	r := p.mirror.Resource()
	body := map[string]any{"apiVersion": r.APIVersion(), "kind": r.Kind, "metadata": map[string]any{"name": name,
		"namespace": p.NS, "labels": map[string]any{apply.ManagedByLabel: apply.ManagedBy,
			"app.kubernetes.io/name": "x"},
		"ownerReferences": []any{p.owner.Reference()}}}
	v, err := patch.Decode([]byte("{" + members + "}"))
	if err != nil {
		p.Fatal(err)
	}
	maps.Copy(body, v.(map[string]any))
	return apply.Child{Body: body}
}

// applyUntilDone applies until nothing is done any more, and a while longer, and returns what was done first. An apply
// after which the child's own controller wrote did nothing.
func (p *parent) applyUntilDone(members string) apply.Result {
	p.Helper()
	first := p.apply(members)
	for range 20 {
		if first.Outcome != apply.Conflict {
			break
		}
		p.waitMoment(100 * time.Millisecond)
		first = p.apply(members)
	}
	for range 10 {
		p.waitMoment(100 * time.Millisecond)
		if r := p.apply(members); r.Err != nil || r.Outcome != apply.Unchanged && r.Outcome != apply.Applied {
			p.Fatalf("%v %s %v", r.Outcome, r.Why(), r.Err)
		}
	}
	return first
}

// writes returns the writes since the last call.
func (p *parent) writes() []string {
	p.Helper()
	all, err := p.c.Requests(p.began, func(r Request) bool {
		return r.Write() && strings.HasSuffix(r.UserAgent, p.NS)
	})
	if err != nil {
		p.Fatal(err)
	}
	p.began = time.Now()
	var out []string
	for _, r := range all {
		out = append(out, fmt.Sprint(r.Verb, " ", r.Code))
	}
	return out
}

// live goes through a child's life.
func (p *parent) live(k childKind) {
	path, err := k.r.Path(p.NS, "child")
	if err != nil {
		p.Fatal(err)
	}
	if r := p.applyUntilDone(k.body); r.Outcome != apply.Created {
		p.Fatalf("%v %s %v, want it created", r.Outcome, r.Why(), r.Err)
	}
	if w := p.writes(); len(w) != 1 {
		p.Errorf("created with %q, want one write", w)
	}
	p.Merge(path, k.tamper)
	before := p.settled(path)
	p.waitMoment(200 * time.Millisecond) // the event
	if r := p.applyUntilDone(k.body); r.Outcome != apply.Applied || len(r.Differences) == 0 {
		p.Errorf("after a change by hand: %v %s %v", r.Outcome, r.Why(), r.Err)
	}
	if now := p.settled(path); now == before {
		p.Errorf("the change was not undone: %s", now)
	}
	// One turns our entry in managedFields into an apply's. It is refused where the child's own controller was faster.
	refused := func(w string) bool { return w == "patch 422" || w == "patch 409" }
	if w := slices.DeleteFunc(p.writes(), refused); len(w) > 2 {
		p.Errorf("restored with %q", w)
	}
	p.restart()
	p.applyUntilDone(k.body)
	if w := p.writes(); len(w) > 1 { // one that asks whether a value that the server has rewritten is as it should be
		p.Errorf("after a restart: %q", w)
	}
	if k.immutable != "" {
		r := p.apply(k.immutable)
		if !kube.IsRefused(r.Err) || len(r.Differences) == 0 {
			p.Errorf("a change that is not possible: %v of %v, %v", r.Outcome, r.Differences, r.Err)
		}
		p.Logf("refused: %v", r.Err)
		p.apply(k.immutable)
		if w := p.writes(); len(w) > 2 {
			p.Errorf("it was sent again at once: %q", w)
		}
		p.applyUntilDone(k.body)
	}
	r := p.engine.Apply(p.Context(), p.owner, nil, false)
	if len(r.Pruned) != 1 || r.Pruned[0].Outcome != apply.Deleted {
		p.Errorf("not declared any more: %+v", r.Pruned)
	}
}

// settled returns what is declared of an object that others do not change.
func (p *parent) settled(path string) string {
	o := p.get(path)
	delete(o, "status")
	meta, _ := o["metadata"].(map[string]any)
	o["metadata"] = map[string]any{"labels": meta["labels"]}
	text, err := json.Marshal(o)
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// The errors of a real server whose range of node ports is in use, of a POST and of a change of the type.
func TestNodePortsThatAreUsedUpAreWaitedForTogether(t *testing.T) {
	p := newParent(scopeOn(t, ownCluster(t, "--service-node-port-range=30000-30001")), childKinds[3].r)
	service := func(name, kind string) apply.Child {
		return p.child(name, `"spec":{"type":"`+kind+`","selector":{"a":"b"},"ports":[{"port":80,"protocol":"TCP"}]}`)
	}
	round := func(changed string) (got []string) {
		report := p.engine.Apply(p.Context(), p.owner, []apply.Child{service("a", "NodePort"),
			service("b", "NodePort"),
			service("c", changed), service("d", "ClusterIP")}, false)
		for _, r := range report.Children {
			got = append(got, r.Outcome.String())
		}
		return got
	}
	want := func(what string, got []string, words string) {
		if strings.Join(got, " ") != words {
			t.Errorf("%s: %q, want %s", what, got, words)
		}
	}
	want("at first", round("ClusterIP"), "created created created created")
	p.waitMoment(time.Second)
	p.writes()
	want("a change of the type", round("NodePort"), "unchanged unchanged no node port unchanged")
	if w := p.writes(); len(w) > 2 || !strings.HasSuffix(strings.Join(w, " "), "patch 500") {
		t.Errorf("writes %q, want a patch that is refused with 500", w)
	}
	want("again", round("NodePort"), "unchanged unchanged no node port unchanged")
	report := p.engine.Apply(p.Context(), p.owner, []apply.Child{service("e", "LoadBalancer")}, true)
	want("a new one, on hold", []string{report.Children[0].Outcome.String()}, "paused")
	if w := p.writes(); len(w) != 0 {
		t.Errorf("writes %q, want none before a minute has passed", w)
	}
	p.restart() // without the memory that there are none
	if r := p.engine.Apply(p.Context(), p.owner, []apply.Child{service("e", "LoadBalancer")},
		false).Children[0]; r.Outcome != apply.NoNodePort {
		t.Errorf("a POST: %v %s %v", r.Outcome, r.Why(), r.Err)
	}
	t.Logf("writes: %q", p.writes())
}
