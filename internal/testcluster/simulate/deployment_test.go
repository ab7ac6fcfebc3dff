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

// web creates the Deployment web.
func (b *bench) web(replicas int) {
	b.Helper()
	b.deploy(deploymentResource, "web", "nginx:1", fmt.Sprintf("{replicas: %d}", replicas))
}

func TestADeploymentBecomesRunningPods(t *testing.T) {
	simulated(t, func(b *bench) {
		b.web(3)
		b.rest(500 * time.Millisecond)
		const starting = "status containerStatuses 0 state waiting reason"
		have := slices.Compact(b.fields(podResource, starting))
		if !slices.Equal(have, []string{"ContainerCreating"}) {
			b.Errorf("after half a second the pods wait because of %q", have)
		}
		b.rest(time.Minute)
		b.wantRolledOut("web", 3)
		for _, p := range b.list(podResource) {
			wantOf(b.T, p, "status phase = Running", "status conditions Ready status = True",
				"metadata ownerReferences 0 kind = ReplicaSet")
			if node := str(p, "spec nodeName"); b.get(nodeResource, node) == nil {
				b.Errorf("a pod runs on node %q, which does not exist", node)
			}
		}
		if ips := slices.Compact(b.fields(podResource, "status podIP")); len(ips) != 3 || ips[0] == "" {
			b.Errorf("pod addresses are %v, want three", ips)
		}
		b.want(deploymentResource, "web", "metadata annotations "+revisionAnnotation+" = 1")
	})
}

func TestACordonedNodeGetsNoPods(t *testing.T) {
	simulated(t, func(b *bench) {
		cordon := func(name string, on bool) {
			b.patch(nodeResource, name, fmt.Sprintf("{spec: {unschedulable: %t}}", on))
			b.rest(time.Second)
		}
		where := func(want ...string) {
			b.rest(time.Minute)
			if have := slices.Compact(b.fields(podResource, "spec nodeName")); !slices.Equal(have, want) {
				b.Errorf("pods run on %q, want %q", have, want)
			}
		}
		cordon("node-1", true)
		cordon("node-2", true)
		b.web(6)
		where("node-3")
		cordon("node-3", true)
		b.scale(deploymentResource, "web", 7)
		where("", "node-3")
		waiting := ""
		for _, p := range b.list(podResource) {
			if str(p, "spec nodeName") == "" {
				waiting = str(p, "metadata name")
			}
		}
		b.want(podResource, waiting, "status conditions PodScheduled reason = Unschedulable", "status phase = Pending")
		cordon("node-2", false)
		where("node-2", "node-3")
		b.want(podResource, waiting, "status conditions PodScheduled status = True",
			"status conditions PodScheduled reason =", "status conditions Ready status = True")
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
				b.web(2)
				b.rest(time.Minute)
				remove := b.api.Inject(apiserver.Fault{UserAgent: manager, Verb: "watch",
					Watch: apiserver.WatchFault{Bookmarks: mode}})
				defer remove()
				b.api.Compact() // a client that reconnects lists anew, and gets such bookmarks
				b.api.Inject(apiserver.Fault{UserAgent: manager, Verb: "watch", Times: 10,
					Watch: apiserver.WatchFault{Gone: apiserver.GoneInStream}})
				if mode == apiserver.BookmarksStorm {
					b.rest(5 * time.Second) // thousands
					remove()
				}
				b.rest(12 * time.Minute) // a watch ends before
				b.scale(deploymentResource, "web", 4)
				b.rest(2 * time.Minute)
				b.wantRolledOut("web", 4)
			})
		})
	}
}

// All controllers must detect that the objects that they have seen never existed.
//
// Rules: WCH-48, CCH-16
func TestTheClusterRecoversFromARestoredBackup(t *testing.T) {
	simulated(t, func(b *bench) {
		b.web(2)
		b.deploy(deploymentResource, "old", "nginx:1", "{replicas: 1}")
		b.rest(time.Minute)
		backup := b.api.Snapshot()
		b.scale(deploymentResource, "web", 5)
		b.deploy(deploymentResource, "lost", "nginx:1", "{replicas: 3}")
		b.delete(deploymentResource, "old", kube.Background)
		b.rest(time.Minute)
		b.api.Restore(backup)
		b.rest(15 * time.Minute) // a silent watch ends after ten minutes at most
		b.wantNames(deploymentResource, "old", "web")
		want := func(web, old int) {
			for name, n := range map[string]int{"web": web, "old": old} {
				pods := slices.DeleteFunc(b.names(podResource),
					func(pod string) bool { return !strings.HasPrefix(pod, name+"-") })
				if len(pods) != n {
					b.Errorf("%s has the pods %q, want %d", name, pods, n)
				}
				b.want(deploymentResource, name, fmt.Sprint("status availableReplicas = ", n))
			}
		}
		want(2, 1)
		b.scale(deploymentResource, "web", 4)
		b.rest(time.Minute)
		want(4, 1)
	})
}

