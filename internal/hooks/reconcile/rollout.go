package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// revision is a state of a parent, with the children in the state.
type revision struct {
	name   string
	patch  map[string]any // the parent's fields at Rule.FieldPaths
	parent *Object        // with the fields of patch
	claims map[claim]bool
	round
}

// claim names a child of a revision.
type claim struct{ group, kind, name string }

func claimOf(c *wire.Child, r kube.Resource) claim { return claim{r.Group, r.Kind, c.Key.Name} }

// readRevision reads a ControllerRevision.
func readRevision(live *Object) (*revision, error) {
	var body struct {
		ParentPatch kube.Raw `json:"parentPatch"`
		Children    []struct {
			APIGroup string   `json:"apiGroup"`
			Kind     string   `json:"kind"`
			Names    []string `json:"names"`
		} `json:"children"`
	}
	if err := kube.Unmarshal(live.Body, &body); err != nil {
		return nil, err
	}
	v := &revision{name: live.Name, claims: map[claim]bool{}}
	fields, err := patch.Decode(body.ParentPatch)
	if err != nil {
		return nil, fmt.Errorf("parentPatch: %w", err)
	}
	v.patch, _ = fields.(map[string]any)
	for _, of := range body.Children {
		for _, name := range of.Names {
			v.claims[claim{of.APIGroup, of.Kind, name}] = true
		}
	}
	return v, nil
}

// rollout is the state of a rolling update.
type rollout struct {
	*reconciler
	owner apply.Owner
	all   []*revision // the latest first
	seen  map[kube.Resource]map[kube.Key]*Object
}

// live returns the newest known copy of a child; of a child too large for the cache, the copy just read. Nil: the
// child is missing or being deleted.
func (o *rollout) live(child *wire.Child) *Object {
	resource := o.kinds[child.Kind].Resource
	if known, ok := o.engine.Known(o.owner, resource, child.Key).(*Object); ok {
		return known
	}
	if o.goes(o.owner, child.Kind, child.Key) {
		return nil
	}
	return o.seen[resource][child.Key]
}

// fits says whether a child is as an answer declares it.
func (o *rollout) fits(child *wire.Child, want apply.Child) bool {
	live := o.live(child)
	return live != nil && o.engine.Fits(o.owner, want, live)
}

// claim gives each child to one revision: to none if the latest does not declare the child, to the latest if the child
// is in no revision or is as the latest declares.
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
		if v := taken[c]; v == nil || v != latest && o.fits(&latest.answer.Children[i], latest.want[i]) {
			if v != nil {
				delete(v.claims, c)
			}
			latest.claims[c] = true
		}
	}
}

// advance moves the next child to the latest revision, if the children already there are well, and returns the
// condition with the progress of the roll.
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
		name := o.kinds[child.Kind].Kind + " " + child.Key.Name
		live := o.live(child)
		switch {
		case live == nil:
			return "missing child " + name
		case !o.engine.Fits(o.owner, latest.want[i], live):
			return "child " + name + " is not updated yet"
		}
		if why := unwell(live, o.Spec.Children[child.Kind]); why != "" {
			return "child " + name + " " + why
		}
	}
	return ""
}

// unwell says why the status of a child holds up a roll; "": the roll goes on.
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

// maxReason bounds the reason of a condition by another controller.
const maxReason = 100

// merged is the answer for the latest state, with children of an older revision as declared by the older answer.
// The Observer of the context is told about these children, with the latest declaration of each.
func (o *rollout) merged(ctx context.Context) round {
	latest := o.all[0]
	var later []apply.Child
	var report apply.Report
	out := round{answer: latest.answer, want: slices.Clone(latest.want), left: latest.left}
	for _, v := range o.all[1:] {
		out.left.add(v.left)
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
			live := o.live(c)
			if live == nil {
				continue
			}
			result.Live = live
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

// setCondition puts a condition into the status of an answer, and replaces any of the same type.
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
