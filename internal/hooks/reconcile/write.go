package reconcile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// outcome is the result of the writes to the children of a parent.
type outcome struct {
	created bool
	wait    time.Duration // when to look again; 0: at the next change
	err     error
	// unfinished says that another run is to make a declared child, or to delete one.
	unfinished bool

	contested []string      // notes about children changed again and again by another writer
	pause     time.Duration // the longest pause before a contested child is written again
}

// applyChildren brings the children of a parent to the declared state. left are the fields taken out of want.
func (r *reconciler) applyChildren(ctx context.Context, about announce.Announcer, owner apply.Owner,
	want []apply.Child, left leftOut) (o outcome) {
	for try := 1; ; try++ {
		report := r.engine.Apply(ctx, owner, want, false)
		about.Actions(ctx, report.All())
		for i := range report.Children {
			child := &report.Children[i]
			if first := r.unknown.learn(child); len(first) > 0 {
				note := unknownNote(child.Resource.Kind, first)
				about.Event(events.Warning, "UnknownFields", note, child)
				logr.FromContextOrDiscard(ctx).Info(note, kube.Warn("child", child.Key.String())...)
			}
			o.created = o.created || child.Outcome == apply.Created
		}
		if left.again(r, want, &report) && try < maxApplies {
			continue
		}
		r.conclude(ctx, about, &report, left, &o)
		return o
	}
}

// conclude takes in the last report about the children.
func (r *reconciler) conclude(ctx context.Context, about announce.Announcer, report *apply.Report, left leftOut,
	o *outcome) {
	o.err = report.Err
	notes, large := left.notes(), []string(nil)
	if len(notes) > 0 {
		apply.Tell(ctx, apply.OwnerOf(r.Parent.Resource, about.Object), nil, apply.Report{LeftOut: notes})
	}
	for _, child := range report.All() {
		shed := cache.Unheld(child.Unheld)
		if shed == nil || cache.Unheld(child.Err) == nil {
			o.err = errors.Join(o.err, child.Err)
		}
		o.wait = apply.Earlier(o.wait, child.Wait)
		switch child.Outcome {
		case apply.Conflict, apply.Waiting, apply.Replaced, apply.PortTaken, apply.NoNodePort:
			o.unfinished = true
		case apply.Foreign:
			about.Event(events.Warning, "NameTaken", child.Why().Note(), &child)
		case apply.Contested:
			note := r.contestedNote(&child)
			about.Event(events.Warning, "Contested", note, &child)
			o.contested, o.pause = append(o.contested, note), max(o.pause, child.Wait)
		}
		if shed != nil && shed.Reason == cache.TooLarge {
			note := shed.Note() + "; until then it is read from the server each time"
			about.Event(events.Warning, shed.Reason, note, &child)
			large = append(large, note)
		}
	}
	parent := noteKey{r.Parent.Resource, about.Object.ObjectMeta().Key(), aboutChildren}
	if r.Notes.set(parent, strings.Join(append(notes, large...), "; ")) && len(large) > 0 {
		logr.FromContextOrDiscard(ctx).Info("children are not held in memory",
			kube.Warn("reason", strings.Join(large, "; "))...)
	}
}

// kindOf returns the kind of a child, nil for an undeclared kind.
func (r *reconciler) kindOf(body map[string]any) *kind {
	i := slices.IndexFunc(r.kinds, func(k kind) bool {
		return k.Kind == body["kind"] && k.APIVersion() == body["apiVersion"]
	})
	if i < 0 {
		return nil
	}
	return &r.kinds[i]
}

// brake asks Brake for how long a sync must delete no child; 0: deletions are free.
func (r *reconciler) brake(about announce.Announcer, parent *Object, owner apply.Owner, seen []wire.Group,
	want []wire.Child) time.Duration {
	a := answered{parent: brakeKey{r.Parent.Resource, parent.Key()}, change: r.Changes(), declared: len(want),
		version: strconv.FormatInt(parent.Generation, 10)}
	if parent.Generation == 0 { // the kind has none: each write is a change
		a.version = parent.ResourceVersion
	}
	declared := make(map[brakeKey]bool, len(want))
	for i := range want {
		declared[brakeKey{r.kinds[want[i].Kind].Resource, want[i].Key}] = true
	}
	for kind, of := range seen {
		for i := range of.Items {
			key := of.Items[i].Key
			if !declared[brakeKey{of.Resource, key}] {
				if r.goes(owner, kind, key) {
					continue
				}
				a.doomed++
			}
			a.children++
		}
	}
	wait, many := r.Brake.holds(a)
	if wait > 0 && many {
		about.Event(events.Warning, DeletesHeld, fmt.Sprintf("deleting %d of the %d children is held: the hook of %s "+
			"%s leaves out most children of all parents; if that is right, set its annotation %s to %q", a.doomed,
			a.children, r.Spec.Kind, r.Spec.Name, spec.AllowDeletes, r.Brake.Version()), nil)
	}
	return wait
}

