package e2e

import (
	"slices"
	"testing"
)

// workloadLines are about the workloads that skiff-dev simulates, and their pods.
var workloadLines = []kubectlLine{
	// A StatefulSet.
	{args: "apply -f -", stdin: manifestOf("apps/v1", "StatefulSet", "db", `"replicas":2,"serviceName":"db",
		"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],
		"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"none"}}],`)},
	{args: "get statefulset db -o jsonpath={.spec.podManagementPolicy},{.status.collisionCount}"},
	{args: "delete statefulset db"},
	{args: "get persistentvolumeclaims -o name"},
	{args: "apply -f -", stdin: manifestOf("apps/v1", "StatefulSet", "web", `"replicas":3,"serviceName":"web",`)},
	{args: "rollout status statefulset/web --timeout=4m", last: true},
	{args: "get statefulset web -o " + statusOf + numbers},
	{args: "get pods -l app=web -o custom-columns=N:.metadata.name," +
		"I:.metadata.labels.apps\\.kubernetes\\.io/pod-index,H:.spec.hostname,S:.spec.subdomain," +
		"P:.status.phase,O:.metadata.ownerReferences[*].kind"},
	{args: "set image statefulset/web c=nginx:2"},
	{args: "rollout status statefulset/web --timeout=4m", last: true},
	{args: "rollout history statefulset/web"},
	{args: "rollout undo statefulset/web"},
	{args: "rollout status statefulset/web --timeout=4m", last: true},
	{args: "rollout history statefulset/web"},
	{args: "get pods -l app=web -o custom-columns=N:.metadata.name,I:.spec.containers[*].image"},
	{args: "rollout restart statefulset/web"},
	{args: "rollout status statefulset/web --timeout=4m", last: true},
	{args: "scale statefulset/web --replicas=1"},
	{args: "wait --for=jsonpath={.status.replicas}=1 statefulset/web --timeout=4m"},
	{args: "get statefulset web -o " + statusOf + numbers},
	// A DaemonSet.
	{args: "apply -f -", stdin: manifestOf("apps/v1", "DaemonSet", "agent", "")},
	{args: "rollout status daemonset/agent --timeout=4m", last: true},
	{args: "set image daemonset/agent c=nginx:2"},
	{args: "rollout status daemonset/agent --timeout=4m", last: true},
	{args: "rollout history daemonset/agent"},
	{args: "rollout undo daemonset/agent"},
	{args: "rollout status daemonset/agent --timeout=4m", last: true},
	{args: "get daemonset agent -o jsonpath={.status.numberMisscheduled},{.status.observedGeneration}"},
	// What may be evicted.
	{args: "create poddisruptionbudget web --selector=app=web --min-available=1"},
	{args: "wait --for=jsonpath={.status.currentHealthy}=1 poddisruptionbudget/web --timeout=4m"},
	{args: "get poddisruptionbudget web -o jsonpath={.status.disruptionsAllowed},{.status.expectedPods}," +
		"{.status.desiredHealthy},{.status.observedGeneration},{.status.conditions[*].reason}"},
	{args: "delete poddisruptionbudget web"},
	{args: "create poddisruptionbudget agent --selector=app=agent --max-unavailable=50%"},
	{args: "wait --for=jsonpath={.status.conditions[0].reason}=SyncFailed poddisruptionbudget/agent --timeout=4m"},
	{args: eventsOf("PodDisruptionBudget", "agent")},
	// Jobs.
	{args: "create job once --image=nginx:1"},
	{args: "wait --for=condition=complete job/once --timeout=4m"},
	{args: "get job once -o " + statusOf + jobNumbers},
	{args: "apply -f -", stdin: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"each"},"spec":{
		"completions":3,"parallelism":2,"completionMode":"Indexed","template":{"spec":{"restartPolicy":"Never",
		"containers":[{"name":"c","image":"nginx:1"}]}}}}`},
	{args: "wait --for=condition=complete job/each --timeout=4m"},
	{args: "get pods -l job-name=each --sort-by=.spec.hostname -o custom-columns=H:.spec.hostname,P:.status.phase"},
	{args: "apply -f -", stdin: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"later"},"spec":{
		"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx:1"}]}}}}`},
	{args: "wait --for=condition=suspended job/later --timeout=4m"},
	{args: `patch job later -p {"spec":{"suspend":false}}`},
	{args: "wait --for=condition=complete job/later --timeout=4m"},
	{args: "create job now --from=cronjob/nothing"},
	{args: "apply -f -", stdin: `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"tick"},"spec":{
		"schedule":"@every 5s","successfulJobsHistoryLimit":1,"jobTemplate":{"metadata":{"labels":{"of":"tick"}},
		"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx:1"}]}}}}}}`},
	{args: "wait --for=jsonpath={.status.lastSuccessfulTime} cronjob/tick --timeout=4m"},
	{args: `patch cronjob tick -p {"spec":{"suspend":true}}`},
	{args: "get jobs -l of=tick -o jsonpath={.items[0].metadata.ownerReferences[*].kind}" +
		"{.items[0].metadata.labels}"},
	{args: firstEvent("SuccessfulCreate")}, {args: firstEvent("SawCompletedJob")},
	{args: "delete cronjob tick"},
	// Endpoints.
	{args: "apply -f -", stdin: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","labels":{"team":"a"}},
		"spec":{"clusterIP":"None","selector":{"app":"web"},"ports":[{"port":80,"targetPort":8080}]}}`},
	{args: "wait --for=jsonpath={.subsets[0].addresses[0].ip} endpoints/web --timeout=4m"},
	{args: "get endpoints web -o custom-columns=L:.metadata.labels,P:.subsets[*].ports," +
		"T:.subsets[*].addresses[*].targetRef.name,H:.subsets[*].addresses[*].hostname"},
	{args: "get endpointslices -l kubernetes.io/service-name=web -o custom-columns=L:.metadata.labels,P:.ports," +
		"T:.endpoints[*].targetRef.name,H:.endpoints[*].hostname,C:.endpoints[*].conditions," +
		"O:.metadata.ownerReferences[*].kind,A:.addressType,G:.metadata.generateName"},
	// Pods that are adopted, and pods that fit nowhere.
	{args: "run stray --image=nginx:1 --labels=app=rs"},
	{args: "apply -f -", stdin: manifestOf("apps/v1", "ReplicaSet", "rs", `"replicas":1,`)},
	{args: "wait --for=jsonpath={.metadata.ownerReferences[0].name}=rs pod/stray --timeout=4m"},
	{args: "label pod stray app=other --overwrite"},
	{args: "wait --for=jsonpath={.status.readyReplicas}=1 replicaset/rs --timeout=4m"},
	{args: "get pod stray -o jsonpath={.metadata.ownerReferences}"},
	{args: "apply -f -", stdin: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"picky"},"spec":{
		"nodeSelector":{"nobody":"has"},"containers":[{"name":"c","image":"nginx:1"}]}}`},
	{args: "wait --for=condition=PodScheduled=false pod/picky --timeout=4m"},
	{args: "get pod picky -o jsonpath={.status.conditions[0].reason},{.status.phase}"},
	// The Events about all that.
	{args: eventsOf("StatefulSet", "web")}, {args: eventsOf("Job", "once")}, {args: eventsOf("Pod", "picky")},
	{args: eventsOf("ReplicaSet", "rs")},
	// A quota.
	{args: "create quota small --hard=count/secrets=1,requests.memory=1Gi,services=0"},
	{args: "wait --for=jsonpath={.status.used} resourcequota/small --timeout=4m"},
	{args: "create secret generic one --from-literal=a=b"},
	{args: "create secret generic two --from-literal=a=b"},
	{args: "create service clusterip three --tcp=80"},
	{args: "run greedy --image=nginx:1"},
	{args: "get resourcequota small -o jsonpath={.status.used},{.status.hard}"},
	{args: "describe resourcequota small"},
}

