package simulate

import (
	"context"
	"fmt"

	"skiff/internal/runtime/events"
)

// Provisioner is the provisioner of the StorageClasses whose volumes are simulated. The volumes hold nothing, as no
// container runs.
const Provisioner = "simulate.skiff.dev/volumes"

const (
	// provisionedFor is on a volume the name of the provisioner.
	provisionedFor = "pv.kubernetes.io/provisioned-by"
	// defaultClass is on the class of claims without a class.
	defaultClass = "storageclass.kubernetes.io/is-default-class"
	// standard is the name of the default class, as of kind and minikube.
	standard = "standard"
)

// CreateDefaultClass creates the StorageClass of claims without a class, unless a class of the name exists.
func (s *Cluster) CreateDefaultClass(ctx context.Context) error {
	err := s.create(ctx, classResource, "", object{
		"metadata":    object{"name": standard, "annotations": object{defaultClass: "true"}},
		"provisioner": Provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
	if err != nil {
		return fmt.Errorf("create the default StorageClass: %w", err)
	}
	return nil
}

// IsDefaultClass reports whether an object stands in for the StorageClass of CreateDefaultClass: as a StorageClass of
// the same name, or a default class.
func IsDefaultClass(o map[string]any) bool {
	metadata, _ := o["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return o["kind"] == classResource.Kind && (metadata["name"] == standard || annotations[defaultClass] == "true")
}

// setDefaultClass gives a claim without a class the default class, the newest of several, if there are any. A claim
// created after the class has the class from the server.
func (c *claims) setDefaultClass(ctx context.Context, o *storage) (set bool, err error) {
	all, err := c.classes.List("")
	if err != nil {
		return false, err
	}
	var found *storage
	for _, class := range all {
		is, _ := class.Annotations.Get(defaultClass)
		if is == "true" && (found == nil || class.CreationTimestamp.After(found.CreationTimestamp)) {
			found = class
		}
	}
	if found == nil {
		return false, nil
	}
	return true, c.change(ctx, claimResource, o, true, "", object{"spec": object{"storageClassName": found.Name}})
}

// provision creates the volume of a claim, to be bound after the event of the volume.
func (c *claims) provision(ctx context.Context, o, class *storage) error {
	name, modes := "pvc-"+o.UID, make([]any, len(o.Spec.AccessModes))
	for i, mode := range o.Spec.AccessModes {
		modes[i] = mode
	}
	err := c.create(ctx, volumeResource, "", object{
		"metadata": object{"name": name, "annotations": object{provisionedFor: Provisioner}},
		"spec": object{"accessModes": modes, "storageClassName": class.Name, "volumeMode": o.Spec.VolumeMode,
			"persistentVolumeReclaimPolicy": class.Reclaim,
			"capacity":                      object{"storage": o.Spec.Resources.Requests["storage"]},
			"hostPath":                      object{"path": "/simulated/" + name},
			"claimRef": object{"apiVersion": "v1", "kind": claimResource.Kind, "namespace": o.Namespace,
				"name": o.Name, "uid": o.UID, "resourceVersion": o.ResourceVersion}}})
	if err != nil {
		return fmt.Errorf("provision the volume of claim %s: %w", o.Key(), err)
	}
	c.record(o, events.Normal, "ProvisioningSucceeded", "Successfully provisioned volume "+name)
	return nil
}