// goes says whether a child just seen is gone by now, or being deleted.
func (r *reconciler) goes(owner apply.Owner, kind int, key kube.Key) bool {
	if r.engine.Known(owner, r.kinds[kind].Resource, key) != nil {
		return false
	}
	_, _, err := r.kinds[kind].mirror.Get(key)
	unheld := cache.Unheld(err)
	return unheld == nil || unheld.Deleting
}

// storeRevisions writes the ControllerRevisions with children and deletes the rest, before children are written.
func (r *reconciler) storeRevisions(ctx context.Context, owner apply.Owner, all []*revision) error {
	var want []apply.Child
	for _, v := range all {
		if len(v.claims) > 0 {
			want = append(want, apply.Child{Body: r.revisionBody(v, owner)})
		}
	}
	report := r.revisions.Apply(ctx, owner, want, false)
	err := report.Err
	for _, result := range report.All() {
		err = errors.Join(err, result.Err)
		if result.Outcome == apply.Foreign || result.Outcome == apply.Contested || result.Outcome == apply.Conflict {
			err = errors.Join(err, result.Why())
		}
	}
	return err
}

// revisionBody is the ControllerRevision of a state.
func (r *reconciler) revisionBody(v *revision, owner apply.Owner) map[string]any {
	set := map[string]any{groupLabel: r.Parent.Group, resourceLabel: r.Parent.Plural}
	if r.Spec.GenerateSelector {
		set[uidLabel] = owner.UID
	} else if body, err := bodyOf(v.parent); err == nil {
		if template, ok := valueAt(body, []string{"spec", "template", "metadata", "labels"}); ok {
			of, _ := template.(map[string]any)
			maps.Copy(set, of)
		}
		// For the selector to find the revision also where the template has no labels.
		if match, ok := valueAt(body, []string{"spec", "selector", "matchLabels"}); ok {
			of, _ := match.(map[string]any)
			maps.Copy(set, of)
		}
	}
	var children []any
	for _, c := range slices.SortedFunc(maps.Keys(v.claims), func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		last, _ := tail(children).(map[string]any)
		if last == nil || last["apiGroup"] != c.group || last["kind"] != c.kind {
			last = map[string]any{"apiGroup": c.group, "kind": c.kind, "names": []any{}}
			children = append(children, last)
		}
		names, _ := last["names"].([]any)
		last["names"] = append(names, c.name)
	}
	return map[string]any{"apiVersion": spec.Revisions.APIVersion(), "kind": spec.Revisions.Kind,
		"metadata": map[string]any{"name": v.name, "namespace": owner.Namespace, "labels": set,
			"ownerReferences": []any{owner.Reference()}},
		"parentPatch": v.patch, "children": children}
}

