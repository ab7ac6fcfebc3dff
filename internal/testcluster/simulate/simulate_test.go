package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func TestADeploymentBecomesRunningPods(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 3))
		b.rest(500 * time.Millisecond)
		for _, p := range b.api.List(podResource, "default") {
			if reason := str(p, "status", "containerStatuses", 0, "state", "waiting",
				"reason"); reason != "ContainerCreating" {
				b.Errorf("after half a second %s waits because of %q, want ContainerCreating",
					str(p, "metadata", "name"), reason)
			}
		}
		b.rest(time.Minute)
		b.wantRolledOut("web", 3)
		nodes, ips := map[string]bool{}, map[string]bool{}
		for _, p := range b.api.List(podResource, "default") {
			nodes[str(p, "spec", "nodeName")], ips[str(p, "status", "podIP")] = true, true
			if str(p, "status", "phase") != "Running" || condition(p, "Ready", "status") != "True" {
				b.Errorf("pod is not running and ready: %v", p["status"])
			}
			if owner := str(p, "metadata", "ownerReferences", 0, "kind"); owner != "ReplicaSet" {
				b.Errorf("a pod is owned by a %q, want ReplicaSet", owner)
			}
		}
		if len(ips) != 3 || ips[""] {
			b.Errorf("pod addresses are %v, want three", slices.Collect(maps.Keys(ips)))
		}
		for node := range nodes {
			if b.api.Get(nodeResource, kube.Key{Name: node}) == nil {
				b.Errorf("a pod runs on node %q, which does not exist", node)
			}
		}
		if r := str(b.deployment("web"), "metadata", "annotations", revisionAnnotation); r != "1" {
			b.Errorf("the revision is %q, want 1", r)
		}
	})
}

func TestACordonedNodeGetsNoPods(t *testing.T) {
	simulated(t, func(b *bench) {
		cordon := func(name string, on bool) {
			err := b.client.Patch(b.Context(), nodeResource, kube.Key{Name: name}, kube.MergePatch,
				map[string]any{"spec": map[string]any{"unschedulable": on}}, nil, kube.WriteOptions{})
			if err != nil {
				b.Fatal(err)
			}
			b.rest(time.Second)
		}
		where := func() (out []string) {
			for _, p := range b.api.List(podResource, "default") {
				out = append(out, str(p, "spec", "nodeName"))
			}
			slices.Sort(out)
			return slices.Compact(out)
		}
		cordon("node-1", true)
		cordon("node-2", true)
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 6))
		b.rest(time.Minute)
		if nodes := where(); !slices.Equal(nodes, []string{"node-3"}) {
			b.Errorf("pods run on %q, want node-3 alone", nodes)
		}
		cordon("node-3", true)
		b.patch(deploymentResource, "web", map[string]any{"spec": map[string]any{"replicas": 7}})
		b.rest(time.Minute)
		var waiting map[string]any
		for _, p := range b.api.List(podResource, "default") {
			if str(p, "spec", "nodeName") == "" {
				waiting = p
			}
		}
		if condition(waiting, "PodScheduled", "reason") != "Unschedulable" ||
			str(waiting, "status", "phase") != "Pending" {
			b.Errorf("a pod without a node: %v", waiting)
		}
		cordon("node-2", false)
		b.rest(time.Minute)
		if nodes := where(); !slices.Equal(nodes, []string{"node-2", "node-3"}) {
			b.Errorf("pods run on %q, want the one that waited on node-2", nodes)
		}
		now := b.api.Get(podResource, kube.Key{Namespace: "default", Name: str(waiting, "metadata", "name")})
		if condition(now, "PodScheduled", "status") != "True" || condition(now, "PodScheduled", "reason") != "" ||
			condition(now, "Ready", "status") != "True" {
			b.Errorf("after it got a node: %v", now["status"])
		}
	})
}

// Rules: FI-09
func TestNothingDependsOnBookmarks(t *testing.T) {
	for name, mode := range map[string]apiserver.BookmarkMode{
		"never": apiserver.BookmarksNever, "storm": apiserver.BookmarksStorm, "at the end": apiserver.BookmarksAtEnd,
		"of another kind":      apiserver.BookmarksOfAnother,
		"without the end mark": apiserver.BookmarksUnmarked, "behind the events": apiserver.BookmarksBehind,
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(b *bench) {
				b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 2))
				b.rest(time.Minute)
				remove := b.api.Inject(apiserver.Fault{UserAgent: manager, Verb: "watch",
					Watch: apiserver.WatchFault{Bookmarks: mode}})
				defer remove()
				b.api.Compact() // who comes back lists anew, and hears such bookmarks
				b.api.Inject(apiserver.Fault{UserAgent: manager, Verb: "watch", Times: 10,
					Watch: apiserver.WatchFault{Gone: apiserver.GoneInStream}})
				if mode == apiserver.BookmarksStorm {
					b.rest(5 * time.Second) // thousands
					remove()
				}
				b.rest(12 * time.Minute) // longer than watches live
				b.patch(deploymentResource, "web", map[string]any{"spec": map[string]any{"replicas": 4}})
				b.rest(2 * time.Minute)
				b.wantRolledOut("web", 4)
			})
		})
	}
}

