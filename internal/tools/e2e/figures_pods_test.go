package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// figureUnrelatedPods measures what 10,000 pods that skiff has nothing to do with cost it: memory and CPU until it is
// ready, then what follows from their changes.
func figureUnrelatedPods(t *testing.T) {
	s := figureScope(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	start := time.Now()
	size := fillPods(t, s)
	t.Logf("%d pods of %d bytes made in %s", figurePods, size, seconds(time.Since(start)))
	s.Apply(workloadManifest("Deployment", "predixy", 1) + "---\n" + workloadManifest("Deployment", "proxy", 1))
	for i := range 3 {
		s.replacePod(fmt.Sprintf("redis-%d", i))
	}
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	s.Kubectl("rollout", "status", "deployment/proxy", "--timeout=4m")
	s.Apply(restartTriggerManifest("predixy", "targets: [{kind: Deployment, name: predixy}]"))

	what := fmt.Sprintf(", %d unrelated pods of %.1f KB", figurePods, float64(size)/1000)
	run, took := startMeasured(t, s.c, kubeconfig, "run", "run")
	s.waitTrigger("predixy", "Ready", "True/Armed")
	before := usageOf(t, run)
	figure("`skiff run`, one RestartTrigger"+what+": ready", "after %s with %s of CPU; RSS %s, peak %s",
		seconds(took), seconds(before.CPU), megabytes(before.RSS), megabytes(before.Peak))
	restart, took := startMeasured(t, s.c, kubeconfig, "restart", "restart", "-n", s.NS, "--selector",
		"app=redis-cluster", "--target", "deployment/proxy")
	Eventually(t, limit, "skiff restart has stored its state", func() (bool, string) {
		d := s.workload("deployments", "proxy")
		return d.Str("metadata", "annotations", "skiff.dev/restart-state") != "", d.String()
	})
	restartBefore := usageOf(t, restart)
	figure("`skiff restart --selector`"+what+": ready", "after %s with %s of CPU; RSS %s, peak %s",
		seconds(took), seconds(restartBefore.CPU), megabytes(restartBefore.RSS), megabytes(restartBefore.Peak))

	s.waitMoment(5 * time.Second) // the echo of the last writes, and a garbage collection or two
	begin := time.Now()
	before, restartBefore = usageOf(t, run), usageOf(t, restart)
	changes := churnPods(t, s)
	elapsed := time.Since(begin)
	requests := countRequests(s.skiffRequests(begin, func(Request) bool { return true }))
	what = fmt.Sprintf(", %d of these pods change in %.0f s", changes, elapsed.Seconds())
	for _, m := range []struct {
		name   string
		sk     *Skiff
		before Usage
	}{{"`skiff run`", run, before}, {"`skiff restart`", restart, restartBefore}} {
		now := usageOf(t, m.sk)
		figure(m.name+what, "%s of CPU (%.0f µs for each); RSS %s before, %s after, peak %s",
			seconds(now.CPU-m.before.CPU),
			float64((now.CPU-m.before.CPU).Microseconds())/float64(changes), megabytes(m.before.RSS),
			megabytes(now.RSS), megabytes(now.Peak))
	}
	figure("requests of both meanwhile", "%s", requests)
	for _, sk := range []*Skiff{run, restart} {
		if err := sk.Terminate(); err != nil {
			t.Error(err)
		}
	}
}

// unrelatedPod is a pod as a busy cluster has them, of about 9 KB with what the server adds. It is on a node that does
// not exist, so that nothing plays it, and belongs to an owner, so that the garbage collector leaves it alone.
func unrelatedPod(i int, owner Object) Object {
	app := fmt.Sprintf("app-%d", i%50)
	container := func(name string, settings int) Object {
		var env []Object
		for e := range settings {
			env = append(env, Object{"name": fmt.Sprintf("SETTING_%d", e),
				"value": fmt.Sprintf("the value of setting %d for %s", e, app)})
		}
		probe := Object{"httpGet": Object{"path": "/healthz", "port": 8080}, "periodSeconds": 10}
		return Object{"name": name, "image": "registry.example.com/team/" + app + "/" + name + ":v1.2.3", "env": env,
			"ports": []Object{{"name": name, "containerPort": 8080 + len(name)}},
			"resources": Object{"requests": Object{"cpu": "100m", "memory": "128Mi"},
				"limits": Object{"cpu": "500m", "memory": "256Mi"}},
			"livenessProbe": probe, "readinessProbe": probe}
	}
	return Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": Object{"name": unrelatedName(i),
			"labels": Object{"app": app, "pod-template-hash": "7d4b9c6f5d", "team": fmt.Sprintf("team-%d", i%20),
				"tier": "backend", "version": "v1.2.3"},
			"annotations": Object{"prometheus.io/scrape": "true", "checksum/config": fmt.Sprintf("%064x", i)},
			"ownerReferences": []Object{{"apiVersion": "v1", "kind": "ConfigMap", "name": owner.Name(),
				"uid":        owner.UID(),
				"controller": true}}},
		"spec": Object{"nodeName": "elsewhere", "containers": []Object{container("main", 16), container("proxy", 8)}}}
}

