package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// wantPods compares what pods there are, with their images.
func (b *bench) wantPods(when string, want ...string) {
	b.Helper()
	var have []string
	for _, p := range b.list(podResource) {
		have = append(have, str(p, "metadata name")+" "+str(p, "spec containers 0 image"))
	}
	if !slices.Equal(have, want) {
		b.Errorf("%s the pods are %q, want %q", when, have, want)
	}
}

func TestAStatefulSetStartsStopsAndRollsInOrder(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(statefulSetResource, "db", "db:1", `{replicas: 3, serviceName: db, volumeClaimTemplates: [
			{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`)
		b.rest(1500 * time.Millisecond)
		b.wantNames(podResource, "db-0", "db-1") // the first is ready, the second starts
		b.rest(time.Minute)
		b.wantNames(podResource, "db-0", "db-1", "db-2")
		b.wantNames(claimResource, "data-db-0", "data-db-1", "data-db-2")
		b.want(statefulSetResource, "db", "status replicas = 3", "status readyReplicas = 3",
			"status availableReplicas = 3", "status updatedReplicas = 3", "status currentReplicas = 3",
			"status observedGeneration = 1")
		b.want(podResource, "db-1", "spec hostname = db-1", "metadata labels "+indexLabel+" = 1",
			"spec volumes data persistentVolumeClaim claimName = data-db-1")

		b.setImage(statefulSetResource, "db", "db:2", "{updateStrategy: {rollingUpdate: {partition: 1}}}")
		b.rest(time.Minute)
		b.wantPods("with a partition of 1", "db-0 db:1", "db-1 db:2", "db-2 db:2")
		b.delete(podResource, "db-0", kube.Background)
		b.rest(time.Minute)
		b.wantPods("after the one below the partition was deleted", "db-0 db:1", "db-1 db:2", "db-2 db:2")
		b.patch(statefulSetResource, "db", "{spec: {updateStrategy: {rollingUpdate: {partition: 0}}}}")
		b.rest(time.Minute)
		b.wantPods("after the rollout", "db-0 db:2", "db-1 db:2", "db-2 db:2")
		b.want(statefulSetResource, "db",
			"status currentRevision = "+str(b.get(statefulSetResource, "db"), "status updateRevision"))
		if have := b.names(revisionResource); len(have) != 2 {
			b.Errorf("after the rollout the revisions are %q", have)
		}

		b.scale(statefulSetResource, "db", 1)
		b.rest(1500 * time.Millisecond)
		b.wantNames(podResource, "db-0", "db-1")
		b.rest(time.Minute)
		b.wantNames(podResource, "db-0")
		b.wantNames(claimResource, "data-db-0", "data-db-1", "data-db-2") // the policy is Retain
		b.wantEvents("StatefulSet", "db", "SuccessfulCreate", "SuccessfulDelete")
	})
}

func TestAParallelStatefulSetStartsAllAtOnce(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(statefulSetResource, "db", "db:1", "{replicas: 3, podManagementPolicy: Parallel}")
		b.rest(500 * time.Millisecond)
		b.wantNames(podResource, "db-0", "db-1", "db-2")
		b.scale(statefulSetResource, "db", 0)
		b.rest(3 * time.Second)
		b.wantNames(podResource)
	})
}

func TestADaemonSetHasAPodOnEachNodeThatFits(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(daemonSetResource, "agent", "agent:1", "{revisionHistoryLimit: 0}")
		nodes := func(want ...string) {
			b.rest(time.Minute)
			if have := b.fields(podResource, "spec nodeName"); !slices.Equal(have, want) {
				b.Errorf("the pods are on %q, want %q", have, want)
			}
		}
		nodes("node-1", "node-2", "node-3")
		b.want(daemonSetResource, "agent", "status desiredNumberScheduled = 3", "status numberReady = 3",
			"status currentNumberScheduled = 3", "status numberAvailable = 3", "status updatedNumberScheduled = 3")
		b.setImage(daemonSetResource, "agent", "agent:2", "{}")
		b.rest(1500 * time.Millisecond)
		b.want(daemonSetResource, "agent", "status numberUnavailable = 1")
		b.rest(time.Minute)
		if have := slices.Compact(b.fields(podResource, "spec containers 0 image")); !slices.Equal(have,
			[]string{"agent:2"}) {
			b.Errorf("after the rollout the pods run %q", have)
		}
		if have := b.fields(revisionResource, "revision"); !slices.Equal(have, []string{"2"}) {
			b.Errorf("after the rollout the revisions are %q, want none of the old ones", have)
		}
		b.patch(nodeResource, "node-2", "{spec: {taints: [{key: a, effect: NoSchedule}]}}")
		nodes("node-1", "node-3")
		b.want(daemonSetResource, "agent", "status desiredNumberScheduled = 2", "status numberReady = 2")
	})
}