// All controllers here must detect by themselves that the objects that they have seen never existed.
//
// Rules: WCH-48, CCH-16
func TestTheClusterRecoversFromARestoredBackup(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 2))
		b.create(deploymentResource, "default", deploymentBody("old", "nginx:1", 1))
		b.rest(time.Minute)
		backup := b.api.Snapshot()
		b.patch(deploymentResource, "web", map[string]any{"spec": map[string]any{"replicas": 5}})
		b.create(deploymentResource, "default", deploymentBody("lost", "nginx:1", 3))
		b.delete(deploymentResource, "old", kube.Background)
		b.rest(time.Minute)
		b.api.Restore(backup)
		b.rest(time.Hour) // watches live for up to ten minutes, in silence if need be
		b.wantNames(deploymentResource, "old", "web")
		want := func(web, old int64) {
			for name, n := range map[string]int64{"web": web, "old": old} {
				running := int64(0)
				for _, pod := range b.names(podResource) {
					if strings.HasPrefix(pod, name+"-") {
						running++
					}
				}
				if available := number(b.deployment(name), "status", "availableReplicas"); running != n ||
					available != n {
					b.Errorf("%s has %d pods and says that %d are available, want %d", name, running, available, n)
				}
			}
		}
		want(2, 1)
		b.patch(deploymentResource, "web", map[string]any{"spec": map[string]any{"replicas": 4}})
		b.rest(time.Minute)
		want(4, 1)
	})
}

func TestARestartReplacesEachPodAndKeepsEnoughAvailable(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 4))
		b.rest(time.Minute)
		before := b.names(podResource)
		b.patch(deploymentResource, "web",
			map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
				"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": "now"}}}}})
		for range 300 {
			b.rest(100 * time.Millisecond)
			if n := number(b.deployment("web"), "status", "availableReplicas"); n < 3 {
				b.Fatalf("%d pods are available during the rollout, want at least 3 of 4", n)
			}
		}
		b.wantRolledOut("web", 4)
		for _, name := range b.names(podResource) {
			if slices.Contains(before, name) {
				b.Errorf("pod %s survived the restart", name)
			}
		}
		if r := str(b.deployment("web"), "metadata", "annotations", revisionAnnotation); r != "2" {
			b.Errorf("the revision is %q, want 2", r)
		}
	})
}

func TestGoingBackToAnOldTemplateReusesItsReplicaSet(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 2))
		b.rest(time.Minute)
		first := b.names(replicaSetResource)
		for _, image := range []string{"nginx:2", "nginx:1"} {
			b.patch(deploymentResource, "web",
				map[string]any{"spec": map[string]any{"template": podTemplate("web", image)}})
			b.rest(time.Minute)
			b.wantRolledOut("web", 2)
		}
		if sets := b.names(replicaSetResource); len(sets) != 2 {
			b.Errorf("replica sets are %q, want two", sets)
		}
		rs := b.api.Get(replicaSetResource, kube.Key{Namespace: "default", Name: first[0]})
		if r := str(rs, "metadata", "annotations", revisionAnnotation); r != "3" ||
			number(rs, "spec", "replicas") != 2 {
			b.Errorf("the first replica set has revision %q and %d replicas, want 3 and 2", r,
				number(rs, "spec", "replicas"))
		}
	})
}

func TestOnlyAsManyOldReplicaSetsAreKeptAsTheLimitSays(t *testing.T) {
	simulated(t, func(b *bench) {
		body := deploymentBody("web", "nginx:0", 1)
		body["spec"].(map[string]any)["revisionHistoryLimit"] = 1
		b.create(deploymentResource, "default", body)
		for i := range 3 {
			b.rest(20 * time.Second)
			b.patch(deploymentResource, "web",
				map[string]any{"spec": map[string]any{"template": podTemplate("web", fmt.Sprint("nginx:", i+1))}})
		}
		b.rest(time.Minute)
		b.wantRolledOut("web", 1)
		if sets := b.names(replicaSetResource); len(sets) != 2 {
			b.Errorf("replica sets are %q, want the newest and one old", sets)
		}
	})
}