func TestGoingBackToAnOldTemplateReusesItsReplicaSet(t *testing.T) {
	simulated(t, func(b *bench) {
		b.web(2)
		b.rest(time.Minute)
		first := b.names(replicaSetResource)[0]
		for _, image := range []string{"nginx:2", "nginx:1"} {
			b.setImage(deploymentResource, "web", image, "{}")
			b.rest(time.Minute)
			b.wantRolledOut("web", 2)
		}
		if sets := b.names(replicaSetResource); len(sets) != 2 {
			b.Errorf("replica sets are %q, want two", sets)
		}
		b.want(replicaSetResource, first, "metadata annotations "+revisionAnnotation+" = 3", "spec replicas = 2")
	})
}

func TestADeploymentAdoptsReplicaSetsThatItSelectsAndReleasesOthers(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(replicaSetResource, "old", "nginx:0", "{replicas: 2}")
		b.deploy(replicaSetResource, "another", "nginx:0", "{replicas: 0}")
		b.patch(replicaSetResource, "old", "{metadata: {labels: {app: web}, annotations: {"+revisionAnnotation+
			": '3546343826724305832'}}}")
		b.rest(time.Minute)
		b.web(2)
		b.rest(time.Minute)
		b.wantRolledOut("web", 2)
		b.want(replicaSetResource, "old", "spec replicas = 0", "metadata ownerReferences 0 name = web")
		b.want(replicaSetResource, "another", "metadata ownerReferences = ")
		b.want(deploymentResource, "web", "metadata annotations "+revisionAnnotation+" = 3546343826724305833")
		b.patch(replicaSetResource, "old", "{metadata: {labels: {app: mine}}}")
		b.rest(time.Minute)
		b.want(replicaSetResource, "old", "metadata ownerReferences = ")
		pods := b.fields(podResource, "metadata uid")
		b.delete(deploymentResource, "web", kube.Orphan)
		b.rest(time.Minute)
		b.web(2)
		b.rest(time.Minute)
		b.wantRolledOut("web", 2)
		if now := b.fields(podResource, "metadata uid"); !slices.Equal(now, pods) {
			b.Errorf("the pods %v became %v", pods, now)
		}
	})
}

func TestOnlyAsManyOldReplicaSetsAreKeptAsTheLimitSays(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(deploymentResource, "web", "nginx:0", "{replicas: 1, revisionHistoryLimit: 1}")
		for i := range 3 {
			b.rest(20 * time.Second)
			b.setImage(deploymentResource, "web", fmt.Sprint("nginx:", i+1), "{}")
		}
		b.rest(time.Minute)
		b.wantRolledOut("web", 1)
		if sets := b.names(replicaSetResource); len(sets) != 2 {
			b.Errorf("replica sets are %q, want the newest and one old", sets)
		}
	})
}