func tail(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// hookEvents records the Events of an answer.
func (r *reconciler) hookEvents(about announce.Announcer, answer *wire.Answer) {
	for _, e := range answer.Events {
		var child *apply.Result
		for _, k := range r.kinds {
			if e.Kind != "" && k.Kind == e.Kind {
				child = &apply.Result{Resource: k.Resource,
					Key: kube.Key{Namespace: about.Object.ObjectMeta().Namespace, Name: e.Name}}
			}
		}
		about.Event(events.Type(e.Type), e.Reason, e.Message, child)
	}
}

// declaredStatus returns the status of a parent declared by a hook, of a CompositeController with observedGeneration
// and Synced.
func (r *reconciler) declaredStatus(parent *Object, status map[string]any) (kube.Raw, error) {
	declared := make(map[string]any, len(status)+1)
	maps.Copy(declared, status)
	if r.Spec.IsComposite() {
		declared["observedGeneration"] = parent.Generation
	}
	if err := r.addSynced(parent, declared); err != nil {
		return nil, err
	}
	text, err := patch.Encode(declared)
	if err != nil {
		return nil, fmt.Errorf("encode the status of %s %s: %w", r.Parent.Kind, parent.Key(), err)
	}
	return text, nil
}

// writeStatus makes the declared status the whole status of a parent.
func (r *reconciler) writeStatus(ctx context.Context, parent *Object, declared kube.Raw) error {
	key := parent.Key()
	w := r.statuses.Get(key)
	if w.uid == parent.UID && w.declared == string(declared) && w.stored == string(parent.Status) {
		return nil
	}
	if len(parent.Status) > 0 {
		stored, err := patch.Decode(parent.Status)
		if err != nil {
			return fmt.Errorf("read the status of %s %s: %w", r.Parent.Kind, key, err)
		}
		if same, _ := patch.Decode(declared); reflect.DeepEqual(stored, same) {
			r.statuses.set(parent, declared, parent.Status)
			return nil
		}
	}
	if w.uid == parent.UID && w.declared == string(declared) && r.undone(parent, "the status") {
		return nil
	}
	answer, err := r.parents.Replace(ctx, parent, declared, r.Parent.Status)
	if err != nil {
		return err
	}
	r.statuses.set(parent, declared, answer.Status)
	r.statuses.change(parent, func(w *written) {
		w.fight.wrote = true
		if w.pace.generation == parent.Generation { // without the subresource, the write makes another generation
			w.pace.generation = answer.Generation
		}
	})
	return nil
}

// decorate changes the labels, annotations and status of the object of a DecoratorController, where they differ.
func (r *reconciler) decorate(ctx context.Context, parent *Object, answer *wire.Answer) (*Object, error) {
	labels := differing(parent.Labels, answer.Labels)
	annotations := differing(parent.Annotations, answer.Annotations)
	changes := describe(labels) + describe(annotations)
	same := r.statuses.Get(parent.Key()).decorated == changes
	if changes != "" && !(same && r.undone(parent, "labels or annotations")) {
		var err error
		if parent, err = r.parents.Merge(ctx, parent, labels, annotations); err != nil {
			return parent, err
		}
		r.statuses.change(parent, func(w *written) { w.decorated, w.fight.wrote = changes, true })
	}
	if answer.Status == nil {
		return parent, nil
	}
	declared, err := r.declaredStatus(parent, answer.Status)
	if err != nil {
		return parent, err
	}
	return parent, r.writeStatus(ctx, parent, declared)
}

// describe returns the same text for the same changes; "": no changes.
func describe(changes map[string]*string) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if v := changes[key]; v != nil {
			fmt.Fprintf(&out, "%q=%q,", key, *v)
		} else {
			fmt.Fprintf(&out, "%q,", key)
		}
	}
	return out.String()
}

// differing returns the changes of labels not yet made.
func differing(have kube.Labels, want map[string]*string) map[string]*string {
	out := map[string]*string{}
	for key, value := range want {
		if is, ok := have.Get(key); ok != (value != nil) || ok && is != *value {
			out[key] = value
		}
	}
	return out
}

// Synced is the condition of a parent for the health of the hook. skiff writes Synced beside the status from a
// CompositeController's hook: False when the hook fails, if the definition has conditions; True after a failure, and
// always if the controller has the annotation spec.ReportSync. A hook's own condition Synced takes precedence.
const Synced = "Synced"

// The reasons of skiff's Synced, which tell skiff's condition from a hook's.
const (
	hookFailed   = controller.HookFailed
	hookAnswered = "HookAnswered"
)

// failedEvery bounds how often the message of Synced changes: a hook's error may contain a time.
const failedEvery = time.Minute

// reportFailure writes a failure of the hook into the condition Synced of a parent, and returns an error of the write.
func (r *reconciler) reportFailure(ctx context.Context, parent *Object, cause error) error {
	switch {
	case !r.Spec.IsComposite() || ctx.Err() != nil || controller.ReasonOf(cause) != hookFailed:
		return nil
	case errors.As(cause, new(*call.Later)) || controller.IsShed(cause) || r.others() != "":
		return nil // no failure; or two hooks would fight for the status
	}
	status, err := statusOf(parent)
	if err != nil {
		return err
	}
	list, isList := status["conditions"].([]any)
	i := indexOf(list)
	if i >= 0 && !isOwn(list[i]) || !isList && status["conditions"] != nil {
		return nil // the conditions are the hook's
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
		return nil // the change leads to another run
	}
	if err != nil {
		return fmt.Errorf("write the condition %s: %w", Synced, err)
	}
	r.statuses.change(parent, func(w *written) {
		w.declared, w.stored, w.failed, w.failedIn = "", "", now, changes
		w.asked = answer.ResourceVersion // no run for the event of this write: the backoff retries
	})
	return nil
}