const (
	statusOf = "jsonpath={.status.observedGeneration}"
	numbers  = ",{.status.replicas},{.status.readyReplicas},{.status.availableReplicas}," +
		"{.status.updatedReplicas},{.status.currentReplicas}"
	jobNumbers = ",{.status.active},{.status.ready},{.status.succeeded},{.status.failed},{.status.terminating}," +
		"{.status.conditions[*].type},{.status.conditions[*].reason}"
)

func eventsOf(kind, name string) string {
	return "get events --field-selector involvedObject.kind=" + kind + ",involvedObject.name=" + name +
		" --sort-by=.message -o custom-columns=R:.reason,T:.type,O:.involvedObject.kind"
}

// firstEvent shows whether a CronJob has an Event: how many there are depends on the time.
func firstEvent(reason string) string {
	return "get events --field-selector involvedObject.kind=CronJob,reason=" + reason +
		" -o jsonpath={.items[0].type}"
}

// manifestOf is a workload whose pods have the label app and one container.
func manifestOf(version, kind, name, spec string) string {
	return `{"apiVersion":"` + version + `","kind":"` + kind + `","metadata":{"name":"` + name + `"},"spec":{` + spec +
		`"selector":{"matchLabels":{"app":"` + name + `"}},"template":{"metadata":{"labels":{"app":"` + name + `"}},
		"spec":{"terminationGracePeriodSeconds":1,"containers":[{"name":"c","image":"nginx:1"}]}}}}`
}

// Rules: FD-15
func TestKubectlSeesTheSameWorkloadsOnSkiffDev(t *testing.T) {
	c, err := sharedCluster()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.Kubeconfig(controllerManager)
	if err != nil {
		t.Fatal(err)
	}
	// The other tests have Jobs that nobody runs.
	jobs, err := c.Start("kube-controller-manager-of-jobs", nil, c.bins.controllerManager, "--kubeconfig", kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--controllers", "job-controller,cronjob-controller,"+
			"endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller,disruption-controller,"+
			"persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,"+
			"persistentvolume-protection-controller,resourcequota-controller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if inTime, err := jobs.Stop(settle); err != nil || !inTime {
			t.Errorf("the controller manager does not end: %v", err)
		}
	})
	sameOnBoth(t, slices.Concat(workloadLines, storageLines))
}
