package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// BenchmarkUnrelatedPods measures what 10,000 pods that skiff has nothing to do with cost it: memory and CPU until it
// is ready, then what follows from their changes.
func BenchmarkUnrelatedPods(b *testing.B) {
	s := figureScope(b)
	kubeconfig := must(s.c.Kubeconfig(admin))(b)
	figure(b, "pods", map[string]float64{"pods": figurePods, "bytes/pod": float64(fillPods(b, s))})
	s.Apply(workloadManifest("Deployment", "predixy", 1) + "---\n" + workloadManifest("Deployment", "proxy", 1))
	for i := range 3 {
		s.replacePod(fmt.Sprintf("redis-%d", i))
	}
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	s.Kubectl("rollout", "status", "deployment/proxy", "--timeout=4m")
	s.Apply(restartTriggerManifest("predixy", "targets: [{kind: Deployment, name: predixy}]"))

	run, start := startMeasured(b, s.c, kubeconfig, "run", "run")
	s.waitTrigger("predixy", "Ready", "True/Armed")
	before := usageOf(b, run)
	figure(b, "run-ready", took(start, before.CPU), memory(before))
	restart, start := startMeasured(b, s.c, kubeconfig, "restart", "restart", "-n", s.NS, "--selector",
		"app=redis-cluster", "--target", "deployment/proxy")
	Eventually(b, limit, "skiff restart has stored its state", func() (bool, string) {
		d := s.workload("deployments", "proxy")
		return d.Str("metadata", "annotations", "skiff.dev/restart-state") != "", d.String()
	})
	restartBefore := usageOf(b, restart)
	figure(b, "restart-ready", took(start, restartBefore.CPU), memory(restartBefore))

	s.waitMoment(5 * time.Second) // the echo of the last writes, and a garbage collection or two
	begin := time.Now()
	before, restartBefore = usageOf(b, run), usageOf(b, restart)
	changes := churnPods(b, s)
	elapsed := time.Since(begin)
	requests := s.skiffRequests(begin, func(Request) bool { return true })
	for _, m := range []struct {
		name   string
		sk     *Skiff
		before Usage
	}{{"run-changes", run, before}, {"restart-changes", restart, restartBefore}} {
		now := usageOf(b, m.sk)
		figure(b, m.name, took(elapsed, now.CPU-m.before.CPU), memory(now),
			map[string]float64{"changes": float64(changes)})
	}
	figure(b, "requests-of-both-meanwhile", requestsFor(1, requests))
	for _, sk := range []*Skiff{run, restart} {
		if err := sk.Terminate(); err != nil {
			b.Error(err)
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
func fillPods(t testing.TB, s *Scope) (size int) {
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
func churnPods(t testing.TB, s *Scope) int {
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