// Two revisions with the present template become one, and revisions outlive a DaemonSet that is deleted without them.
func TestADaemonSetFollowsAHistoryThatUsersHaveEdited(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(daemonSetResource, "agent", "agent:1", "{}")
		b.rest(time.Minute)
		pods, first := b.fields(podResource, "metadata uid"), b.list(revisionResource)[0]
		metadata := object{"labels": object{"app": "agent", revisionLabel: "second"},
			"ownerReferences": at(first, "metadata ownerReferences")}
		b.createObject(revisionResource, "second", object{"metadata": metadata, "revision": 9, "data": first["data"]})
		b.rest(time.Minute)
		b.wantNames(revisionResource, "second")
		if have := b.fields(podResource, "metadata uid"); !slices.Equal(have, pods) {
			b.Error("pods were replaced that have the present template")
		}
		if have := b.fields(podResource, "metadata labels "+revisionLabel); slices.Compact(have)[0] != "second" {
			b.Errorf("the pods are of the revisions %q", have)
		}
		b.setImage(daemonSetResource, "agent", "agent:2", "{}")
		b.rest(time.Minute)
		if have := b.fields(revisionResource, "revision"); !slices.Equal(have, []string{"10", "9"}) {
			b.Errorf("the revisions are %q", have)
		}
		b.delete(daemonSetResource, "agent", kube.Orphan)
		b.rest(time.Minute)
		b.deploy(daemonSetResource, "agent", "agent:1", "{}")
		b.rest(time.Minute)
		if have := b.fields(revisionResource, "revision"); !slices.Equal(have, []string{"10", "11"}) {
			b.Errorf("after the revisions were adopted they are %q", have)
		}
		for _, r := range b.list(revisionResource) {
			wantOf(t, r, "metadata ownerReferences 0 uid = "+str(b.get(daemonSetResource, "agent"), "metadata uid"))
		}
	})
}

func TestAReplicationControllerKeepsItsNumberOfPods(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(replicationResource, "web", `{spec: {replicas: 3, selector: {app: web}, template: {metadata: {labels: {
			app: web, more: labels}}, spec: {containers: [{name: c, image: i}]}}}}`)
		b.rest(time.Minute)
		b.want(replicationResource, "web", "status replicas = 3", "status availableReplicas = 3",
			"status fullyLabeledReplicas = 3", "status observedGeneration = 1", "status terminatingReplicas =")
		b.patch(podResource, b.names(podResource)[0], "{metadata: {labels: {more: other}}}")
		b.rest(time.Second)
		b.want(replicationResource, "web", "status replicas = 3", "status fullyLabeledReplicas = 2")
		b.scale(replicationResource, "web", 2)
		b.rest(time.Minute)
		b.want(replicationResource, "web", "status replicas = 2", "status observedGeneration = 2")
		b.wantEvents("ReplicationController", "web", "SuccessfulCreate", "SuccessfulDelete")
		b.delete(replicationResource, "web", kube.Background)
		b.rest(time.Minute)
		b.wantNames(podResource)
	})
}

