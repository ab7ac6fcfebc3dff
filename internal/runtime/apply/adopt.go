package apply

import (
	"context"
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// AdoptAnnotation on an owner, with a true value, lets it adopt objects of which nothing shows that skiff has made
// them.
const AdoptAnnotation = "skiff.dev/adopt"

// adopt makes an object of the child's name a child of the owner if that is allowed: if it has no controller, was made
// by skiff (or the user says so), and selects what the child selects. Such objects are left by `kubectl delete
// --cascade=orphan`, or come from a backup without owners. Any other one is left alone.
func (t *operation) adopt(ctx context.Context, live object) Result {
	c := live.content()
	if reason := t.foreign(c); reason != "" {
		wait := recheck
		if live == t.mem.trouble().foreign {
			wait = max(recheck-time.Since(t.mem.trouble().met), soon)
		}
		return Result{Outcome: Foreign, Wait: wait, Message: fmt.Sprintf("%s %s", t, reason)}
	}
	if t.hold {
		return Result{Outcome: Held, Message: fmt.Sprintf("%s has no owner", t)}
	}
	switch gone, err := t.ownerGone(ctx); { // the cache may be behind: an owner that is gone must not take anything
	case err != nil:
		return Result{Err: err}
	case gone:
		return t.goneWithOwner()
	}
	r := Result{Live: live}
	if r.Differences, r.Err = t.differences(c); r.Err != nil {
		return Result{Err: r.Err}
	}
	if r = t.apply(ctx, r); r.Outcome == Applied {
		r.Outcome = Adopted
	} else if r.Live == live { // still not a child
		r.Live = nil
	}
	return r
}

// foreign says why an object is not to be adopted, "" if it is.
func (t *operation) foreign(live *Content) string {
	if o, ok := live.Controller(); ok {
		return fmt.Sprintf("exists and belongs to %s %s (uid %s)", o.Kind, o.Name, o.UID)
	}
	managedBy, _ := live.Labels.Get(ManagedByLabel)
	_, hashed := live.Annotations.Get(HashAnnotation)
	switch {
	case live.Deleting():
		return "exists without an owner and is being deleted"
	case !t.owner.Adopt && (managedBy != ManagedBy || !hashed):
		return "exists and is not managed by skiff"
	case !t.sameSelector(live.Body):
		return "exists without an owner and has another spec.selector"
	}
	return ""
}

// sameSelector says whether a body has the declared selector, where one is declared. In most kinds it cannot be
// changed.
func (t *operation) sameSelector(body kube.Raw) bool {
	want, ok := t.want.spec["selector"]
	if !ok {
		return true
	}
	var live struct {
		Spec struct {
			Selector kube.Raw `json:"selector"`
		} `json:"spec"`
	}
	if kube.Unmarshal(body, &live) != nil || len(live.Spec.Selector) == 0 {
		return false
	}
	selector, err := patch.Decode(live.Spec.Selector)
	same, _ := patch.Covered(t.kind.schema.Field("spec").Field("selector"), want, selector)
	return err == nil && same
}
