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

// user creates the pod p, which uses a claim.
func (b *bench) user(claim string) {
	b.Helper()
	b.create(podResource, "p", `{spec: {containers: [{name: c, image: i}],
		volumes: [{name: v, persistentVolumeClaim: {claimName: `+claim+`}}]}}`)
}

// protect adds a finalizer.
func (b *bench) protect(r kube.Resource, name, finalizer string) {
	b.Helper()
	b.patch(r, name, "{metadata: {finalizers: ["+finalizer+"]}}")
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

func TestAClaimThatWaitsForAPodIsBoundOnceThePodIsScheduled(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(classResource, "w", "{provisioner: example.com/p, volumeBindingMode: WaitForFirstConsumer}")
		b.create(classResource, "now", "{provisioner: example.com/p, volumeBindingMode: Immediate}")
		b.volume("v", "w", "2Gi", "")
		b.claim("c", "w", "1Gi")
		b.claim("d", "now", "1Gi")
		b.wantStorage("before its pod", "c Pending ", "d Pending ", "v Available ")
		b.user("c")
		b.wantStorage("with its pod", "c Bound v", "d Pending ", "v Bound c")
		b.wantEvents("PersistentVolumeClaim", "c", "WaitForFirstConsumer")
		b.want(claimResource, "d", "metadata annotations "+provisionedBy+" = example.com/p")
	})
}

func TestWhatIsInUseIsDeletedOnceNothingUsesIt(t *testing.T) {
	simulated(t, func(b *bench) {
		b.volume("v", "s", "2Gi", "")
		b.claim("c", "s", "1Gi")
		b.user("c")
		b.wantStorage("at first", "c Bound v", "v Bound c")
		b.protect(volumeResource, "v", volumeProtection)
		b.protect(claimResource, "c", claimProtection)
		b.delete(claimResource, "c", kube.Background)
		b.delete(volumeResource, "v", "")
		b.wantStorage("in use", "c Bound v", "v Bound c")
		b.delete(podResource, "p", kube.Background)
		b.wantStorage("without the pod")
		b.volume("w", "s", "2Gi", "")
		b.claim("lost", "s", "1Gi")
		b.rest(3 * time.Second)
		b.delete(volumeResource, "w", "")
		b.wantStorage("without its volume", "lost Lost w")

		b.create(attributesResource, "a", "{driverName: d.example.com, parameters: {x: y}}")
		b.protect(attributesResource, "a", classProtection)
		b.create(claimResource, "named", `{spec: {accessModes: [ReadWriteOnce], storageClassName: s,
			volumeAttributesClassName: a, resources: {requests: {storage: 1Gi}}}}`)
		b.rest(time.Second) // the mirrors of claims and of classes are not in step
		b.delete(attributesResource, "a", "")
		b.rest(time.Second)
		if b.get(attributesResource, "a") == nil {
			b.Error("the VolumeAttributesClass is gone while a claim names it")
		}
		b.delete(claimResource, "named", kube.Background)
		b.rest(time.Second)
		b.wantNames(attributesResource)
	})
}
