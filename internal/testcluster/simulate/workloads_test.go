package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var eventResource = kube.Resource{Version: "v1", Plural: "events", Kind: "Event"}

// body is an object whose pods have the label app and one container.
func body(r kube.Resource, name, image string, spec map[string]any) map[string]any {
	spec["template"] = podTemplate(name, image)
	if r.Kind == "Job" {
		spec["template"].(map[string]any)["spec"].(map[string]any)["restartPolicy"] = "Never"
	} else {
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": name}}
	}
	return map[string]any{"apiVersion": r.APIVersion(), "kind": r.Kind, "metadata": map[string]any{"name": name},
		"spec": spec}
}

func (b *bench) get(r kube.Resource, name string) map[string]any {
	return b.api.Get(r, kube.Key{Namespace: "default", Name: name})
}

func (b *bench) images() (out []string) {
	for _, p := range b.api.List(podResource, "default") {
		out = append(out, str(p, "metadata", "name")+" "+str(p, "spec", "containers", 0, "image"))
	}
	return out
}

// wantStatus compares numbers of the status.
func (b *bench) wantStatus(r kube.Resource, name string, want map[string]int64) {
	b.Helper()
	o := b.get(r, name)
	for field, n := range want {
		if have := number(o, "status", field); have != n {
			b.Errorf("%s of %s %s is %d, want %d: %v", field, r.Kind, name, have, n, at(o, "status"))
		}
	}
}

func (b *bench) setImage(r kube.Resource, name, image string, spec map[string]any) {
	b.Helper()
	spec["template"] = map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "main", "image": image}}}}
	b.patch(r, name, map[string]any{"spec": spec})
}

// reasons are the reasons of the Events about an object, sorted.
func (b *bench) reasons(kind, name string) (out []string) {
	for _, e := range b.api.List(eventResource, "default") {
		if str(e, "involvedObject", "kind") == kind && str(e, "involvedObject", "name") == name {
			out = append(out, str(e, "reason"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestAStatefulSetStartsStopsAndRollsInOrder(t *testing.T) {
	simulated(t, func(b *bench) {
		claim := map[string]any{"metadata": map[string]any{"name": "data"}, "spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{
				"requests": map[string]any{"storage": "1Gi"}}}}
		b.create(statefulSetResource, "default", body(statefulSetResource, "db", "db:1", map[string]any{"replicas": 3,
			"serviceName": "db", "volumeClaimTemplates": []any{claim}}))
		b.rest(1500 * time.Millisecond)
		b.wantNames(podResource, "db-0", "db-1") // the first is ready, the second starts
		b.rest(time.Minute)
		b.wantNames(podResource, "db-0", "db-1", "db-2")
		b.wantNames(claimResource, "data-db-0", "data-db-1", "data-db-2")
		b.wantStatus(statefulSetResource, "db", map[string]int64{"replicas": 3, "readyReplicas": 3,
			"availableReplicas": 3, "updatedReplicas": 3, "currentReplicas": 3, "observedGeneration": 1})
		if p := b.get(podResource, "db-1"); str(p, "spec", "hostname") != "db-1" ||
			str(p, "metadata", "labels", indexLabel) != "1" ||
			str(p, "spec", "volumes", 0, "persistentVolumeClaim", "claimName") != "data-db-1" {
			b.Errorf("a pod of the set has no identity: %v", p)
		}
		b.setImage(statefulSetResource, "db", "db:2", map[string]any{"updateStrategy": map[string]any{
			"rollingUpdate": map[string]any{"partition": 1}}})
		b.rest(time.Minute)
		if have := b.images(); !slices.Equal(have, []string{"db-0 db:1", "db-1 db:2", "db-2 db:2"}) {
			b.Errorf("with a partition of 1 the pods are %q", have)
		}
		b.delete(podResource, "db-0", kube.Background)
		b.rest(time.Minute)
		if have := b.images(); len(have) != 3 || have[0] != "db-0 db:1" {
			b.Errorf("a pod below the partition comes back as %q, want its old image", have)
		}
		b.patch(statefulSetResource, "db", map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{
			"rollingUpdate": map[string]any{"partition": 0}}}})
		b.rest(time.Minute)
		o := b.get(statefulSetResource, "db")
		if str(o, "status", "currentRevision") != str(o, "status", "updateRevision") ||
			len(b.names(revisionResource)) != 2 || b.images()[0] != "db-0 db:2" {
			b.Errorf("after the rollout: %v, revisions %q", at(o, "status"), b.names(revisionResource))
		}
		b.patch(statefulSetResource, "db", map[string]any{"spec": map[string]any{"replicas": 1}})
		b.rest(1500 * time.Millisecond)
		b.wantNames(podResource, "db-0", "db-1")
		b.rest(time.Minute)
		b.wantNames(podResource, "db-0")
		b.wantNames(claimResource, "data-db-0", "data-db-1", "data-db-2") // the policy is Retain
		have := b.reasons("StatefulSet", "db")
		if !slices.Equal(have, []string{"SuccessfulCreate", "SuccessfulDelete"}) {
			b.Errorf("the Events are %q", have)
		}
	})
}

func TestAParallelStatefulSetStartsAllAtOnce(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(statefulSetResource, "default", body(statefulSetResource, "db", "db:1", map[string]any{"replicas": 3,
			"podManagementPolicy": "Parallel"}))
		b.rest(500 * time.Millisecond)
		b.wantNames(podResource, "db-0", "db-1", "db-2")
		b.patch(statefulSetResource, "db", map[string]any{"spec": map[string]any{"replicas": 0}})
		b.rest(3 * time.Second)
		b.wantNames(podResource)
	})
}

