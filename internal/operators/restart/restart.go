package restart

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// tell tells the observer of the context which restarts are to come, and what they wait for.
func (r *run) tell(ctx context.Context, d *decision) {
	var want []apply.Child
	var report apply.Report
	s := &d.state
	for i, ref := range r.rule.targets {
		live, mine := r.reads[ref].live, s.Targets[i]
		if s.Round == nil && s.Pending == nil || live == nil || i == d.restart ||
			s.Round != nil && (same(mine.Through, s.Round.Time) || same(mine.RestartedAt, s.Round.Time)) {
			continue
		}
		result := apply.Result{Resource: targetKinds[ref.Kind], Live: live, Outcome: apply.Later,
			Key:     kube.Key{Namespace: r.t.Namespace, Name: ref.Name},
			Problem: &health.Problem{Public: "when the restart before it is over"}}
		switch {
		case r.rule.suspended:
			result.Outcome = apply.Paused
		case d.waiting != nil:
			why := *d.waiting
			why.Public = "when it can: " + why.Public
			result.Problem = &why
		case s.Round == nil && len(want) == 0:
			_, limit := s.due(r.rule, r.now)
			result.Problem.Public = "when the " + limit + " is over"
		}
		want = append(want, apply.Child{Body: restartPatch(r.now)})
		report.Children = append(report.Children, result)
	}
	apply.Tell(ctx, apply.OwnerOf(resource, r.t), want, report)
}

// restartPatch is what restarts a workload.
func restartPatch(at time.Time) map[string]any {
	annotations := map[string]any{restartedAt: at.Format(time.RFC3339)}
	return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": annotations}}}}
}

// carryOut restarts the target of a decision that is in the status by now.
func (r *run) carryOut(ctx context.Context, d decision) (decision, error) {
	ref := r.rule.targets[d.restart]
	seen := r.reads[ref]
	after := d.state.clone()
	after.restarted(r.rule, d.restart, seen.live.UID)
	live, err := r.restart(ctx, d.restart, &after)
	switch {
	case kube.IsNotFound(err), kube.IsConflict(err): // deleted, or another object has the name
		clear(r.reads)
		d.again(minPoll, "reads "+ref.String()+" again")
		return d, nil
	case err != nil && (ctx.Err() != nil || seen.refusal == nil && controller.NextOf(ctx, err).Brief):
		clear(r.reads) // the server may have done it all the same
		return decision{}, err
	case err != nil:
		logr.FromContextOrDiscard(ctx).Error(err, "restart refused", "target", ref.String())
		r.reads[ref] = d.refused(seen, err, time.Now())
	default:
		r.announce(ref, live, after.Round)
		r.reads[ref] = reading{live: live, at: time.Now(), pods: seen.pods}
		d = decision{state: after, restart: -1, missing: d.missing, crowd: d.crowd}
		d.again(minPoll, "waits for "+ref.String())
	}
	return d, r.report(ctx, &d)
}

// restart restarts a target as read, and no other object that may have the name by now. after is the state that
// follows from the restart.
func (r *run) restart(ctx context.Context, i int, after *State) (*liveTarget, error) {
	ref := r.rule.targets[i]
	seen, live := r.reads[ref].live, new(liveTarget)
	metadata := map[string]any{"uid": seen.UID}
	keep := r.standalone != nil && i == 0
	if keep {
		if err := r.standalone.enter(metadata, seen, after); err != nil {
			return nil, err
		}
	}
	patch := restartPatch(after.Round.Time)
	patch["metadata"] = metadata
	err := r.client.Patch(ctx, targetKinds[ref.Kind], kube.Key{Namespace: r.t.Namespace, Name: ref.Name},
		kube.StrategicMergePatch, patch, live, kube.WriteOptions{FieldManager: Manager})
	r.restarts.Inc(resultOf(err))
	if err != nil {
		return nil, err
	}
	if keep {
		r.standalone.wrote(live, after)
	}
	logr.FromContextOrDiscard(ctx).Info("restarted", "target", ref.String(), "reason", after.Round.Reason.String(),
		"note", after.Round.Note)
	return live, nil
}
