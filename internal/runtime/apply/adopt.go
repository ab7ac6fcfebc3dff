package apply

import (
	"context"
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// AdoptAnnotation on an owner, with a true value, lets the owner adopt objects that show no sign of being made by
// skiff.
const AdoptAnnotation = "skiff.dev/adopt"

// adoptable says whether the object of the child's name is to become a child of the owner: if the object has no
// controller, was made by skiff (or the user says so), and selects the same as the child. Such objects are left by
// `kubectl delete --cascade=orphan`, or come from a backup without owners. Any other object is left alone.
func (c *child) adoptable() bool {
	switch reason, why := c.foreign(c.other.ObjectMeta()); {
	case reason != "":
		wait := recheck
		if t := c.mem.wrong; t != nil && c.other == t.foreign {
			wait = max(recheck-time.Since(t.readAt), soon)
		}
		c.conclude(Foreign, wait, "%s", why)
		c.problem.Reason = reason
	case c.paused:
		c.conclude(Paused, 0, "has no owner")
	default:
		return true
	}
	return false
}

// The Reasons of a Result's Problem: of a Foreign child, and of a Service without its node port.
const (
	NodePort   = "NodePort"
	Owned      = "Owned"      // the object has another controller, or is not the owner's for another reason
	NotManaged = "NotManaged" // no sign that skiff made the object: AdoptAnnotation would take the object
	NotAdopted = "NotAdopted" // AdoptAnnotation does not take the object, because the content does not fit
)

// foreign says why an object is not to be adopted, "" if adoptable.
func (c *child) foreign(m *kube.Meta) (reason, why string) {
	if o, ok := m.Controller(); ok {
		return Owned, fmt.Sprintf("exists and belongs to %s %s (uid %s)", o.Kind, o.Name, o.UID)
	}
	switch {
	case c.options.ByClaim:
		return Owned, fmt.Sprintf("exists and is not controlled by %s %s", c.owner.Resource.Kind, c.owner.Key())
	case m.Deleting():
		return Owned, "exists without an owner and is being deleted"
	case !c.owner.Adopt && !c.isMade(c.other):
		return NotManaged, "exists and is not managed by skiff"
	case !c.sameSelector(c.other):
		return Owned, "exists without an owner and has another spec.selector"
	}
	return "", ""
}

// isMade says whether an object shows signs of being made by skiff: the labels, and the hash or the revision.
func (c *child) isMade(object kube.Object) bool {
	if t := c.kind.template; t != nil {
		_, made := object.ObjectMeta().Labels.Get(t.revision)
		return made && len(c.missing(object)) == 0
	}
	_, hashed := contentOf(object).Annotations.Get(HashAnnotation)
	return c.options.labelled(object) && hashed
}

// sameSelector says whether an object has the declared spec.selector, if any. In most kinds the selector cannot be
// changed.
func (c *child) sameSelector(object kube.Object) bool {
	want, ok := c.want.spec["selector"]
	content := contentOf(object)
	if !ok || content == nil {
		return true
	}
	var live struct {
		Spec struct {
			Selector kube.Raw `json:"selector"`
		} `json:"spec"`
	}
	if kube.Unmarshal(content.Body, &live) != nil || len(live.Spec.Selector) == 0 {
		return false
	}
	selector, err := patch.Decode(live.Spec.Selector)
	same, _ := patch.Covered(c.kind.schema.Field("spec").Field("selector"), want, selector)
	return err == nil && same
}

// adoptLabelled makes an object of an unchangeable kind a child of the owner. Our objects are known by their labels.
// With AdoptAnnotation other objects that fit are taken, too.
func (c *child) adoptLabelled(ctx context.Context) error {
	if !c.isMade(c.other) {
		if reason, err := c.misfit(ctx); reason != "" || err != nil {
			c.conclude(Foreign, recheck, "exists and is not managed by skiff")
			if c.problem.Reason = NotManaged; reason != "" {
				c.problem.Reason, c.problem.Quoted = NotAdopted, reason
				c.problem.Public += ", and " + AdoptAnnotation + " does not take it"
			}
			return err
		}
	}
	if gone, err := c.goneWithOwner(ctx); gone || err != nil {
		return err
	}
	m := c.other.ObjectMeta()
	change := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion,
		"ownerReferences": append(referencesBut(m, ""), c.owner.Reference())}
	if missing := c.missing(c.other); len(missing) > 0 {
		change["labels"] = missing
	}
	if err := c.patch(ctx, change); err != nil || c.live == nil {
		return err
	}
	c.outcome = Adopted
	return nil
}