func TestAReplicaSetCountsThePodsThatAreAboutToGo(t *testing.T) {
	simulatedWith(t, Options{PodStopDelay: 10 * time.Second}, func(b *bench) {
		b.web(2)
		b.rest(time.Minute)
		b.scale(deploymentResource, "web", 0)
		b.rest(5 * time.Second)
		for _, r := range []kube.Resource{replicaSetResource, deploymentResource} {
			wantOf(t, b.list(r)[0], "status terminatingReplicas = 2")
		}
		b.rest(time.Minute)
		for _, r := range []kube.Resource{replicaSetResource, deploymentResource} {
			wantOf(t, b.list(r)[0], "status terminatingReplicas = 0")
		}
	})
}

func TestAPlanOfBillionsOfPodsIsCarriedOutInBursts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	most := math.MaxInt32
	for _, c := range []struct {
		template string
		want     int
	}{
		{`{"metadata": {"labels": {"app": "x"}}, "spec": {}}`, 500},
		{`{"metadata": {"labels": {"app": "x"}, "annotations": {"a": "` + strings.Repeat("x", 1<<20) + `"}}}`, 15},
	} {
		w := &workload{Spec: workloadSpec{Replicas: &most, Parallelism: &most, Completions: &most,
			PodManagementPolicy: "Parallel", Template: kube.Raw(c.template)}}
		in := facts{update: "1", templates: map[string]kube.Raw{"1": kube.Raw(c.template)}}
		for name, plan := range map[string]func(*workload, []*setPod, facts) plan{"ReplicaSet": planReplicaSet,
			"ReplicationController": planReplicas, "StatefulSet": planStatefulSet, "Job": planJob} {
			if p := plan(w, nil, in); p.err != nil || len(p.create) != c.want {
				t.Errorf("a %s of a template of %d bytes: %d pods in one plan, want %d; error: %v",
					name, len(c.template), len(p.create), c.want, p.err)
			}
		}
	}
	simulated(t, func(b *bench) {
		b.deploy(replicaSetResource, "many", "x:1", "{replicas: 1100}")
		b.rest(time.Minute)
		if have := len(b.names(podResource)); have != 1100 {
			b.Errorf("%d pods, want 1100", have)
		}
	})
}

func TestAJobRunsItsPodsToTheEnd(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(jobResource, "once", "i", "{completions: 3, parallelism: 2}")
		b.rest(500 * time.Millisecond)
		b.want(jobResource, "once", "status active = 2")
		b.rest(time.Minute)
		b.want(jobResource, "once", "status succeeded = 3", "status active =",
			"status conditions Complete status = True")
		if o := b.get(jobResource, "once"); str(o, "status completionTime") == "" || len(b.names(podResource)) != 3 {
			b.Errorf("the Job is not complete: %v, pods %q", at(o, "status"), b.names(podResource))
		}
		b.wantEvents("Job", "once", "Completed", "SuccessfulCreate")
		b.create(jobResource, "failing", `{spec: {backoffLimit: 1, ttlSecondsAfterFinished: 60, template: {
			metadata: {annotations: {`+ExitAnnotation+`: "3"}},
			spec: {restartPolicy: Never, containers: [{name: main, image: i}]}}}}`)
		b.rest(30 * time.Second)
		b.want(jobResource, "failing", "status failed = 2", "status conditions Failed reason = BackoffLimitExceeded")
		b.rest(time.Minute)
		b.wantNames(jobResource, "once") // the time to live of the other one is over
	})
}

func TestAJobSucceedsByItsSuccessPolicy(t *testing.T) {
	simulated(t, func(b *bench) {
		for name, rules := range map[string]string{"all": "{succeededCount: 3}",
			"some": `{succeededIndexes: "5"}, {succeededIndexes: "0,2-3", succeededCount: 2}`} {
			b.deploy(jobResource, name, "i", "{completions: 3, parallelism: 1, completionMode: Indexed, "+
				"successPolicy: {rules: ["+rules+"]}}")
		}
		b.rest(time.Minute)
		b.want(jobResource, "all", "status conditions SuccessCriteriaMet reason = SuccessPolicy",
			"status conditions Complete message = Matched rules at index 0", "status succeeded = 3")
		b.want(jobResource, "some", "status conditions Complete message = Matched rules at index 1",
			"status active =")
	})
}