func TestScalingAddsAndRemovesPods(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 1))
		for _, n := range []int{5, 2, 0, 3} {
			b.rest(time.Minute)
			b.patch(deploymentResource, "web", map[string]any{"spec": map[string]any{"replicas": n}})
			b.rest(time.Minute)
			b.wantRolledOut("web", n)
		}
	})
}

func TestADeletedPodTerminatesAndIsReplaced(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 1))
		b.rest(time.Minute)
		name := b.names(podResource)[0]
		b.delete(podResource, name, "")
		b.rest(100 * time.Millisecond)
		if p := b.api.Get(podResource, kube.Key{Namespace: "default", Name: name}); str(p, "metadata",
			"deletionTimestamp") == "" {
			b.Errorf("after 0.1 s the pod is %v, want it to be terminating", p["metadata"])
		}
		b.rest(time.Minute)
		b.wantRolledOut("web", 1)
		if slices.Contains(b.names(podResource), name) {
			b.Errorf("pod %s is still there", name)
		}
	})
}

func TestAMissingImageStopsTheRolloutAndIsReported(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 3))
		b.rest(time.Minute)
		b.patch(deploymentResource, "web",
			map[string]any{"spec": map[string]any{"template": podTemplate("web", "nginx:"+BrokenTag)}})
		b.rest(time.Minute)
		var reasons []string
		for _, p := range b.api.List(podResource, "default") {
			if r := str(p, "status", "containerStatuses", 0, "state", "waiting", "reason"); r != "" {
				reasons = append(reasons, r)
			}
		}
		if !slices.Equal(reasons, []string{"ImagePullBackOff"}) {
			b.Errorf("pods wait because of %q, want one ImagePullBackOff", reasons)
		}
		d := b.deployment("web")
		if n := number(d, "status", "availableReplicas"); n != 3 {
			b.Errorf("%d pods are available, want the 3 old ones", n)
		}
		b.rest(11 * time.Minute)
		if r := condition(b.deployment("web"), progressing, "reason"); r != timedOut {
			b.Errorf("after its deadline the reason of Progressing is %q, want %s", r, timedOut)
		}
		b.patch(deploymentResource, "web",
			map[string]any{"spec": map[string]any{"template": podTemplate("web", "nginx:2")}})
		b.rest(time.Minute)
		b.wantRolledOut("web", 3)
	})
}

func TestTheRestartsAnnotationRestartsTheContainers(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 1))
		b.rest(time.Minute)
		name := b.names(podResource)[0]
		ip := str(b.api.List(podResource, "default")[0], "status", "podIP")
		b.patch(podResource, name,
			map[string]any{"metadata": map[string]any{"annotations": map[string]any{RestartsAnnotation: "2"}}})
		b.rest(500 * time.Millisecond)
		if n := number(b.deployment("web"), "status", "availableReplicas"); n != 0 {
			b.Errorf("%d pods are available while the container restarts, want 0", n)
		}
		b.rest(time.Minute)
		b.wantRolledOut("web", 1)
		p := b.api.Get(podResource, kube.Key{Namespace: "default", Name: name})
		if n := number(p, "status", "containerStatuses", 0, "restartCount"); n != 2 ||
			str(p, "status", "podIP") != ip {
			b.Errorf("the pod has restarted %d times and has the address %s, want 2 and %s", n,
				str(p, "status", "podIP"), ip)
		}
		if c := str(p, "status", "containerStatuses", 0, "lastState", "terminated", "reason"); c != "Error" {
			b.Errorf("the last state's reason is %q, want Error", c)
		}
	})
}

func TestAFailedPodIsReplacedAndKept(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 1))
		b.rest(time.Minute)
		name := b.names(podResource)[0]
		err := b.client.Patch(b.Context(), podResource, kube.Key{Namespace: "default", Name: name}, kube.MergePatch,
			map[string]any{"status": map[string]any{"phase": "Failed", "reason": "Evicted"}}, nil,
			kube.WriteOptions{Subresource: "status"})
		if err != nil {
			b.Fatal(err)
		}
		b.rest(time.Minute)
		b.wantRolledOut("web", 2) // the failed one stays for people to look at
		if p := b.api.Get(podResource, kube.Key{Namespace: "default", Name: name}); str(p,
			"status", "phase") != "Failed" {
			b.Errorf("the failed pod is %q", str(p, "status", "phase"))
		}
	})
}

