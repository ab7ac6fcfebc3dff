package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// storage is a PersistentVolumeClaim, a PersistentVolume or a StorageClass; each kind has some of the fields.
type storage struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               struct {
		AccessModes []string `json:"accessModes"`
		Class       *string  `json:"storageClassName"` // nil: the default class, as soon as there is any
		Attributes  string   `json:"volumeAttributesClassName"`
		VolumeMode  string   `json:"volumeMode"`

		// of claims
		VolumeName string           `json:"volumeName"`
		Selector   *labels.Selector `json:"selector"`
		Resources  struct {
			Requests map[string]string `json:"requests"`
		} `json:"resources"`

		// of volumes
		Capacity map[string]string `json:"capacity"`
		ClaimRef *claimRef         `json:"claimRef"`
		Reclaim  string            `json:"persistentVolumeReclaimPolicy"`
	} `json:"spec"`
	Status kube.Raw `json:"status"`

	// of classes
	Provisioner string `json:"provisioner"`
	BindingMode string `json:"volumeBindingMode"`
	Reclaim     string `json:"reclaimPolicy"`
}

// class returns the name of the class of a claim or volume.
func (s *storage) class() string {
	if s.Spec.Class == nil {
		return ""
	}
	return *s.Spec.Class
}

type claimRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"` // empty in a volume kept by an administrator for a claim
}

// of reports whether the reference is to a claim; none is, too, to any claim.
func (r *claimRef) of(claim *storage) bool {
	return r == nil || r.Namespace == claim.Namespace && r.Name == claim.Name && (r.UID == "" || r.UID == claim.UID)
}

// The finalizers of claims and volumes in use, and the annotations by which a claim is bound.
const (
	claimProtection   = "kubernetes.io/pvc-protection"
	volumeProtection  = "kubernetes.io/pv-protection"
	classProtection   = "kubernetes.io/vac-protection"
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	boundByController = "pv.kubernetes.io/bound-by-controller"
	provisionedBy     = "volume.kubernetes.io/storage-provisioner"
)

// claims is the controller that binds claims to volumes, and frees deleted claims that no pod uses.
type claims struct {
	controllerOf[*storage]
	volumes, classes *cache.Store[*storage]
	pods             *cache.Store[*setPod]
}

// usedClaims is the index of pods by the claims they use.
const usedClaims = "claims"

func newClaims(s *shared) runner {
	c := &claims{newController[*storage](s, claimResource, "persistentvolume-controller"),
		mirrorOf[*storage](s, volumeResource), mirrorOf[*storage](s, classResource), mirrorOf[*setPod](s, podResource)}
	c.pods.Index(usedClaims, (*setPod).claims)
	return c.forEach("claims", c.sync,
		controller.Watches(c.pods, func(p *setPod) (keys []kube.Key) {
			for _, name := range p.claims() {
				keys = append(keys, kube.Key{Namespace: p.Namespace, Name: name})
			}
			return keys
		}),
		controller.Watches(c.volumes, func(v *storage) []kube.Key {
			if ref := v.Spec.ClaimRef; ref != nil {
				return []kube.Key{{Namespace: ref.Namespace, Name: ref.Name}}
			}
			return everyKey(c.mirror)
		}),
		controller.Watches(c.classes, func(*storage) []kube.Key { return everyKey(c.mirror) }))
}

// claims returns the names of the claims that a pod uses.
func (p *setPod) claims() (names []string) {
	for _, v := range p.Spec.Volumes {
		if v.Claim.Name != "" {
			names = append(names, v.Claim.Name)
		}
	}
	return names
}

