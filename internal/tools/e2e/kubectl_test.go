package e2e

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// kubectlLine is something that a person types, without the namespace.
type kubectlLine struct {
	args   string // separated by spaces
	stdin  string
	editor string // $EDITOR
	last   bool   // only the last line of what it prints counts: before that it says what it waits for
}

const (
	appliedMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"a":"b"}}`
	changedMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"a":"c"}}`
	unknownMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"unknown"},"date":{"a":"b"}}`
	warning    = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"w"},"type":"Warning","reason":"Broken","message":"it is broken","count":2,
		"involvedObject":{"kind":"ConfigMap","name":"cm"},"firstTimestamp":"2020-01-01T00:00:00Z","lastTimestamp":"2020-01-01T00:00:00Z"}`
)

var kubectlLines = []kubectlLine{
	// What typed clients create goes over the wire as protobuf.
	{args: "create deployment web --image=nginx:1 --replicas=2"},
	{args: "rollout status deployment/web --timeout=4m", last: true},
	{args: "create configmap cm --from-literal=a=b"},
	{args: "create configmap cm --from-literal=a=b"},
	{args: "create secret generic s --from-literal=p=q"},
	{args: "create secret docker-registry reg --docker-username=u --docker-password=p"},
	{args: "create service clusterip svc --tcp=80:8080"},
	{args: "create service nodeport np --tcp=80"},
	{args: "create service externalname en --external-name=example.com"},
	{args: "create serviceaccount sa"},
	{args: "create role r --verb=get --resource=pods"},
	{args: "create rolebinding rb --role=r --serviceaccount=x:sa"},
	{args: "create deployment Bad --image=x"},
	{args: "run p --image=nginx:1"},
	{args: "wait --for=condition=Ready pod/p --timeout=4m"},
	{args: "wait --for=jsonpath={.status.phase}=Running pod/p --timeout=4m"},
	{args: "expose deployment web --port=80"},
	{args: "expose deployment web --port=80"},
	{args: "autoscale deployment web --min=2 --max=3"},
	// Changes.
	{args: "scale deployment/web --replicas=3"},
	{args: "scale deployment/web --replicas=3 --current-replicas=7"},
	{args: "rollout status deployment/web --timeout=4m", last: true},
	{args: "set image deployment/web nginx=nginx:2"},
	{args: "set env deployment/web A=B"},
	{args: "set image deployment/web other=nginx:2"},
	{args: "rollout status deployment/web --timeout=4m", last: true},
	{args: "rollout undo deployment/web --to-revision=1"},
	{args: "rollout status deployment/web --timeout=4m", last: true},
	{args: "rollout undo deployment/web --to-revision=99"},
	{args: "rollout history deployment/web"},
	{args: "rollout restart deployment/web"},
	{args: "rollout pause deployment/web"},
	{args: "rollout pause deployment/web"},
	{args: "rollout resume deployment/web"},
	{args: "annotate deployment/web a=b"},
	{args: "annotate deployment/web a=c"},
	{args: "label deployment/web c=d e=f"},
	{args: "label deployment/web c-"},
	{args: "label deployment/web bad=-"},
	{args: `patch deployment web -p {"spec":{"replicas":1}}`},
	{args: `patch deployment web -p {"spec":{"replicas":1}}`},
	{args: `patch deployment web --type=merge -p {"spec":{"replicas":2}}`},
	{args: `patch deployment web --type=json -p [{"op":"test","path":"/spec/replicas","value":7}]`},
	{args: `patch deployment web --type=json -p [{"op":"replace","path":"/spec/replicas","value":1}]`},
	{args: `patch deployment web --subresource=status --type=merge -p {"status":{"observedGeneration":2}}`},
	{args: `patch service en --subresource=status --type=merge -p {"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`},
	{args: "get deployment web -o jsonpath={.spec.replicas},{.spec.template.spec.containers[0].image}"},
	{args: "apply -f -", stdin: appliedMap},
	{args: "apply -f -", stdin: appliedMap},
	{args: "diff -f -", stdin: appliedMap},
	{args: "apply -f -", stdin: changedMap},
	{args: "apply -f - --server-side", stdin: appliedMap},
	{args: "apply -f - --server-side --force-conflicts", stdin: appliedMap},
	{args: "apply -f - --dry-run=server", stdin: changedMap},
	{args: "create -f -", stdin: unknownMap},
	{args: "create -f - --validate=warn", stdin: unknownMap},
	{args: "replace -f -", stdin: changedMap},
	{args: "replace --force -f -", stdin: appliedMap},
	{args: "edit configmap applied", editor: `sed -i s/a:.b/a:\ d/`},
	{args: "edit configmap applied", editor: "true"},
	{args: "get configmap applied -o jsonpath={.data}"},
	// Looking.
	{args: "get configmaps,secrets,services -o name"},
	{args: "get configmap cm nope"},
	{args: "get webserver nope"},
	{args: "get nothing"},
	{args: "get configmap -l a=b=c"},
	{args: "get configmap cm applied -o custom-columns=N:.metadata.name,A:.data.a"},
	{args: "get serviceaccount sa -o go-template={{.metadata.name}}"},
	{args: "get all -l app=none"},
	{args: "get --raw /readyz"},
	{args: "get --raw /apis/apps/v1/namespaces/nowhere/deployments/x"},
	{args: "create -f -", stdin: warning},
	{args: "events --types=Warning --for configmap/cm"},
	{args: "get events --field-selector type=Warning,involvedObject.name=cm --sort-by=.lastTimestamp"},
	{args: "api-resources --api-group=apps --verbs=list -o name"},
	{args: "api-resources --api-group=authorization.k8s.io --verbs=list"},
	{args: "auth can-i create pods"},
	{args: "auth can-i get /healthz"},
	{args: "explain webserver.spec.image"},
	{args: "top nodes"},
	{args: "get priorityclasses"}, {args: "describe priorityclass system-node-critical"},
	{args: "get flowschemas --sort-by=.metadata.name"}, {args: "get prioritylevelconfigurations"},
	{args: "get servicecidrs"},
	{args: "describe namespace kube-public"},
	{args: "wait --for=delete configmap/nope --timeout=1s"},
	{args: "wait --for=create configmap/never --timeout=1s"},
	// The end.
	{args: "delete pod p --grace-period=1"},
	{args: "delete configmap cm applied unknown"},
	{args: "delete configmap cm"},
	{args: "delete deployment,service --all -o name"},
}