func TestAClusterAtRestWritesNothingButLeases(t *testing.T) {
	simulatedWith(t, Options{Without: []Part{Leases}}, func(b *bench) {
		b.create(serviceResource, "default", serviceBody("web", map[string]any{"ports": []any{
			map[string]any{"port": 80}}}))
		b.create(budgetResource, "default", budgetBody("web", map[string]any{"minAvailable": 1}))
		b.create(cronJobResource, "default", cronJobBody("tick", false, map[string]any{"schedule": "0 0 1 1 *"}))
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 3))
		b.create(deploymentResource, "default", deploymentBody("sick", "nginx:"+BrokenTag, 1))
		// A Job whose pod never starts.
		b.create(cronJobResource, "default", cronJobBody("stuck", true, map[string]any{"schedule": "1 0 1 1 *"}))
		b.rest(20 * time.Minute)
		b.api.ForgetRequests()
		before := b.runs()
		b.rest(time.Hour)
		if runs := b.runs() - before; runs > 10 {
			b.Errorf("the controllers ran %d times in an hour, want only for the time of the next schedule", runs)
		}
		requests := b.api.Requests()
		if len(requests) == 0 {
			b.Error("no request was seen in an hour, not even a watch")
		}
		for _, r := range requests {
			if r.Method != "GET" {
				b.Errorf("%s %s at rest", r.Method, r.Path)
			}
		}
	})
}

func TestAnOutdatedMirrorNeverCreatesTooManyPods(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 5))
		created := map[string]bool{}
		for range 100 {
			b.rest(50 * time.Millisecond)
			for _, name := range b.names(podResource) {
				created[name] = true
			}
		}
		if len(created) != 5 {
			b.Errorf("%d pods were created for 5 replicas: %s", len(created),
				strings.Join(slices.Sorted(maps.Keys(created)), " "))
		}
	})
}

func TestTheClusterConvergesWhateverGoesWrong(t *testing.T) {
	simulated(t, func(b *bench) {
		var heal []func()
		for _, f := range []apiserver.Fault{
			{Reply: &apiserver.Reply{Code: 500, Reason: "InternalError"}, Probability: 0.1},
			{Reply: &apiserver.Reply{Code: 409, Reason: "Conflict"}, Verb: "patch", Probability: 0.1},
			{Cut: apiserver.CutBefore, Probability: 0.05},
			{Cut: apiserver.CutAfter, Probability: 0.1}, // the write succeeds, its answer is lost
			{Verb: "watch", Cut: apiserver.CutBody, At: 2000, Probability: 0.5},
		} {
			f.UserAgent = manager
			heal = append(heal, b.api.Inject(f))
		}
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 3))
		b.create(deploymentResource, "default", deploymentBody("gone", "nginx:1", 2))
		b.rest(time.Minute)
		b.patch(deploymentResource, "web", map[string]any{"spec": map[string]any{"replicas": 4,
			"template": podTemplate("web", "nginx:2")}})
		b.delete(deploymentResource, "gone", kube.Background)
		b.rest(time.Minute)
		for _, f := range heal {
			f()
		}
		b.rest(10 * time.Minute)
		b.wantRolledOut("web", 4)
		b.wantNames(deploymentResource, "web")
		for _, p := range b.api.List(podResource, "default") {
			if image := str(p, "spec", "containers", 0, "image"); image != "nginx:2" {
				b.Errorf("pod %s runs %s, want nginx:2", str(p, "metadata", "name"), image)
			}
		}
	})
}

func TestAPodThatRunsCanBeResized(t *testing.T) {
	simulatedWith(t, Options{Without: []Part{Leases}}, func(b *bench) {
		pod := podTemplate("web", "web:1")
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		pod["metadata"] = map[string]any{"name": "p"}
		at(pod, "spec", "containers", 0).(map[string]any)["resources"] = map[string]any{
			"requests": map[string]any{"cpu": "100m", "memory": "1Gi"}}
		b.create(podResource, "default", pod)
		b.rest(10 * time.Second)
		err := b.client.Patch(b.Context(), podResource, kube.Key{Namespace: "default", Name: "p"},
			kube.StrategicMergePatch, map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "main", "resources": map[string]any{"requests": map[string]any{"cpu": "300m"}}}}}}, nil,
			kube.WriteOptions{Subresource: "resize"})
		if err != nil {
			b.Fatal(err)
		}
		b.rest(10 * time.Second)
		p := b.get(podResource, "p")
		if s := at(p, "status", "containerStatuses", 0); str(s, "allocatedResources", "cpu") != "300m" ||
			str(s, "resources", "requests", "memory") != "1Gi" || number(s, "restartCount") != 0 {
			b.Errorf("after the resize the container is %v", s)
		}
		b.rest(time.Hour)
		if now := b.get(podResource, "p"); str(now, "metadata", "resourceVersion") !=
			str(p, "metadata", "resourceVersion") {
			b.Error("the status of a pod with requests is written again and again")
		}
	})
}
