package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// round is what a hook has decided for a parent, and what follows from it.
type round struct {
	answer *wire.Answer
	want   []apply.Child // for answer.Children
}

// decideAll asks the hook what should exist. Where children roll, it is asked for each revision of the parent, and
// one child at a time goes from an older one to the latest.
func (r *reconciler) decideAll(ctx context.Context, hook wire.Hook, parent *Object, owner apply.Owner,
	selector labels.Requirements, children []wire.Group) (round, error) {
	if r.revisions == nil || parent.Deleting() && hook != wire.Finalize {
		return r.decideFor(ctx, hook, parent, "", owner, selector, children)
	}
	if parent.Namespace == "" {
		return round{}, errors.New("rolling updates need a namespaced parent: its ControllerRevisions are in its " +
			"namespace")
	}
	all, err := r.revisionsOf(ctx, parent, owner, selector)
	if err != nil {
		return round{}, err
	}
	var names []string
	for _, v := range all {
		v.round, err = r.decideFor(ctx, hook, v.parent, v.name, owner, selector, children)
		if err != nil {
			return round{}, err
		}
		names = append(names, v.name)
	}
	r.related.keep(parent.Key(), names...)
	roll := rollout{reconciler: r, owner: owner, all: all, seen: children}
	roll.claim()
	condition := roll.advance()
	if err := r.storeRevisions(ctx, owner, all); err != nil {
		return round{}, err
	}
	out := roll.merged(ctx)
	setCondition(out.answer, condition)
	return out, nil
}

// decideFor asks the hook about one state of a parent.
func (r *reconciler) decideFor(ctx context.Context, hook wire.Hook, parent *Object, revision string, owner apply.Owner,
	selector labels.Requirements, children []wire.Group) (out round, err error) {
	related, err := r.relatedOf(ctx, parent, revision)
	if err != nil {
		return out, err
	}
	if out.answer, err = r.decide(ctx, hook, parent, children, related); err != nil {
		return out, err
	}
	if out.want, err = r.desired(parent, owner, selector, out.answer); err != nil {
		err = ofHook(err)
	}
	return out, err
}

// rollout is the state of a rolling update.
type rollout struct {
	*reconciler
	owner apply.Owner
	all   []*revision // the latest first
	seen  []wire.Group
}

// rolls says whether children of a kind roll.
func (r *reconciler) rolls(kind int) bool {
	m := r.Spec.Children[kind].Method
	return m == spec.RollingInPlace || m == spec.RollingRecreate
}

// claim gives each child to one revision: one that the latest does not declare to none, one that is in no revision,
// or is as the latest declares it, to the latest.
func (o *rollout) claim() {
	latest := o.all[0]
	declared := map[claim]int{}
	for i := range latest.answer.Children {
		if c := &latest.answer.Children[i]; o.rolls(c.Kind) {
			declared[claimOf(c, o.kinds[c.Kind].Resource)] = i
		}
	}
	taken := map[claim]*revision{}
	for _, v := range o.all {
		maps.DeleteFunc(v.claims, func(c claim, _ bool) bool {
			_, is := declared[c]
			return !is || taken[c] != nil
		})
		for c := range v.claims {
			taken[c] = v
		}
	}
	for c, i := range declared {
		if v := taken[c]; v == nil || v != latest && o.engine.Fits(o.owner, latest.want[i]) {
			if v != nil {
				delete(v.claims, c)
			}
			latest.claims[c] = true
		}
	}
}

// advance moves the next child to the latest revision, if those that are in it are well, and returns the condition
// that says how far the roll is.
func (o *rollout) advance() map[string]any {
	latest := o.all[0]
	for i := range latest.answer.Children {
		child := &latest.answer.Children[i]
		c := claimOf(child, o.kinds[child.Kind].Resource)
		if !o.rolls(child.Kind) || latest.claims[c] {
			continue
		}
		if why := o.holdsUp(latest); why != "" {
			return updated("False", "RolloutWaiting", why)
		}
		for _, v := range o.all[1:] {
			delete(v.claims, c)
		}
		latest.claims[c] = true
		return updated("False", "RolloutProgressing", fmt.Sprintf("updating %s %s", c.kind, c.name))
	}
	return updated("True", "OnLatestRevision", "latest ControllerRevision: "+latest.name)
}

