package cli

import (
	"fmt"
	"slices"
	"strings"

	"skiff/examples"
)

// quickTrigger is the example, but that it waits for less.
func quickTrigger() string {
	return strings.Replace(examples.Text("restarttrigger.yaml"), "# debounce: 10s", "debounce: 1s", 1)
}

// restartAct shows a RestartTrigger, on the pods of the Redis that redisAct has left.
func restartAct() act {
	return act{"A RestartTrigger: a proxy that remembers the addresses of Redis pods is restarted when one is replaced", []step{
		{
			title: "Create the proxy and its RestartTrigger",
			you:   "sed 's/# debounce: 10s/debounce: 1s/' examples/restarttrigger.yaml | kubectl apply -f -",
			do:    apply(quickTrigger()),
			missing: func(_, now world) string {
				switch {
				case now.proxy == nil || now.trigger == nil:
					return "there is no proxy, or no trigger"
				case now.trigger.Status.Restarts != 0 || now.proxy.restartedAt() != "":
					return "the proxy was restarted for pods that were there already"
				}
				return now.proxyUnless(2)
			},
			proof: "it watches; the Redis pods that are there already are no reason to restart anything",
		},
		{
			title: "Replace a Redis pod",
			you:   "kubectl delete pod cache-0",
			do:    remove(pods, "cache-0"),
			missing: func(before, now world) string {
				if missing := now.replacedUnless(before, "cache-0"); missing != "" {
					return missing
				}
				return now.restartedUnless(before, "cache-0")
			},
			tells: []string{"created pod cache-0", "restarted deployment/predixy: pod cache-0 replaced, new IP"},
			event: "Restarted",
			proof: "the pod came back at a new address, and once that was quiet, the pods of the proxy were replaced",
		},
		deleteRedis(),
	}}
}

// proxyUnless says what is missing for a proxy that is there and watched over; "" if nothing is.
func (w world) proxyUnless(replicas int) string {
	ready, all := w.podsReady(demoProxy, "")
	switch {
	case ready != replicas || all != replicas || w.proxy.Status.ReadyReplicas != replicas:
		return fmt.Sprintf("%d of %d pods of the proxy are ready, want %d", ready, all, replicas)
	case !w.trigger.ready():
		return "the trigger is not ready"
	}
	return ""
}

// restartedUnless says what is missing for a proxy that was restarted once since before, because of a pod; "" if nothing is.
func (w world) restartedUnless(before world, pod string) string {
	if w.proxy == nil || w.trigger == nil {
		return "there is no proxy, or no trigger"
	}
	s := w.trigger.Status
	switch {
	case w.proxy.restartedAt() == before.proxy.restartedAt():
		return "the proxy has not been restarted"
	case s.Restarts != before.trigger.Status.Restarts+1 || s.LastRestart.Pod != pod:
		return fmt.Sprintf("the status of the trigger tells of %d restarts, the last one for pod %q", s.Restarts, s.LastRestart.Pod)
	}
	for _, old := range before.podsOf(demoProxy) {
		if slices.ContainsFunc(w.pods, func(p *podView) bool { return p.UID == old.UID }) {
			return "pod " + old.Name + " of the proxy has not been replaced"
		}
	}
	return w.proxyUnless(2)
}