// maxImage bounds how much of a foreign image is quoted: a name with a digest has about as many bytes.
const maxImage = 200

// misfit says why an object is not to be adopted although the owner asks for it, "" if the object fits. An object fits
// with the labels that a Service selects by, and the declared containers with their images. The next roll would delete
// another workload's pod of the same name.
func (c *child) misfit(ctx context.Context) (reason string, err error) {
	for _, key := range c.kind.template.selector {
		if have, _ := c.other.ObjectMeta().Labels.Get(key); have != c.want.labels[key] {
			return fmt.Sprintf("its label %s is %q, not %q", key, have, c.want.labels[key]), nil
		}
	}
	var live struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			Containers []struct {
				Name  string `json:"name"`
				Image string `json:"image"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if err := c.client.Get(ctx, c.kind.resource, c.key, &live); err != nil || live.Metadata.UID != uidOf(c.other) {
		if err == nil || kube.IsNotFound(err) {
			c.requeue(soon) // just gone
			return "it has changed", nil
		}
		return "", err
	}
	images := map[string]string{}
	for _, container := range live.Spec.Containers {
		images[container.Name] = container.Image
	}
	containers, _ := c.want.spec["containers"].([]any)
	for _, container := range containers {
		container, _ := container.(map[string]any)
		name, _ := container["name"].(string)
		if image := images[name]; image != container["image"] {
			return fmt.Sprintf("its container %s has the image %q, not %q", name,
				kube.Printable(image, maxImage), container["image"]), nil
		}
	}
	return "", nil
}

// release makes an object free of the owner: whoever took our label off an undeclared child wants to keep the object.
// The version protects references added by other clients meanwhile, the uid another object of the same name.
func (c *child) release(ctx context.Context, why string) error {
	m, answer := c.live.ObjectMeta(), c.kind.mirror.empty()
	err := c.client.Patch(ctx, c.kind.resource, c.key, kube.MergePatch, map[string]any{"metadata": map[string]any{
		"uid": m.UID, "resourceVersion": m.ResourceVersion, "ownerReferences": referencesBut(m, c.owner.UID)}}, answer,
		kube.WriteOptions{FieldManager: c.options.Manager})
	switch {
	case err == nil:
		c.mem.written.set(answer)
		c.conclude(Released, 0, "%s", why)
	case kube.IsNotFound(err), kube.IsInvalid(err), kube.IsConflict(err): // gone or changed: look again
		c.mem.written.clear()
		c.requeue(soon)
	default:
		return err
	}
	return nil
}

// unlabelled says why a child is released.
const unlabelled = "it is not declared any more and has lost the label " + ManagedByLabel

// references returns the owner references of an object in the form to compare: with the flags that are false.
func references(m *kube.Meta) []any {
	out := []any{}
	for _, o := range m.OwnerReferences {
		out = append(out, map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": o.UID,
			"controller": o.Controller, "blockOwnerDeletion": o.BlockOwnerDeletion})
	}
	return out
}

// referencesBut returns the owner references of an object except those to a given uid, in the form to write: without
// flags that are false. A reference belongs to its field managers as a whole, so a flag more would make the reference
// ours, and the next apply would remove it.
func referencesBut(m *kube.Meta, uid string) []any {
	out := []any{}
	for _, o := range m.OwnerReferences {
		if o.UID != uid {
			out = append(out, o) // false flags are left out
		}
	}
	return out
}
