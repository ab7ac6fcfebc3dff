package restart

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// StateAnnotation on the first target holds the state of a `skiff restart`.
//
// With the state there, a Role to list pods and patch targets is enough. And several processes, for example in each
// pod of a proxy with skiff as a sidecar, work together: the restart of the first target and the new state are one
// PATCH, valid for the version read alone, so that one process restarts the target and the rest find the restart
// done. The state is written with a restart, and once before the first restart. A change that a process died before
// acting on is found again, as a difference from the state at the last restart.
const StateAnnotation = "skiff.dev/restart-state"

// Validate returns what is wrong with a spec, as an error that begins with the name of a field.
func (s *Spec) Validate() error {
	_, err := newRule(s.in("default"))
	return err
}

// in returns a trigger with a spec in a namespace. Name and uid say where the state is.
func (s *Spec) in(namespace string) *RestartTrigger {
	t := &RestartTrigger{Spec: *s}
	t.Namespace, t.UID = namespace, namespace
	if len(s.Targets) > 0 {
		t.Name = s.Targets[0].Name
		t.UID += "/" + s.Targets[0].String()
	}
	return t
}

// NewStandalone returns a controller that acts like a RestartTrigger with the spec in the one namespace of s. The
// controller watches the pods selected on the server, and sends nothing before Run. An error is a mistake in the spec.
func NewStandalone(s controller.Setup, spec Spec, floors Floors) (*controller.Controller, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	t := spec.in(s.Namespaces[0])
	s.Client, s.Workers = s.Client.Limit(spec.Rights()), 1
	ps := controller.Mirror[*pod](s, pods, spec.Source.Selector.Requirements().String())
	alone := &standalone{client: s.Client, trigger: t}
	r := &reconciler{client: s.Client, restarts: newRestarts(), triggers: alone, standalone: alone,
		find: newFinder(nil, ps), floors: floors}
	run := s.New("restart", r.Reconcile, controller.Once(t.Key()),
		controller.Watches(ps, func(*pod) []kube.Key { return []kube.Key{t.Key()} }))
	r.found = run.Report
	run.Publish(r.restarts)
	return run, nil
}

// standalone is the one trigger of a `skiff restart`, whose state is in an annotation of the first target. There is
// one key, so reconciles follow one another.
type standalone struct {
	client  *kube.Client
	trigger *RestartTrigger // replaced by others, never changed
	first   *liveTarget     // the first target as it was last read or written; nil: there is none
	stored  string          // the annotation, likewise; "": there is none that can be read
	last    *Restart        // the last restart according to it
}

// Get returns the trigger.
func (s *standalone) Get(context.Context, kube.Key) (*RestartTrigger, bool, error) {
	return s.trigger, true, nil
}

// Write makes status the trigger's, and stores the state where there is none yet, or where no restart has stored the
// state already.
func (s *standalone) Write(ctx context.Context, t *RestartTrigger, from, status any) (changed bool, err error) {
	changed = !reflect.DeepEqual(from, status)
	next := *t
	next.Status = status.(Status)
	s.trigger = &next
	if s.first == nil || s.stored != "" && reflect.DeepEqual(s.last, next.Status.LastRestart) {
		return changed, nil
	}
	metadata := map[string]any{}
	if err := s.enter(metadata, s.first, &next.Status.State); err != nil {
		return false, err
	}
	ref, live := t.Spec.Targets[0], new(liveTarget)
	err = s.client.Patch(ctx, targetKinds[ref.Kind], kube.Key{Namespace: t.Namespace, Name: ref.Name}, kube.MergePatch,
		map[string]any{"metadata": metadata}, live, kube.WriteOptions{FieldManager: Manager})
	if kube.IsConflict(err) || kube.IsNotFound(err) {
		return false, fmt.Errorf("%w: %w", apply.ErrConflict, err)
	}
	if err != nil {
		return false, err
	}
	s.wrote(live, &next.Status.State)
	return changed, nil
}

// enter puts the state into the metadata of a PATCH that only holds for the version of the first target as read.
func (s *standalone) enter(metadata map[string]any, live *liveTarget, state *State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	metadata["uid"], metadata["resourceVersion"] = live.UID, live.ResourceVersion
	metadata["annotations"] = map[string]string{StateAnnotation: string(text)}
	return nil
}

// wrote notes the answer to a PATCH with a state.
func (s *standalone) wrote(live *liveTarget, state *State) {
	s.first, s.last = live, state.LastRestart
	s.stored, _ = live.Annotations.Get(StateAnnotation)
}

// read notes the first target, takes over a state written by another process, of before or beside this process, and
// returns the trigger with the state.
func (s *standalone) read(ctx context.Context, live *liveTarget) *RestartTrigger {
	s.first = live
	if live == nil {
		return s.trigger
	}
	text, _ := live.Annotations.Get(StateAnnotation)
	if text == s.stored {
		return s.trigger
	}
	s.stored, s.last = text, nil
	if text == "" {
		return s.trigger // it was removed, and will be written again
	}
	var state State
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		logr.FromContextOrDiscard(ctx).Info("the stored state cannot be read and is replaced",
			"annotation", StateAnnotation, "error", err.Error())
		s.stored = ""
		return s.trigger
	}
	next := *s.trigger
	next.Status.State = state
	s.trigger, s.last = &next, state.LastRestart
	return s.trigger
}