func TestADeletedPodTerminatesAndIsReplaced(t *testing.T) {
	simulated(t, func(b *bench) {
		b.web(1)
		b.rest(time.Minute)
		name := b.names(podResource)[0]
		b.delete(podResource, name, "")
		b.rest(100 * time.Millisecond)
		if p := b.get(podResource, name); str(p, "metadata deletionTimestamp") == "" {
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
		b.web(3)
		b.rest(time.Minute)
		b.setImage(deploymentResource, "web", "nginx:"+BrokenTag, "{}")
		b.rest(time.Minute)
		reasons := slices.Compact(b.fields(podResource, "status containerStatuses 0 state waiting reason"))
		if !slices.Equal(reasons, []string{"", "ImagePullBackOff"}) {
			b.Errorf("pods wait because of %q, want one ImagePullBackOff", reasons)
		}
		b.want(deploymentResource, "web", "status availableReplicas = 3") // the old ones
		b.rest(11 * time.Minute)
		b.want(deploymentResource, "web", "status conditions Progressing reason = "+timedOut)
		b.setImage(deploymentResource, "web", "nginx:2", "{}")
		b.rest(time.Minute)
		b.wantRolledOut("web", 3)
	})
}

func TestTheRestartsAnnotationRestartsTheContainers(t *testing.T) {
	simulated(t, func(b *bench) {
		b.web(1)
		b.rest(time.Minute)
		name := b.names(podResource)[0]
		ip := str(b.get(podResource, name), "status podIP")
		b.patch(podResource, name, `{metadata: {annotations: {`+RestartsAnnotation+`: "2"}}}`)
		b.rest(500 * time.Millisecond)
		b.want(deploymentResource, "web", "status availableReplicas =")
		b.rest(time.Minute)
		b.wantRolledOut("web", 1)
		b.want(podResource, name, "status containerStatuses 0 restartCount = 2", "status podIP = "+ip,
			"status containerStatuses 0 lastState terminated reason = Error")
	})
}

func TestAFailedPodIsReplacedAndKept(t *testing.T) {
	simulated(t, func(b *bench) {
		b.web(1)
		b.rest(time.Minute)
		name := b.names(podResource)[0]
		b.patchStatus(podResource, name, "{phase: Failed, reason: Evicted}")
		b.rest(time.Minute)
		b.wantRolledOut("web", 2) // users can look at the failed one
		b.want(podResource, name, "status phase = Failed")
	})
}

// Each definition has a watch of the garbage collector, which is renewed after five minutes or more.
func TestAClusterAtRestWritesNothingButLeases(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	simulatedWith(t, Options{Without: []Part{Leases}}, func(b *bench) {
		const definitions, watchesPerHour = 140, 12
		for i := range definitions {
			b.create(crdResource, fmt.Sprintf("kind%ds.example.com", i), fmt.Sprintf(`{spec: {group: example.com,
				scope: Namespaced, names: {plural: kind%ds, kind: Kind%d}, versions: [{name: v1, served: true,
				storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`, i, i))
		}
		b.service("web", "{ports: [{port: 80}]}")
		b.budget("web", "{minAvailable: 1}")
		b.cronJob("tick", "c:1", "{schedule: 0 0 1 1 *}")
		b.web(3)
		b.deploy(deploymentResource, "sick", "nginx:"+BrokenTag, "{replicas: 1}")
		b.cronJob("stuck", "c:"+BrokenTag, "{schedule: 1 0 1 1 *}") // its pod never starts
		b.rest(20 * time.Minute)
		b.api.ForgetRequests()
		before := b.runs()
		b.rest(time.Hour)
		if runs := b.runs() - before; runs > 10 {
			b.Errorf("the controllers ran %d times in an hour, want only for the time of the next schedule", runs)
		}
		requests := b.api.Requests()
		watched := map[string]bool{}
		for _, r := range requests {
			watched[r.Path] = true
		}
		if most := watchesPerHour * 2 * len(watched); len(watched) < definitions || len(requests) > most {
			b.Errorf("%d requests for %d lists of objects in an hour, want each watched, and %d at most",
				len(requests), len(watched), most)
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
		b.api.Inject(apiserver.Fault{UserAgent: manager, Verb: "watch", Resource: "pods", Lag: 300 * time.Millisecond})
		b.api.Inject(apiserver.Fault{UserAgent: manager, Verb: "create", Resource: "pods", Skip: 50, // to find an end
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden"}})
		b.api.Compact() // the watches begin again
		b.web(5)
		created := map[string]bool{}
		for range 100 {
			b.rest(50 * time.Millisecond)
			for _, name := range b.names(podResource) {
				created[name] = true
			}
		}
		if len(created) != 5 {
			b.Errorf("for 5 replicas the pods %q were created", slices.Sorted(maps.Keys(created)))
		}
	})
}

func TestTheClusterConvergesAfterManyKindsOfFaults(t *testing.T) {
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
		b.web(3)
		b.deploy(deploymentResource, "gone", "nginx:1", "{replicas: 2}")
		b.rest(time.Minute)
		b.setImage(deploymentResource, "web", "nginx:2", "{replicas: 4}")
		b.delete(deploymentResource, "gone", kube.Background)
		b.rest(time.Minute)
		for _, f := range heal {
			f()
		}
		b.rest(10 * time.Minute)
		b.wantRolledOut("web", 4)
		b.wantNames(deploymentResource, "web")
		if images := slices.Compact(b.fields(podResource, "spec containers 0 image")); len(images) != 1 ||
			images[0] != "nginx:2" {
			b.Errorf("the pods run %q, want nginx:2", images)
		}
	})
}

func TestAPodThatRunsCanBeResized(t *testing.T) {
	simulatedWith(t, Options{Without: []Part{Leases}}, func(b *bench) {
		b.create(podResource, "p", `{spec: {containers: [{name: main, image: "web:1",
			resources: {requests: {cpu: 100m, memory: 1Gi}}}]}}`)
		b.rest(10 * time.Second)
		b.patchObject(podResource, "p", "resize", kube.StrategicMergePatch,
			b.parse("{spec: {containers: [{name: main, resources: {requests: {cpu: 300m}}}]}}"))
		b.rest(10 * time.Second)
		b.want(podResource, "p", "status containerStatuses 0 allocatedResources cpu = 300m",
			"status containerStatuses 0 resources requests memory = 1Gi",
			"status containerStatuses 0 restartCount = 0")
		version := str(b.get(podResource, "p"), "metadata resourceVersion")
		b.rest(10 * time.Minute) // the status is not written again and again
		b.want(podResource, "p", "metadata resourceVersion = "+version)
	})
}