func TestADaemonSetHasAPodOnEachNodeThatFits(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(daemonSetResource, "default", body(daemonSetResource, "agent", "agent:1", map[string]any{}))
		b.rest(time.Minute)
		var nodes []string
		for _, p := range b.api.List(podResource, "default") {
			nodes = append(nodes, str(p, "spec", "nodeName"))
		}
		if slices.Sort(nodes); !slices.Equal(nodes, []string{"node-1", "node-2", "node-3"}) {
			b.Errorf("the pods are on %q", nodes)
		}
		b.wantStatus(daemonSetResource, "agent", map[string]int64{"desiredNumberScheduled": 3, "numberReady": 3,
			"currentNumberScheduled": 3, "numberAvailable": 3, "updatedNumberScheduled": 3})
		b.setImage(daemonSetResource, "agent", "agent:2", map[string]any{})
		b.rest(1500 * time.Millisecond)
		b.wantStatus(daemonSetResource, "agent", map[string]int64{"numberUnavailable": 1})
		b.rest(time.Minute)
		for _, image := range b.images() {
			if !strings.HasSuffix(image, "agent:2") {
				b.Errorf("after the rollout there is %q", image)
			}
		}
		if err := b.client.Patch(b.Context(), nodeResource, kube.Key{Name: "node-2"}, kube.MergePatch, map[string]any{
			"spec": map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoSchedule"}}}}, nil,
			kube.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.rest(time.Minute)
		b.wantStatus(daemonSetResource, "agent", map[string]int64{"desiredNumberScheduled": 2, "numberReady": 2})
		if have := len(b.names(podResource)); have != 2 {
			b.Errorf("%d pods stay, want that of the tainted node gone", have)
		}
	})
}

func TestAJobRunsItsPodsToTheEnd(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(jobResource, "default", body(jobResource, "once", "i", map[string]any{"completions": 3,
			"parallelism": 2}))
		b.rest(500 * time.Millisecond)
		b.wantStatus(jobResource, "once", map[string]int64{"active": 2})
		b.rest(time.Minute)
		b.wantStatus(jobResource, "once", map[string]int64{"succeeded": 3, "active": 0})
		if o := b.get(jobResource, "once"); condition(o, "Complete", "status") != "True" ||
			str(o, "status", "completionTime") == "" || len(b.names(podResource)) != 3 {
			b.Errorf("the Job is not complete: %v, pods %q", at(o, "status"), b.names(podResource))
		}
		if have := b.reasons("Job", "once"); !slices.Equal(have, []string{"Completed", "SuccessfulCreate"}) {
			b.Errorf("the Events are %q", have)
		}
		failing := body(jobResource, "failing", "i", map[string]any{"backoffLimit": 1, "ttlSecondsAfterFinished": 60})
		failing["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)["annotations"] =
			map[string]any{ExitAnnotation: "3"}
		b.create(jobResource, "default", failing)
		b.rest(30 * time.Second)
		b.wantStatus(jobResource, "failing", map[string]int64{"failed": 2})
		if o := b.get(jobResource, "failing"); condition(o, "Failed", "reason") != "BackoffLimitExceeded" {
			b.Errorf("the Job has not failed: %v", at(o, "status"))
		}
		b.rest(time.Minute)
		b.wantNames(jobResource, "once") // the time to live of the other one is over
	})
}

func TestAnIndexedJobHasAPodForEachIndex(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(jobResource, "default", body(jobResource, "each", "i", map[string]any{"completions": 3,
			"parallelism": 3, "completionMode": "Indexed"}))
		b.rest(time.Minute)
		var have []string
		for _, p := range b.api.List(podResource, "default") {
			have = append(have, str(p, "metadata", "annotations", indexKey)+" "+str(p, "spec", "hostname"))
		}
		if slices.Sort(have); !slices.Equal(have, []string{"0 each-0", "1 each-1", "2 each-2"}) {
			b.Errorf("the pods are %q", have)
		}
	})
}