// holdsUp says which child of the latest revision is not well, and why; "": all are.
func (o *rollout) holdsUp(latest *revision) string {
	for i := range latest.answer.Children {
		child := &latest.answer.Children[i]
		if !o.rolls(child.Kind) || !latest.claims[claimOf(child, o.kinds[child.Kind].Resource)] {
			continue
		}
		resource := o.kinds[child.Kind].Resource
		live := o.engine.Known(o.owner, resource, child.Key)
		object, ok := live.(*Object)
		name := resource.Kind + " " + child.Key.Name
		switch {
		case !ok:
			return "missing child " + name
		case !o.engine.Fits(o.owner, latest.want[i]):
			return "child " + name + " is not updated yet"
		}
		if why := unwell(object, o.Spec.Children[child.Kind]); why != "" {
			return "child " + name + " " + why
		}
	}
	return ""
}

// merged is the answer for the latest state, with the children that are in an older revision as that one declares
// them. It tells the observer of the context which ones these are, and what the latest declares of them.
func (o *rollout) merged(ctx context.Context) round {
	latest := o.all[0]
	var later []apply.Child
	var report apply.Report
	out := round{answer: latest.answer, want: slices.Clone(latest.want)}
	for _, v := range o.all[1:] {
		if wait := v.answer.ResyncAfter; wait > 0 && len(v.claims) > 0 {
			out.answer.ResyncAfter = apply.Earlier(out.answer.ResyncAfter, wait)
		}
		out.answer.Finalized = out.answer.Finalized && v.answer.Finalized
		for i := range v.answer.Children {
			c := &v.answer.Children[i]
			if !v.claims[claimOf(c, o.kinds[c.Kind].Resource)] {
				continue
			}
			at := slices.IndexFunc(latest.answer.Children, func(l wire.Child) bool {
				return l.Kind == c.Kind && l.Key == c.Key
			})
			if at < 0 {
				continue
			}
			out.want[at] = v.want[i]
			result := apply.Result{Resource: o.kinds[c.Kind].Resource, Key: c.Key, Outcome: apply.Later,
				Problem: &health.Problem{Public: "when the children before it are updated"}}
			if result.Live = o.engine.Known(o.owner, result.Resource, c.Key); result.Live == nil {
				continue
			}
			if o.Spec.Children[c.Kind].Method == spec.RollingRecreate {
				result.Declared, result.Revision = latest.name, v.name
			}
			later, report.Children = append(later, latest.want[at]), append(report.Children, result)
		}
	}
	apply.Tell(ctx, o.owner, later, report)
	return out
}

// updated is the condition of a roll.
func updated(status, reason, message string) map[string]any {
	return map[string]any{"type": "Updated", "status": status, "reason": reason, "message": message}
}

// setCondition puts a condition into the status of an answer, in the place of the one of its type.
func setCondition(answer *wire.Answer, condition map[string]any) {
	if answer.Status == nil {
		answer.Status = map[string]any{}
	}
	have, _ := answer.Status["conditions"].([]any)
	conditions := slices.DeleteFunc(slices.Clone(have), func(c any) bool {
		of, _ := c.(map[string]any)
		return of["type"] == condition["type"]
	})
	answer.Status["conditions"] = append(conditions, condition)
}

// unwell says why the status of a child holds up a roll; "": it does not.
func unwell(live *Object, rule spec.Child) string {
	var status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Conditions         []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
	}
	if len(live.Status) > 0 {
		if err := kube.Unmarshal(live.Status, &status); err != nil {
			return "has a status that cannot be read: " + err.Error()
		}
	}
	if rule.Method == spec.RollingInPlace && status.ObservedGeneration > 0 &&
		status.ObservedGeneration < live.Generation {
		return fmt.Sprintf("has not observed generation %d yet", live.Generation)
	}
	for _, check := range rule.Checks {
		found := false
		for _, c := range status.Conditions {
			if c.Type != check.Type {
				continue
			}
			found = true
			if check.Status != "" && c.Status != check.Status || check.Reason != "" && c.Reason != check.Reason {
				return fmt.Sprintf("has condition %s=%s (%s); the roll goes on at status %q, reason %q",
					check.Type, c.Status, kube.Printable(c.Reason, maxReason), check.Status, check.Reason)
			}
		}
		if !found {
			return "has no condition " + check.Type
		}
	}
	return ""
}

// maxReason bounds the reason of a condition that another controller has written.
const maxReason = 100
