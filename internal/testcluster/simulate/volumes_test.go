package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func (b *bench) claim(name, class, size string) {
	b.Helper()
	b.create(claimResource, name, fmt.Sprintf(`{spec: {accessModes: [ReadWriteOnce], storageClassName: %s,
		resources: {requests: {storage: %s}}}}`, class, size))
}

// volume creates a volume; more is what else its spec has.
func (b *bench) volume(name, class, size, more string) {
	b.Helper()
	b.create(volumeResource, name, fmt.Sprintf(`{spec: {accessModes: [ReadWriteOnce, ReadOnlyMany],
		storageClassName: %s, capacity: {storage: %s}, hostPath: {path: /a}, %s}}`, class, size, more))
}

// wantStorage checks the phases of all claims and volumes, each with that to which it is bound.
func (b *bench) wantStorage(when string, want ...string) {
	b.Helper()
	b.rest(3 * time.Second)
	var have []string
	for _, o := range append(b.list(claimResource), b.list(volumeResource)...) {
		have = append(have, str(o, "metadata name")+" "+str(o, "status phase")+" "+str(o, "spec volumeName")+
			str(o, "spec claimRef name"))
	}
	if !slices.Equal(have, want) {
		b.Errorf("%s there are\n%q, want\n%q", when, have, want)
	}
}

func TestClaimsThatNameNoClassGetTheDefaultOneAndAVolume(t *testing.T) {
	simulated(t, func(b *bench) {
		plain := `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}`
		b.create(claimResource, "early", plain)
		b.wantStorage("without a class", "early Pending ")
		if err := b.cluster.CreateDefaultClass(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.create(claimResource, "late", plain)
		b.create(claimResource, "none", `{spec: {storageClassName: "", accessModes: [ReadWriteOnce],
			resources: {requests: {storage: 2Gi}}}}`)
		b.rest(3 * time.Second)
		for _, name := range []string{"early", "late"} {
			b.want(claimResource, name, "status phase = Bound", "spec storageClassName = standard",
				"status capacity storage = 2Gi")
		}
		b.want(claimResource, "none", "status phase = Pending")
		b.delete(claimResource, "late", kube.Background)
		b.rest(3 * time.Second)
		if left := b.list(volumeResource); len(left) != 1 || str(left[0], "spec claimRef name") != "early" {
			t.Errorf("volumes %v, want that of early", left)
		}
	})
}

// kube-controller-manager 1.36 does the same (testdata/kubectl/workloads.txtar of internal/tools/e2e).
func TestClaimsAreBoundToTheSmallestVolumeThatSuits(t *testing.T) {
	simulated(t, func(b *bench) {
		b.claim("a", "s", "2Gi")
		b.wantStorage("without volumes", "a Pending ")
		b.volume("small", "s", "1Gi", "")
		b.volume("other-class", "x", "2Gi", "")
		b.wantStorage("with volumes that do not suit", "a Pending ", "other-class Available ", "small Available ")
		b.volume("large", "y", "9Gi", "")
		b.volume("medium", "y", "5Gi", "")
		b.volume("kept", "y", "7Gi", "claimRef: {namespace: default, name: c}")
		b.rest(time.Second)
		b.claim("b", "y", "3Gi")
		b.claim("c", "y", "3Gi")
		b.wantStorage("with volumes", "a Pending ", "b Bound medium", "c Bound kept", "kept Bound c",
			"large Available ", "medium Bound b", "other-class Available ", "small Available ")
		b.want(claimResource, "b", "status capacity storage = 5Gi", "status accessModes 1 = ReadOnlyMany",
			"metadata annotations "+bindCompleted+" = yes")
		b.delete(claimResource, "b", kube.Background)
		b.wantStorage("without its claim", "a Pending ", "c Bound kept", "kept Bound c", "large Available ",
			"medium Released b", "other-class Available ", "small Available ")
		b.wantEvents("PersistentVolumeClaim", "a", "ProvisioningFailed") // there is no such class
	})
}

// The class that the claim wants next, and the one it has, are charged to quotas: what it has is what its volume had
// when they were bound.
func TestABoundClaimHasTheAttributesClassOfItsVolume(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(volumeResource, "v", `{spec: {accessModes: [ReadWriteOnce], storageClassName: "",
			capacity: {storage: 1Gi}, csi: {driver: d, volumeHandle: h}, volumeAttributesClassName: gold,
			claimRef: {namespace: default, name: c}}}`)
		b.create(claimResource, "c", `{spec: {accessModes: [ReadWriteOnce], storageClassName: "",
			volumeAttributesClassName: gold, resources: {requests: {storage: 1Gi}}}}`)
		b.rest(3 * time.Second)
		current := "status currentVolumeAttributesClassName = "
		b.want(claimResource, "c", "status phase = Bound", current+"gold")
		b.patch(claimResource, "c", `{spec: {volumeAttributesClassName: silver}}`)
		b.patch(volumeResource, "v", `{spec: {volumeAttributesClassName: silver}}`)
		b.rest(3 * time.Second)
		b.want(claimResource, "c", current+"gold")
		b.patchStatus(claimResource, "c", `{currentVolumeAttributesClassName: silver}`)
		b.rest(3 * time.Second)
		b.want(claimResource, "c", current+"silver")
	})
}