// A person at kubectl cannot tell skiff-dev from a real cluster, as far as it goes.
//
// Rules: FD-15, FD-16, FD-17, FD-18, FD-21
func TestKubectlSaysTheSameOfSkiffDevAndOfARealCluster(t *testing.T) {
	sameOnBoth(t, kubectlLines)
}

// sameOnBoth compares what kubectl prints of a real cluster with what it prints of skiff-dev.
func sameOnBoth(t *testing.T, lines []kubectlLine) {
	t.Helper()
	s := newScope(t)
	binary, err := skiffDevBinary()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := s.c.path("dev.kubeconfig")
	dev, err := s.c.Start("dev", nil, binary, "--kubeconfig-out", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if inTime, err := dev.Stop(settle); err != nil || !inTime {
			t.Errorf("skiff-dev does not end: %v", err)
		}
	})
	embedded := Kubectl{path: s.kubectl.path, kubeconfig: kubeconfig, cacheDir: t.TempDir()}
	Eventually(t, settle, "skiff-dev has its CRDs", func() (bool, string) {
		if _, err := os.Stat(kubeconfig); err != nil {
			return false, err.Error()
		}
		r, err := embedded.Run(t.Context(), "", "get", "webservers")
		return err == nil && r.Code == 0, r.String()
	})
	if r, err := embedded.Run(t.Context(), "", "create", "namespace", s.NS); err != nil || r.Code != 0 {
		t.Fatal(err, r)
	}
	for _, line := range lines {
		var printed [2]string
		var both sync.WaitGroup
		for i, k := range []Kubectl{s.kubectl, embedded} {
			both.Go(func() { printed[i] = line.run(t, k, s.NS) })
		}
		both.Wait()
		if printed[0] != printed[1] {
			t.Errorf("kubectl %s\nreal:     %s\nembedded: %s", line.args, printed[0], printed[1])
		}
	}
}

// passing is what differs from run to run. The width of a column of ages is that of the longest one.
var passing = regexp.MustCompile(`\b(\d+[smhdy])+\b *|AGE +|/tmp/[^ "]+|pid=\d+`)

// run returns what kubectl printed, without what passes: ages and names of files.
func (l kubectlLine) run(t *testing.T, k Kubectl, namespace string) string {
	t.Helper()
	began := time.Now()
	argv := k.argv(append([]string{"-n", namespace}, strings.Fields(l.args)...))
	r, err := runCommand(t.Context(), append(k.env(), "KUBE_EDITOR="+l.editor), l.stdin, argv...)
	if err != nil {
		t.Errorf("kubectl %s: %v", l.args, err)
	}
	if took := time.Since(began); took > settle {
		t.Errorf("kubectl %s took %v", l.args, took)
	}
	out := strings.TrimSpace(r.Stdout)
	if l.last {
		out = out[strings.LastIndexByte(out, '\n')+1:]
	}
	r.Stdout = out
	return passing.ReplaceAllString(r.String(), "~")
}