// addSynced adds Synced=True to a status declared by the hook, with ReportSync or if skiff's Synced is there.
func (r *reconciler) addSynced(parent *Object, declared map[string]any) error {
	if !r.Spec.IsComposite() || !r.Spec.ReportSync && !bytes.Contains(parent.Status, []byte(Synced)) {
		return nil
	}
	own, isList := declared["conditions"].([]any)
	at := indexOf(own)
	if at >= 0 && !isOwn(own[at]) || !isList && declared["conditions"] != nil {
		return nil // the conditions are the hook's
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

// synced completes the condition. The condition before is in a list at i; -1: there was none.
func (r *reconciler) synced(parent *Object, list []any, i int, c conditions.Condition) map[string]any {
	since := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
	r.statuses.change(parent, func(w *written) {
		if w.synced != string(c.Status) { // keeps since if the server keeps no condition
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

// indexOf returns the index of Synced in a list of conditions, -1 if missing.
func indexOf(list []any) int {
	for i, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == Synced {
			return i
		}
	}
	return -1
}

// isOwn says that a condition Synced was written by skiff: a hook may repeat the condition.
func isOwn(condition any) bool {
	c, _ := condition.(map[string]any)
	return c["reason"] == hookFailed || c["reason"] == hookAnswered
}

// withCondition returns a list with a condition in place of item i; -1: at the end.
func withCondition(list []any, i int, c map[string]any) []any {
	out := append(make([]any, 0, len(list)+1), list...)
	if i < 0 {
		return append(out, c)
	}
	out[i] = c
	return out
}

// others names the other running hook controllers of the parent resource, "" if there are none.
func (r *reconciler) others() string {
	if r.Others == nil {
		return ""
	}
	return strings.Join(r.Others(), ", ")
}

// contestedNote says how to end the contest for a child that another writer keeps changing or deleting.
func (r *reconciler) contestedNote(child *apply.Result) string {
	note := child.Why().Note() + ": it is written less and less often; stop what changes it"
	if others := r.others(); others != "" {
		note += "; if it is a child of " + others + ", too, give it another name there, or other parents by a " +
			"labelSelector"
	}
	return note
}

// contested takes in the notes about children contested by another writer. The notes stand until three pauses have
// passed without a contest: after each write a child is as declared for a moment. wait is the time to the next look.
func (r *reconciler) contested(parent *Object, notes []string, pause time.Duration) (wait time.Duration) {
	key, now := noteKey{r.Parent.Resource, parent.Key(), aboutContest}, time.Now()
	if len(notes) > 0 {
		r.Notes.set(key, strings.Join(notes, "; "))
		r.statuses.change(parent, func(w *written) { w.peace = now.Add(3 * pause) })
		return pause
	}
	over := false
	r.statuses.change(parent, func(w *written) {
		switch {
		case w.peace.IsZero():
		case now.Before(w.peace):
			wait = w.peace.Sub(now)
		default:
			w.peace, over = time.Time{}, true
		}
	})
	if over {
		r.Notes.set(key, "")
	}
	return wait
}

// undone says whether to leave a parent alone until the pause of a fight ends, as another writer keeps undoing writes.
func (r *reconciler) undone(parent *Object, what string) (leave bool) {
	var first bool
	r.statuses.change(parent, func(w *written) {
		before := w.fight.until
		leave = !w.fight.resume(time.Now())
		w.fight.wrote = w.fight.wrote && leave
		first = leave && w.fight.until != before
	})
	if !leave {
		return false
	}
	note := "another controller keeps replacing " + what + ": it is written less and less often; stop one of them"
	if others := r.others(); others != "" {
		note += ", or give " + others + " other parents by a labelSelector"
	}
	r.Notes.set(noteKey{r.Parent.Resource, parent.Key(), aboutFight}, note)
	if first {
		r.announcer(parent).Event(events.Warning, "Contested", note, nil)
	}
	return true
}

// truce returns when to look again at a parent contested by another writer; 0: no contest, or no longer.
func (r *reconciler) truce(parent *Object) (wait time.Duration) {
	now, over := time.Now(), false
	r.statuses.change(parent, func(w *written) {
		f := &w.fight
		switch lasts := f.last.Add(2 * f.truce).Sub(now); {
		case f.truce == 0:
		case now.Before(f.until):
			wait = f.until.Sub(now)
		case f.tried && lasts > 0:
			wait = lasts
		default: // no write was needed, or the write lasts
			*f, over = fight{wrote: f.wrote}, true
		}
	})
	if over {
		r.Notes.set(noteKey{r.Parent.Resource, parent.Key(), aboutFight}, "")
	}
	return wait
}
