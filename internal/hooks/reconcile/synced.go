package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/patch"
)

// Synced is the condition of a parent that says whether its hook answers. skiff writes it beside the status of a
// CompositeController's hook: False when the hook fails, where the definition has conditions; True after that, and
// always where the controller has the annotation spec.ReportSync. A condition Synced of the hook's own goes before it.
const Synced = "Synced"

// The reasons of Synced, by which it is told from one of the hook's own.
const (
	hookFailed   = controller.HookFailed
	hookAnswered = "HookAnswered"
)

// failedEvery bounds how often the message of Synced changes: a hook's error may have a time in it.
const failedEvery = time.Minute

// ofHook marks an error of the hook, and not of the server.
func ofHook(err error) error { return controller.WithReason(hookFailed, err) }

// reportFailure writes what is wrong with the hook into the condition Synced of a parent. It returns what is wrong
// with that.
func (r *reconciler) reportFailure(ctx context.Context, parent *Object, cause error) error {
	switch {
	case !r.Spec.IsComposite() || ctx.Err() != nil || controller.ReasonOf(cause) != hookFailed:
		return nil
	case errors.As(cause, new(*call.Later)) || controller.IsShed(cause) || r.others() != "":
		return nil // nothing is wrong; or two hooks have one status, and would fight for it
	}
	status, err := statusOf(parent)
	if err != nil {
		return err
	}
	list, isList := status["conditions"].([]any)
	i := indexOf(list)
	if i >= 0 && !isOwn(list[i]) || !isList && status["conditions"] != nil {
		return nil // they are the hook's
	}
	message, now, changes := conditions.Clip(cause.Error()), time.Now(), r.Changes()
	if i >= 0 {
		was, _ := list[i].(map[string]any)
		w := r.statuses.Get(parent.Key())
		recent := w.uid == parent.UID && w.failedIn == changes && now.Sub(w.failed) < failedEvery
		if was["reason"] == hookFailed && (was["message"] == message || recent) {
			return nil
		}
	}
	if !r.Spec.ReportSync && (r.HasConditions == nil || !r.HasConditions(ctx)) {
		return nil
	}
	condition := r.synced(parent, list, i, conditions.New(Synced, false, hookFailed, message))
	status["conditions"] = withCondition(list, i, condition)
	if _, ok := status["state"].(string); ok && r.Spec.ReportSync {
		status["state"] = hookFailed
	}
	text, err := patch.Encode(status)
	if err != nil {
		return fmt.Errorf("encode the status of %s %s: %w", r.Parent.Kind, parent.Key(), err)
	}
	answer, err := r.parents.Replace(ctx, parent, text, r.Parent.Status)
	if errors.Is(err, apply.ErrConflict) {
		return nil // another run comes for the change
	}
	if err != nil {
		return fmt.Errorf("write the condition %s: %w", Synced, err)
	}
	r.statuses.change(parent, func(w *written) {
		w.declared, w.stored, w.failed, w.failedIn = "", "", now, changes
		w.asked = answer.ResourceVersion // the hook would fail for it, too: it is asked again after the backoff
	})
	return nil
}

// addSynced adds the condition Synced to a status that the hook has declared. It says that the hook answers, where it
// is known that there is such a condition.
func (r *reconciler) addSynced(parent *Object, declared map[string]any) error {
	if !r.Spec.IsComposite() || !r.Spec.ReportSync && !bytes.Contains(parent.Status, []byte(Synced)) {
		return nil
	}
	own, isList := declared["conditions"].([]any)
	at := indexOf(own)
	if at >= 0 && !isOwn(own[at]) || !isList && declared["conditions"] != nil {
		return nil // they are the hook's
	}
	status, err := statusOf(parent)
	if err != nil {
		return err
	}
	list, _ := status["conditions"].([]any)
	i := indexOf(list)
	if !r.Spec.ReportSync && (i < 0 || !isOwn(list[i])) {
		return nil
	}
	if i >= 0 && !isOwn(list[i]) {
		i = -1 // the hook's own from before
	}
	condition := r.synced(parent, list, i, conditions.New(Synced, true, hookAnswered, "the hook has answered"))
	declared["conditions"] = withCondition(own, at, condition)
	return nil
}

// synced completes the condition, of which the one before is in a list at i; -1: there was none.
func (r *reconciler) synced(parent *Object, list []any, i int, c conditions.Condition) map[string]any {
	since := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
	r.statuses.change(parent, func(w *written) {
		if w.synced != string(c.Status) { // where the server keeps no condition, this does
			w.synced, w.since = string(c.Status), since
		}
		since = w.since
	})
	if i >= 0 {
		was, _ := list[i].(map[string]any)
		if at, ok := was["lastTransitionTime"].(string); ok && was["status"] == string(c.Status) {
			since = at
		}
	}
	return map[string]any{"type": c.Type, "status": string(c.Status), "observedGeneration": parent.Generation,
		"lastTransitionTime": since, "reason": c.Reason, "message": c.Message}
}

// statusOf returns the status of a parent, in package patch's form.
func statusOf(parent *Object) (map[string]any, error) {
	if len(parent.Status) == 0 {
		return map[string]any{}, nil
	}
	v, err := patch.Decode(parent.Status)
	if err != nil {
		return nil, fmt.Errorf("read the status of %s: %w", parent.Key(), err)
	}
	status, _ := v.(map[string]any)
	if status = maps.Clone(status); status == nil {
		status = map[string]any{}
	}
	return status, nil
}

// indexOf returns where Synced is in a list of conditions, -1 if it is not.
func indexOf(list []any) int {
	for i, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == Synced {
			return i
		}
	}
	return -1
}

// isOwn says that a condition Synced was written by skiff: a hook may repeat it.
func isOwn(condition any) bool {
	c, _ := condition.(map[string]any)
	return c["reason"] == hookFailed || c["reason"] == hookAnswered
}

// withCondition returns a list with a condition in the place of the one at i; -1: at the end.
func withCondition(list []any, i int, c map[string]any) []any {
	out := append(make([]any, 0, len(list)+1), list...)
	if i < 0 {
		return append(out, c)
	}
	out[i] = c
	return out
}
