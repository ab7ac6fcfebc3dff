package simulate

import (
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// budget creates a PodDisruptionBudget of the pods with the label app.
func (b *bench) budget(app, spec string) {
	b.Helper()
	o := b.parse("{spec: " + spec + "}")
	member(o, "spec")["selector"] = b.parse("{matchLabels: {app: " + app + "}}")
	b.createObject(budgetResource, app, o)
}

func TestABudgetAllowsEvictionsAsLongAsEnoughPodsAreHealthy(t *testing.T) {
	simulated(t, func(b *bench) {
		b.budget("web", `{maxUnavailable: "34%"}`)
		b.rest(time.Second)
		b.want(budgetResource, "web", "status disruptionsAllowed = 0", "status expectedPods = 0",
			"status observedGeneration = 1")
		b.web(3)
		b.rest(10 * time.Second)
		b.want(budgetResource, "web", "status currentHealthy = 3", "status desiredHealthy = 1",
			"status disruptionsAllowed = 2", "status expectedPods = 3", "status conditions 0 reason = SufficientPods",
			"status conditions 0 status = True")
		for i, pod := range b.names(podResource) {
			err := b.client.Create(b.Context(), podResource, "default", b.parse(
				"{apiVersion: policy/v1, kind: Eviction, metadata: {name: "+pod+"}}"), nil,
				kube.WriteOptions{Subresource: "eviction"})
			if (err == nil) != (i < 2) {
				b.Errorf("eviction %d: %v", i, err)
			}
		}
		b.rest(500 * time.Millisecond)
		b.want(budgetResource, "web", "status currentHealthy = 1", "status disruptionsAllowed = 0")
		b.wantEvents("PodDisruptionBudget", "web", "NoPods")
		b.rest(10 * time.Second) // the pods were replaced
		b.want(budgetResource, "web", "status currentHealthy = 3", "status disruptionsAllowed = 2",
			"status disruptedPods =")
		b.delete(podResource, b.names(podResource)[0], "")
		b.rest(500 * time.Millisecond)
		b.want(budgetResource, "web", "status currentHealthy = 2")
	})
}

func TestABudgetCannotCountPodsOfControllersWithoutAScale(t *testing.T) {
	simulated(t, func(b *bench) {
		b.deploy(daemonSetResource, "agent", "agent:1", "{}")
		b.budget("agent", "{maxUnavailable: 1}")
		b.rest(10 * time.Second)
		b.want(budgetResource, "agent", "status conditions 0 reason = SyncFailed")
		b.patch(budgetResource, "agent", "{spec: {maxUnavailable: null, minAvailable: 2}}")
		b.rest(time.Second)
		b.want(budgetResource, "agent", "status currentHealthy = 3", "status desiredHealthy = 2",
			"status disruptionsAllowed = 1", "status expectedPods = 3", "status observedGeneration = 2")
	})
}

func TestAScalerReportsTheScaleOfItsTargetAndThatThereAreNoMetrics(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(scalerResource, "web",
			"{spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}")
		b.rest(time.Second)
		b.want(scalerResource, "web", "status conditions 0 reason = FailedGetScale")
		b.web(3)
		b.rest(time.Minute)
		b.want(scalerResource, "web", "status currentReplicas = 3", "status conditions 0 reason = SucceededGetScale",
			"status conditions 1 reason = FailedGetResourceMetric")
		b.wantEvents("HorizontalPodAutoscaler", "web", "FailedGetResourceMetric", "FailedGetScale")
		version := str(b.get(scalerResource, "web"), "metadata resourceVersion")
		b.rest(10 * time.Minute) // the status is not written again and again
		b.want(scalerResource, "web", "metadata resourceVersion = "+version)
	})
}

func TestNodesRenewTheirLeasesAndReportNowAndThenThatTheyAreReady(t *testing.T) {
	simulated(t, func(b *bench) {
		lease := func() object {
			return b.api.Get(leaseResource, kube.Key{Namespace: "kube-node-lease", Name: "node-1"})
		}
		beat := func() string {
			return str(b.get(nodeResource, "node-1"), "status conditions Ready lastHeartbeatTime")
		}
		first, before := lease(), beat()
		wantOf(t, first, "spec holderIdentity = node-1", "spec leaseDurationSeconds = 40",
			"metadata ownerReferences 0 kind = Node")
		b.rest(15 * time.Second)
		if str(lease(), "spec renewTime") <= str(first, "spec renewTime") || beat() != before {
			b.Errorf("after seconds the lease is %v, the status of %s, want a newer lease alone", lease(), beat())
		}
		b.rest(5 * time.Minute)
		if b.want(nodeResource, "node-1", "status conditions Ready status = True"); beat() <= before {
			b.Errorf("the status is of %s, want one later than %s", beat(), before)
		}
		b.delete(nodeResource, "node-1", "")
		b.rest(time.Minute)
		if lease() != nil {
			b.Error("the lease of a deleted node is still there")
		}
	})
}