func unrelatedName(i int) string { return fmt.Sprintf("app-%d-7d4b9c6f5d-%05d", i%50, i) }

// unrelatedStatus is a full status; ready makes two of them differ.
func unrelatedStatus(i int, ready string) Object {
	var conditions, containers []Object
	for _, kind := range []string{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		c := Object{"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"}
		if kind == "Ready" {
			c["status"] = ready
		}
		conditions = append(conditions, c)
	}
	for _, name := range []string{"main", "proxy"} {
		containers = append(containers, Object{"name": name, "ready": ready == "True", "started": true,
			"restartCount": 0,
			"image":        "registry.example.com/team/" + name + ":v1.2.3",
			"imageID":      fmt.Sprintf("registry.example.com/team/%s@sha256:%064x", name, i),
			"containerID":  fmt.Sprintf("containerd://%064x", i),
			"state":        Object{"running": Object{"startedAt": "2026-11-01T10:00:01Z"}}})
	}
	ip := fmt.Sprintf("10.%d.%d.%d", 100+i>>16, i>>8&255, i&255)
	return Object{"status": Object{"phase": "Running", "conditions": conditions, "containerStatuses": containers,
		"hostIP": "192.168.0.1",
		"podIP":  ip, "podIPs": []Object{{"ip": ip}}, "qosClass": "Burstable", "startTime": "2026-11-01T10:00:00Z"}}
}

// fillPods makes the unrelated pods, and returns how large one of them is in JSON.
func fillPods(t *testing.T, s *Scope) (size int) {
	t.Helper()
	owner := must(s.c.Admin.Create(t.Context(), "/api/v1/namespaces/"+s.NS+"/configmaps",
		Object{"metadata": Object{"name": "owner"}}))(t)
	parallel(t, figurePods, func(ctx context.Context, i int) error {
		if _, err := s.c.Admin.Create(ctx, "/api/v1/namespaces/"+s.NS+"/pods", unrelatedPod(i, owner)); err != nil {
			return err
		}
		return setUnrelated(ctx, s, i, "True")
	})
	text := must(json.Marshal(s.get(s.podPath(unrelatedName(0)))))(t)
	return len(text)
}

// setUnrelated writes the status of an unrelated pod, as its kubelet would.
func setUnrelated(ctx context.Context, s *Scope, i int, ready string) error {
	_, err := s.c.Admin.Do(ctx, http.MethodPatch, s.podPath(unrelatedName(i))+"/status",
		"application/strategic-merge-patch+json", unrelatedStatus(i, ready))
	return err
}

// churnPods changes the status of figureChurn unrelated pods a second for figureWindow, and returns how many it
// changed.
func churnPods(t *testing.T, s *Scope) int {
	t.Helper()
	tick := time.NewTicker(time.Second / figureChurn)
	defer tick.Stop()
	total := figureChurn * int(figureWindow/time.Second)
	parallel(t, total, func(ctx context.Context, i int) error {
		<-tick.C
		return setUnrelated(ctx, s, i%figurePods, "False")
	})
	return total
}
