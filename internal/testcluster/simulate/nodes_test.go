package simulate

import (
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func TestNodesRenewTheirLeasesAndSayNowAndThenThatTheyAreWell(t *testing.T) {
	simulated(t, func(b *bench) {
		lease := kube.Key{Namespace: "kube-node-lease", Name: "node-1"}
		first := b.api.Get(leaseResource, lease)
		if str(first, "spec", "holderIdentity") != "node-1" || number(first, "spec", "leaseDurationSeconds") != 40 ||
			str(first, "metadata", "ownerReferences", 0, "kind") != "Node" {
			b.Errorf("the lease is %v", first)
		}
		beat := func() (string, string) {
			n := b.api.Get(nodeResource, kube.Key{Name: "node-1"})
			return str(n, "status", "conditions", 3, "lastHeartbeatTime"), str(n, "status", "conditions", 3, "status")
		}
		before, _ := beat()
		b.rest(15 * time.Second)
		if now := b.api.Get(leaseResource, lease); str(now, "spec", "renewTime") <= str(first, "spec", "renewTime") {
			b.Errorf("the lease is not renewed: %v", now)
		}
		if now, _ := beat(); now != before {
			b.Errorf("the status is written after seconds: %s, %s", before, now)
		}
		b.rest(5 * time.Minute)
		if now, ready := beat(); now <= before || ready != "True" {
			b.Errorf("the status is Ready=%s of %s, want one later than %s", ready, now, before)
		}
		err := b.client.Delete(b.Context(), nodeResource, kube.Key{Name: "node-1"}, kube.DeleteOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.rest(time.Minute)
		if b.api.Get(leaseResource, lease) != nil {
			b.Error("the lease of a deleted node is still there")
		}
	})
}
