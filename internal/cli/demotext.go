package cli

import (
	"fmt"
	"slices"
	"strings"
)

// lines show the world in a few lines.
func (w world) lines() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if w.web != nil {
		add("webserver/%s  %s  image %s  pods ready %d of %d  node port %d", w.web.Name, readiness(w.web.ready()), w.web.Spec.Image,
			w.web.Status.ReadyReplicas, w.web.Spec.Replicas, w.web.Status.NodePort)
	}
	if w.webDeployment != nil {
		add("deployment/%s  ready %d", w.webDeployment.Name, w.webDeployment.Status.ReadyReplicas)
	}
	if w.webService != nil {
		add("service/%s  %s  node port %d", w.webService.Name, w.webService.Spec.ClusterIP, w.webService.nodePort())
	}
	if all := w.podsOf(demoWeb); len(all) > 0 {
		add("%s", sum(all))
	}
	if w.redis != nil {
		add("redis/%s  %s  port %d  pods ready %d of %d", w.redis.Name, readiness(w.redis.ready()), w.redis.Spec.Port,
			w.redis.Status.ReadyReplicas, w.redis.Spec.Num)
	}
	for _, p := range w.podsOf(demoRedis) {
		add("pod/%s  %s  %s  uid %.8s  %s", p.Name, readiness(p.ready()), p.Status.PodIP, p.UID, p.image())
	}
	if w.trigger != nil {
		add("restarttrigger/%s  %s  %s", w.trigger.Name, readiness(w.trigger.ready()), w.trigger.lastRestart())
	}
	if w.proxy != nil {
		add("deployment/%s  ready %d of %d", w.proxy.Name, w.proxy.Status.ReadyReplicas, w.proxy.Spec.Replicas)
		for _, p := range w.podsOf(demoProxy) {
			add("pod/%s  %s", p.Name, readiness(p.ready()))
		}
	}
	if lines == nil {
		lines = []string{"nothing is left"}
	}
	return lines
}

func readiness(ready bool) string {
	if ready {
		return "Ready"
	}
	return "not ready"
}

// lastRestart says what the trigger has done.
func (r *triggerView) lastRestart() string {
	if r.Status.Restarts == 0 {
		return "has restarted nothing"
	}
	return fmt.Sprintf("restarts %d  the last one for %s of pod %s", r.Status.Restarts, r.Status.LastRestart.Reason, r.Status.LastRestart.Pod)
}

// sum shows many pods in one line.
func sum(all []*podView) string {
	nodes := map[string]bool{}
	var images []string
	for _, p := range all {
		nodes[p.Spec.NodeName] = true
		if !slices.Contains(images, p.image()) {
			images = append(images, p.image())
		}
	}
	return fmt.Sprintf("%d pods on %d nodes, running %s", len(all), len(nodes), strings.Join(images, ", "))
}
