package apply

import (
	"context"
	"fmt"

	"skiff/internal/runtime/kube"
)

// mend restores the labels that children are found by, adopts objects that are provably ours, and releases those
// that are not any more.
func (r *replacement) mend(ctx context.Context) {
	for _, s := range r.slots {
		switch {
		case s.deleting:
		case s.want == nil && s.live != nil && !labelled(s.live):
			s.err = r.release(ctx, s)
		case s.want == nil:
		case s.live != nil:
			s.err = r.relabel(ctx, s)
		case s.other != nil:
			s.err = r.adopt(ctx, s)
		}
	}
}

// labelled says that an object has the label that our watch selects by.
func labelled(object kube.Object) bool {
	v, _ := object.ObjectMeta().Labels.Get(ManagedByLabel)
	return v == ManagedBy
}

// relabel restores the labels that a child needs to be found by, by our watch and by others.
func (r *replacement) relabel(ctx context.Context, s *slot) error {
	lost := r.lost(s, s.live.ObjectMeta())
	if len(lost) == 0 || s.deleting {
		return nil
	}
	return r.patch(ctx, s, s.live, map[string]any{"uid": uidOf(s.live), "labels": lost})
}

// adopt takes an object without an owner that we have created earlier: its owner was deleted with --cascade=orphan,
// or came back from a backup. What is ours is known by the labels. With AdoptAnnotation it takes others, too, if they
// fit. The server is asked whether the owner is still there (WRT-26).
func (r *replacement) adopt(ctx context.Context, s *slot) error {
	m := s.other.ObjectMeta()
	_, made := m.Labels.Get(r.revision)
	lost := r.lost(s, m)
	provable := made && len(lost) == 0
	if _, owned := m.Controller(); owned || m.Deleting() || !provable && !r.owner.Adopt {
		return nil
	}
	if !provable {
		if reason, err := r.misfit(ctx, s); reason != "" || err != nil {
			s.taken(r.describe(s.other) + reason)
			if known := r.mem.children[s.key]; known != nil && known.foreign != "" {
				known.foreign = s.message
			}
			return err
		}
	}
	gone, err := r.ownerGone(ctx)
	if gone || err != nil {
		return err
	}
	before := s.other
	change := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion,
		"ownerReferences": append(referencesBut(m, ""), r.owner.Reference())}
	if len(lost) > 0 {
		change["labels"] = lost
	}
	if err := r.patch(ctx, s, before, change); err != nil || s.live == nil {
		return err
	}
	r.mem.child(s.key).foreign = ""
	s.outcome, s.message = Adopted, "it had no owner"
	return nil
}

// maxImage bounds how much of a foreign image is quoted: a name with a digest has about as many bytes.
const maxImage = 200

// misfit says why an object is not to be adopted although the owner asks for it, "" if it fits: it has to have the
// labels that a Service selects by, and the declared containers with their images. Another workload's pod of that name
// would be deleted by the next roll.
func (r *replacement) misfit(ctx context.Context, s *slot) (reason string, err error) {
	const not = "; " + AdoptAnnotation + " does not take it: "
	want := declaredLabels(s.want)
	for _, key := range r.selector {
		if have, _ := s.other.ObjectMeta().Labels.Get(key); key != ManagedByLabel && have != want[key] {
			return fmt.Sprintf("%sits label %s is %q, not %q", not, key, have, want[key]), nil
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
	if err := r.client.Get(ctx, r.resource, s.key, &live); err != nil || live.Metadata.UID != uidOf(s.other) {
		if err == nil || kube.IsNotFound(err) {
			s.again(soon) // it has just gone
			return not + "it has changed", nil
		}
		return "", err
	}
	images := map[string]string{}
	for _, c := range live.Spec.Containers {
		images[c.Name] = c.Image
	}
	spec, _ := s.want.Body["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		c, _ := c.(map[string]any)
		name, _ := c["name"].(string)
		if image := images[name]; image != c["image"] {
			return fmt.Sprintf("%sits container %s has the image %q, not %q", not, name,
				kube.Printable(image, maxImage), c["image"]), nil
		}
	}
	return "", nil
}

// release gives up a child that is declared no longer and has lost the label that our watch selects by: whoever
// took that away wants to keep it (WRT-27). References of others stay.
func (r *replacement) release(ctx context.Context, s *slot) error {
	live := s.live
	m := live.ObjectMeta()
	change := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion,
		"ownerReferences": referencesBut(m, r.owner.UID)}
	err := r.client.Patch(ctx, r.resource, s.key, kube.MergePatch, map[string]any{"metadata": change}, nil,
		kube.WriteOptions{FieldManager: Manager})
	switch {
	case kube.IsConflict(err):
		s.deleting = true // it has just changed: not now
		s.again(soon)
		return nil
	case err != nil && !kube.IsNotFound(err) && !kube.IsInvalid(err):
		s.deleting = true
		return err
	}
	delete(r.mem.children, s.key)
	s.want, s.live = nil, nil
	if err == nil {
		s.live, s.deleting = live, true
		s.outcome, s.message = Released, "it is not declared any more and has lost the label "+ManagedByLabel
	}
	return nil
}

// referencesBut returns the owner references of an object but for that to one uid.
func referencesBut(m *kube.Meta, uid string) []any {
	out := []any{}
	for _, o := range m.OwnerReferences {
		if o.UID != uid {
			out = append(out, map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": o.UID,
				"controller": o.Controller, "blockOwnerDeletion": o.BlockOwnerDeletion})
		}
	}
	return out
}

// patch changes the metadata of an object and puts the answer into its slot.
func (r *replacement) patch(ctx context.Context, s *slot, live kube.Object, metadata map[string]any) error {
	answer := r.empty()
	err := r.client.Patch(ctx, r.resource, s.key, kube.MergePatch, map[string]any{"metadata": metadata}, answer,
		kube.WriteOptions{FieldManager: Manager})
	if kube.IsNotFound(err) || kube.IsConflict(err) {
		s.again(soon) // another one is there, or none; either comes as an event
		return nil
	}
	if err == nil {
		r.mem.child(s.key).answer.set(answer)
		r.settle(s, answer)
	}
	return err
}