func TestTheStatusCountsThePodsWhileMoreAreRefused(t *testing.T) {
	simulated(t, func(b *bench) {
		b.api.Inject(apiserver.Fault{Verb: "create", Resource: "pods", UserAgent: manager, Skip: 1,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}})
		b.web(2)
		b.rest(time.Minute)
		wantOf(t, b.list(replicaSetResource)[0], "status replicas = 1",
			"status conditions ReplicaFailure reason = FailedCreate",
			"status conditions ReplicaFailure message = exceeded quota")
		b.want(deploymentResource, "web", "status conditions ReplicaFailure reason = FailedCreate",
			"status conditions ReplicaFailure message = exceeded quota")
		events := b.fields(kube.Resource{Version: "v1", Plural: "events", Kind: "Event"}, "message")
		if !slices.Contains(events, "Error creating: exceeded quota") {
			b.Errorf("the Events are %q, want one with the server's words alone", events)
		}
	})
}

// pod creates a pod with the label app=web.
func (b *bench) pod(name, image string) {
	b.Helper()
	b.create(podResource, name, template("web", image))
}

func TestThePodGoesWhereItFits(t *testing.T) {
	simulated(t, func(b *bench) {
		b.patch(nodeResource, "node-1", "{metadata: {labels: {disk: ssd}}}")
		b.patch(nodeResource, "node-2", "{spec: {taints: [{key: only, value: gpu, effect: NoSchedule}]}}")
		b.rest(time.Second)
		host := func(operator, values string) string {
			return fmt.Sprintf(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
				nodeSelectorTerms: [{matchExpressions: [
					{key: kubernetes.io/hostname, operator: %s, values: [%s]}]}]}}}`, operator, values)
		}
		const large = `containers: [{name: c, image: i, resources: {requests: {cpu: "600"}}}],
			nodeSelector: {disk: ssd}`
		const small = "containers: [{name: c, image: i}], "
		for _, pod := range []struct{ name, spec, node string }{
			{"selecting", large, "node-1"},
			{"full", large, ""},
			{"affine", small + host("NotIn", "node-1, node-2"), "node-3"},
			{"tainted", small + host("In", "node-2"), ""},
			{"tolerant", small + host("In", "node-2") + ", tolerations: [{key: only, operator: Equal, value: gpu}]",
				"node-2"},
		} {
			b.create(podResource, pod.name, "{spec: {"+pod.spec+"}}")
			b.rest(3 * time.Second)
			if have := str(b.get(podResource, pod.name), "spec nodeName"); have != pod.node {
				b.Errorf("pod %s is on %q, want %q", pod.name, have, pod.node)
			}
		}
		b.want(podResource, "full", "status conditions PodScheduled message = 0/3 nodes are available: "+
			"1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "+
			"1 node(s) had untolerated taint(s).")
		b.wantEvents("Pod", "full", "FailedScheduling")
		b.delete(podResource, "selecting", kube.Background)
		b.rest(time.Minute)
		b.want(podResource, "full", "spec nodeName = node-1")
		b.wantEvents("Pod", "full", "FailedScheduling", "Scheduled", "Started")
	})
}

func TestPodsLeaveANodeWithTaintsThatTheyDoNotTolerate(t *testing.T) {
	simulatedWith(t, Options{Nodes: []string{"node-1"}}, func(b *bench) {
		for name, tolerations := range map[string]string{"plain": "[]", "tolerant": "[{operator: Exists}]",
			"for-a-while": "[{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]"} {
			b.create(podResource, name, "{spec: {containers: [{name: c, image: i}], tolerations: "+tolerations+"}}")
		}
		b.rest(time.Minute)
		b.patch(nodeResource, "node-1", "{spec: {taints: [{key: a, effect: NoExecute}]}}")
		b.rest(30 * time.Second)
		b.wantNames(podResource, "for-a-while", "tolerant")
		b.wantEvents("Pod", "plain", "Scheduled", "Started", "TaintManagerEviction")
		b.rest(time.Minute)
		b.wantNames(podResource, "tolerant")
	})
}