func TestTheStatusCountsThePodsWhileMoreAreRefused(t *testing.T) {
	simulated(t, func(b *bench) {
		b.api.Inject(apiserver.Fault{Verb: "create", Resource: "pods", UserAgent: manager, Skip: 1,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}})
		b.create(replicaSetResource, "default", body(replicaSetResource, "web", "i", map[string]any{"replicas": 2}))
		b.rest(time.Minute)
		b.wantStatus(replicaSetResource, "web", map[string]int64{"replicas": 1})
		if !slices.ContainsFunc(b.api.List(eventResource, "default"), func(e map[string]any) bool {
			return e["message"] == "Error creating: exceeded quota"
		}) {
			b.Error("no Event has the server's words as those of a real controller have them")
		}
	})
}

func TestAReplicaSetAdoptsAndReleasesPods(t *testing.T) {
	simulated(t, func(b *bench) {
		pod := podTemplate("web", "i")
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		pod["metadata"].(map[string]any)["name"] = "stray"
		b.create(podResource, "default", pod)
		b.create(replicaSetResource, "default", body(replicaSetResource, "web", "i", map[string]any{"replicas": 2}))
		b.rest(time.Minute)
		owner := func() string { return str(b.get(podResource, "stray"), "metadata", "ownerReferences", 0, "name") }
		if owner() != "web" || len(b.names(podResource)) != 2 {
			b.Errorf("the owner of the pod that was there is %q; pods are %q", owner(), b.names(podResource))
		}
		b.patch(podResource, "stray", map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}})
		b.rest(time.Minute)
		if owner() != "" || len(b.names(podResource)) != 3 {
			b.Errorf("a pod of other labels is owned by %q; pods are %q", owner(), b.names(podResource))
		}
	})
}

func TestThePodGoesWhereItFits(t *testing.T) {
	simulated(t, func(b *bench) {
		node := func(name string, patch map[string]any) {
			if err := b.client.Patch(b.Context(), nodeResource, kube.Key{Name: name}, kube.MergePatch, patch, nil,
				kube.WriteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		node("node-1", map[string]any{"metadata": map[string]any{"labels": map[string]any{"disk": "ssd"}}})
		node("node-2", map[string]any{"spec": map[string]any{"taints": []any{
			map[string]any{"key": "only", "value": "gpu", "effect": "NoSchedule"}}}})
		b.rest(time.Second)
		pod := func(name string, spec map[string]any) {
			spec["containers"] = []any{map[string]any{"name": "c", "image": "i", "resources": spec["resources"]}}
			delete(spec, "resources")
			b.create(podResource, "default", map[string]any{"apiVersion": "v1", "kind": "Pod",
				"metadata": map[string]any{"name": name}, "spec": spec})
			b.rest(3 * time.Second)
		}
		asks := func(cpu string) map[string]any { return map[string]any{"requests": map[string]any{"cpu": cpu}} }
		required := func(operator string, values ...any) map[string]any {
			const field = "requiredDuringSchedulingIgnoredDuringExecution"
			return map[string]any{"nodeAffinity": map[string]any{field: map[string]any{
				"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{
					"key": "kubernetes.io/hostname", "operator": operator, "values": values}}}}}}}
		}
		pod("selecting", map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}, "resources": asks("600")})
		pod("full", map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}, "resources": asks("600")})
		pod("affine", map[string]any{"affinity": required("NotIn", "node-1", "node-2")})
		pod("tainted", map[string]any{"affinity": required("In", "node-2")})
		pod("tolerant", map[string]any{"affinity": required("In", "node-2"), "tolerations": []any{
			map[string]any{"key": "only", "operator": "Equal", "value": "gpu"}}})
		for name, want := range map[string]string{"selecting": "node-1", "full": "", "affine": "node-3", "tainted": "",
			"tolerant": "node-2"} {
			if have := str(b.get(podResource, name), "spec", "nodeName"); have != want {
				b.Errorf("pod %s is on %q, want %q", name, have, want)
			}
		}
		const why = "0/3 nodes are available: 1 Insufficient cpu, " +
			"1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)."
		if have := condition(b.get(podResource, "full"), "PodScheduled", "message"); have != why {
			b.Errorf("the pod waits because of %q, want %q", have, why)
		}
		if have := b.reasons("Pod", "full"); !slices.Equal(have, []string{"FailedScheduling"}) {
			b.Errorf("the Events are %q", have)
		}
		b.delete(podResource, "selecting", kube.Background)
		b.rest(time.Minute)
		if have := str(b.get(podResource, "full"), "spec", "nodeName"); have != "node-1" {
			b.Errorf("with room on node-1 the pod is on %q", have)
		}
		have := b.reasons("Pod", "full")
		if !slices.Equal(have, []string{"FailedScheduling", "Scheduled", "Started"}) {
			b.Errorf("the Events are %q", have)
		}
	})
}