func (c *claims) sync(ctx context.Context, o *storage) (time.Duration, error) {
	users, err := c.pods.ByIndex(usedClaims, o.Namespace, o.Name)
	if err != nil {
		return 0, err
	}
	used := slices.ContainsFunc(users, func(p *setPod) bool { return p.Spec.NodeName != "" })
	if o.Deleting() {
		if used {
			return 0, nil
		}
		return 0, c.removeFinalizer(ctx, claimResource, o, claimProtection)
	}
	if o.Spec.VolumeName != "" {
		return 0, c.bindNamed(ctx, o)
	}
	if o.Spec.Class == nil {
		if set, err := c.setDefaultClass(ctx, o); set || err != nil {
			return 0, err
		}
	}
	class, exists, err := c.classes.Get(kube.Key{Name: o.class()})
	if err != nil {
		return 0, err
	}
	v, err := c.smallest(o)
	switch {
	case err != nil:
		return 0, err
	case exists && class.BindingMode == "WaitForFirstConsumer" && !used:
		c.record(o, events.Normal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case v != nil:
		return 0, c.bind(ctx, o, v)
	case o.class() == "":
		c.record(o, events.Normal, "FailedBinding",
			"no persistent volumes available for this claim and no storage class is set")
	case !exists:
		c.record(o, events.Warning, "ProvisioningFailed",
			fmt.Sprintf("storageclass.storage.k8s.io %q not found", o.class()))
	case class.Provisioner == Provisioner:
		return 0, c.provision(ctx, o, class)
	default:
		return 0, c.askProvisioner(ctx, o, class)
	}
	return 0, nil
}

// smallest returns the volume kept for a claim, or else the smallest suitable volume, nil if there is none.
func (c *claims) smallest(o *storage) (best *storage, err error) {
	all, err := c.volumes.List("")
	if err != nil {
		return nil, err
	}
	size := func(v *storage) int64 { return amount("storage", v.Spec.Capacity["storage"]) }
	asked := amount("storage", o.Spec.Resources.Requests["storage"])
	for _, v := range all {
		switch {
		case v.Deleting() || !v.Spec.ClaimRef.of(o) || v.class() != o.class() ||
			v.Spec.VolumeMode != o.Spec.VolumeMode || size(v) < asked:
		case o.Spec.Selector != nil && !o.Spec.Selector.Requirements().Match(v.Labels):
		case slices.ContainsFunc(o.Spec.AccessModes, func(mode string) bool {
			return !slices.Contains(v.Spec.AccessModes, mode)
		}):
		case v.Spec.ClaimRef != nil:
			return v, nil
		case best == nil || size(v) < size(best):
			best = v
		}
	}
	return best, nil
}

// bindNamed binds a claim to the volume named in the spec, and says so if the volume of a bound claim is gone.
func (c *claims) bindNamed(ctx context.Context, o *storage) error {
	v, ok, err := c.volumes.Get(kube.Key{Name: o.Spec.VolumeName})
	if err != nil {
		return err
	}
	if ok && v.Spec.ClaimRef.of(o) {
		return c.bind(ctx, o, v)
	}
	if _, bound := o.Annotations.Get(bindCompleted); bound {
		c.record(o, events.Warning, "ClaimLost",
			"Bound claim has lost its PersistentVolume. Data on the volume is lost!")
		return c.writeStatus(ctx, o, false, o.Status, object{"phase": "Lost"})
	}
	return nil
}

// bind makes a volume and a claim refer to each other, as far as they do not yet.
func (c *claims) bind(ctx context.Context, o, v *storage) error {
	if ref := v.Spec.ClaimRef; ref == nil || ref.UID == "" {
		body := object{"spec": object{"claimRef": object{"apiVersion": "v1",
			"kind": claimResource.Kind, "namespace": o.Namespace, "name": o.Name, "uid": o.UID,
			"resourceVersion": o.ResourceVersion}}}
		if ref == nil {
			member(member(body, "metadata"), "annotations")[boundByController] = "yes"
		}
		if err := c.change(ctx, volumeResource, v, true, "", body); err != nil {
			return err
		}
	}
	if _, bound := o.Annotations.Get(bindCompleted); !bound {
		annotations := object{bindCompleted: "yes"}
		if o.Spec.VolumeName == "" {
			annotations[boundByController] = "yes"
		}
		err := c.change(ctx, claimResource, o, false, "", object{
			"metadata": object{"annotations": annotations},
			"spec":     object{"volumeName": v.Name}})
		if err != nil {
			return err
		}
	}
	modes := make([]any, len(v.Spec.AccessModes))
	for i, mode := range v.Spec.AccessModes {
		modes[i] = mode
	}
	status := object{"phase": "Bound", "accessModes": modes, "capacity": anyMap(v.Spec.Capacity)}
	var was struct{ Phase string }
	if err := readStatus(claimResource, o, o.Status, &was); err != nil {
		return err
	}
	if v.Spec.Attributes != "" && was.Phase == "Pending" { // afterwards it is for the driver to say
		status["currentVolumeAttributesClassName"] = v.Spec.Attributes
	}
	return c.writeStatus(ctx, o, false, o.Status, status)
}

// askProvisioner says on a claim who has to make the volume: a provisioner of the user.
func (c *claims) askProvisioner(ctx context.Context, o, class *storage) error {
	c.record(o, events.Normal, "ExternalProvisioning", fmt.Sprintf("Waiting for a volume to be created either by the "+
		"external provisioner '%s' or manually by the system administrator. If volume creation is delayed, please "+
		"verify that the provisioner is running and correctly registered.", class.Provisioner))
	if by, _ := o.Annotations.Get(provisionedBy); by == class.Provisioner {
		return nil
	}
	return c.change(ctx, claimResource, o, false, "", object{"metadata": object{
		"annotations": object{provisionedBy: class.Provisioner,
			"volume.beta.kubernetes.io/storage-provisioner": class.Provisioner}}})
}

// volumes is the controller of the phases of volumes, and frees deleted volumes that are not bound.
type volumes struct {
	controllerOf[*storage]
	claims *cache.Store[*storage]
}

func newVolumes(s *shared) runner {
	c := &volumes{newController[*storage](s, volumeResource, ""), mirrorOf[*storage](s, claimResource)}
	return c.forEach("volumes", c.sync, controller.Watches(c.claims, func(o *storage) []kube.Key {
		return []kube.Key{{Name: o.Spec.VolumeName}}
	}))
}

func (c *volumes) sync(ctx context.Context, v *storage) (time.Duration, error) {
	phase := "Available"
	if ref := v.Spec.ClaimRef; ref != nil && ref.UID != "" {
		o, ok, err := c.claims.Get(kube.Key{Namespace: ref.Namespace, Name: ref.Name})
		if err != nil {
			return 0, err
		}
		if phase = "Released"; ok && ref.of(o) {
			phase = "Bound"
		}
	}
	var was struct {
		Phase string `json:"phase"`
	}
	if err := readStatus(volumeResource, v, v.Status, &was); err != nil {
		return 0, err
	}
	if was.Phase != phase {
		if err := c.change(ctx, volumeResource, v, false, "status", object{"status": object{
			"phase": phase, "lastPhaseTransitionTime": wireTime(time.Now())}}); err != nil {
			return 0, err
		}
	}
	if by, _ := v.Annotations.Get(provisionedFor); phase == "Released" && by == Provisioner && !v.Deleting() &&
		v.Spec.Reclaim == "Delete" {
		return 0, c.remove(ctx, volumeResource, v)
	}
	if v.Deleting() && phase != "Bound" {
		return 0, c.removeFinalizer(ctx, volumeResource, v, volumeProtection)
	}
	return 0, nil
}

// attributesClasses is the controller that frees deleted VolumeAttributesClasses that no claim and no volume names.
type attributesClasses struct {
	controllerOf[*anyObject]
	claims, volumes *cache.Store[*storage]
}

func newAttributesClasses(s *shared) runner {
	c := &attributesClasses{newController[*anyObject](s, attributesResource, ""), mirrorOf[*storage](s, claimResource),
		mirrorOf[*storage](s, volumeResource)}
	return c.forEach("attributes", c.sync,
		controller.Watches(c.claims, func(*storage) []kube.Key { return everyKey(c.mirror) }),
		controller.Watches(c.volumes, func(*storage) []kube.Key { return everyKey(c.mirror) }))
}

func (c *attributesClasses) sync(ctx context.Context, o *anyObject) (time.Duration, error) {
	if !o.Deleting() {
		return 0, nil
	}
	for _, mirror := range []*cache.Store[*storage]{c.claims, c.volumes} {
		all, err := mirror.List("")
		if err != nil || slices.ContainsFunc(all, func(of *storage) bool { return of.Spec.Attributes == o.Name }) {
			return 0, err
		}
	}
	return 0, c.removeFinalizer(ctx, attributesResource, o, classProtection)
}
