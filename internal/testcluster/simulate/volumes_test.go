package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func claimBody(name, class, size string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": class,
			"resources": map[string]any{"requests": map[string]any{"storage": size}}}}
}

func volumeBody(name, class, size string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"accessModes": []any{"ReadWriteOnce", "ReadOnlyMany"}, "storageClassName": class,
			"capacity": map[string]any{"storage": size}, "hostPath": map[string]any{"path": "/a"}}}
}

func (b *bench) class(name, mode string) {
	b.create(classResource, "", map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
		"metadata": map[string]any{"name": name}, "provisioner": "example.com/p", "volumeBindingMode": mode})
}

// user creates a pod that uses a claim.
func (b *bench) user(name, claim string) {
	b.create(podResource, "default", map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "image": "i"}},
			"volumes": []any{map[string]any{"name": "v",
				"persistentVolumeClaim": map[string]any{"claimName": claim}}}}})
}

// wantStorage checks the phases of all claims and volumes, each with that to which it is bound.
func (b *bench) wantStorage(when string, want ...string) {
	b.Helper()
	b.rest(3 * time.Second)
	var have []string
	for _, o := range b.api.List(claimResource, "default") {
		have = append(have, fmt.Sprintf("%s %s %s", str(o, "metadata", "name"), str(o, "status", "phase"),
			str(o, "spec", "volumeName")))
	}
	for _, o := range b.api.List(volumeResource, "") {
		have = append(have, fmt.Sprintf("%s %s %s", str(o, "metadata", "name"), str(o, "status", "phase"),
			str(o, "spec", "claimRef", "name")))
	}
	if !slices.Equal(have, want) {
		b.Errorf("%s there are\n%q, want\n%q", when, have, want)
	}
}

// kube-controller-manager 1.36 does the same (internal/tools/e2e, storageLines).
func TestClaimsAreBoundToTheSmallestVolumeThatSuits(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(claimResource, "default", claimBody("a", "s", "2Gi"))
		b.wantStorage("without volumes", "a Pending ")
		b.create(volumeResource, "", volumeBody("small", "s", "1Gi"))
		b.create(volumeResource, "", volumeBody("other-class", "x", "2Gi"))
		b.wantStorage("with volumes that do not suit", "a Pending ", "other-class Available ", "small Available ")
		b.create(volumeResource, "", volumeBody("large", "y", "9Gi"))
		b.create(volumeResource, "", volumeBody("medium", "y", "5Gi"))
		kept := volumeBody("kept", "y", "7Gi")
		kept["spec"].(map[string]any)["claimRef"] = map[string]any{"namespace": "default", "name": "c"}
		b.create(volumeResource, "", kept)
		b.rest(time.Second)
		b.create(claimResource, "default", claimBody("b", "y", "3Gi"))
		b.create(claimResource, "default", claimBody("c", "y", "3Gi"))
		b.wantStorage("with volumes", "a Pending ", "b Bound medium", "c Bound kept", "kept Bound c",
			"large Available ", "medium Bound b", "other-class Available ", "small Available ")
		o := b.get(claimResource, "b")
		if str(o, "status", "capacity", "storage") != "5Gi" || str(o, "status", "accessModes", 1) != "ReadOnlyMany" ||
			str(o, "metadata", "annotations", bindCompleted) != "yes" {
			b.Errorf("the bound claim is %v", o)
		}
		b.delete(claimResource, "b", kube.Background)
		b.wantStorage("without its claim", "a Pending ", "c Bound kept", "kept Bound c", "large Available ",
			"medium Released b", "other-class Available ", "small Available ")
		if have := b.reasons("PersistentVolumeClaim", "a"); !slices.Equal(have, []string{"ProvisioningFailed"}) {
			b.Errorf("the Events of a claim whose class there is not are %q", have)
		}
	})
}

func TestAClaimThatWaitsForAPodIsBoundOnceThePodIsScheduled(t *testing.T) {
	simulated(t, func(b *bench) {
		b.class("w", "WaitForFirstConsumer")
		b.class("now", "Immediate")
		b.create(volumeResource, "", volumeBody("v", "w", "2Gi"))
		b.create(claimResource, "default", claimBody("c", "w", "1Gi"))
		b.create(claimResource, "default", claimBody("d", "now", "1Gi"))
		b.wantStorage("before its pod", "c Pending ", "d Pending ", "v Available ")
		b.user("p", "c")
		b.wantStorage("with its pod", "c Bound v", "d Pending ", "v Bound c")
		if have := b.reasons("PersistentVolumeClaim", "c"); !slices.Equal(have, []string{"WaitForFirstConsumer"}) {
			b.Errorf("the Events are %q", have)
		}
		if by := str(b.get(claimResource, "d"), "metadata", "annotations", provisionedBy); by != "example.com/p" {
			b.Errorf("the claim names the provisioner %q", by)
		}
	})
}

func TestWhatIsInUseIsDeletedOnceNothingUsesIt(t *testing.T) {
	simulated(t, func(b *bench) {
		protected := func(body map[string]any, finalizer string) map[string]any {
			body["metadata"].(map[string]any)["finalizers"] = []any{finalizer}
			return body
		}
		b.create(volumeResource, "", protected(volumeBody("v", "s", "2Gi"), volumeProtection))
		b.create(claimResource, "default", protected(claimBody("c", "s", "1Gi"), claimProtection))
		b.user("p", "c")
		b.wantStorage("at first", "c Bound v", "v Bound c")
		b.delete(claimResource, "c", kube.Background)
		if err := b.client.Delete(b.Context(), volumeResource, kube.Key{Name: "v"}, kube.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.wantStorage("in use", "c Bound v", "v Bound c")
		b.delete(podResource, "p", kube.Background)
		b.wantStorage("without the pod")
		b.create(volumeResource, "", volumeBody("w", "s", "2Gi"))
		b.create(claimResource, "default", claimBody("lost", "s", "1Gi"))
		b.rest(3 * time.Second)
		if err := b.client.Delete(b.Context(), volumeResource, kube.Key{Name: "w"}, kube.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.wantStorage("without its volume", "lost Lost w")
		attributes := func(o map[string]any) map[string]any {
			o["spec"].(map[string]any)["volumeAttributesClassName"] = "a"
			return o
		}
		b.create(attributesResource, "", protected(map[string]any{"apiVersion": "storage.k8s.io/v1",
			"kind": "VolumeAttributesClass", "metadata": map[string]any{"name": "a"}, "driverName": "d.example.com",
			"parameters": map[string]any{"x": "y"}}, classProtection))
		b.create(claimResource, "default", attributes(claimBody("named", "s", "1Gi")))
		b.rest(time.Second) // the mirrors of claims and of classes are not in step
		class := kube.Key{Name: "a"}
		if err := b.client.Delete(b.Context(), attributesResource, class, kube.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.rest(time.Second)
		if b.api.Get(attributesResource, class) == nil {
			b.Error("the VolumeAttributesClass is gone while a claim names it")
		}
		b.delete(claimResource, "named", kube.Background)
		b.rest(time.Second)
		if o := b.api.Get(attributesResource, class); o != nil {
			b.Errorf("no claim names the VolumeAttributesClass %v", o)
		}
	})
}
