package restart

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cache"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/kube"
)

// StateAnnotation on the first target holds the state of a `skiff restart`.
//
// It is there so that a Role is enough that lets it list pods and patch its targets. And several processes, one in
// each pod of a proxy that has it as a sidecar, work together by it: the restart of the first target and the new
// state are one PATCH that only holds for the version that was read, so that one of them restarts the target and
// the others find that done. It is written with a restart, and once before the first one. A change that the process
// did not act on before it died is found again, as a difference from the state at the last restart.
const StateAnnotation = "skiff.dev/restart-state"

// StandaloneOptions are a trigger without a custom resource.
type StandaloneOptions struct {
	Namespace string // of the pods and of the targets
	Spec      Spec

	WatchIdleTimeout time.Duration
	Log              logr.Logger
}

// flagOf turns the fields that an error of newRule begins with into the flags of `skiff restart`.
var flagOf = strings.NewReplacer("spec.source.reasons", "on", "spec.targets", "target",
	"spec.source.", "", "spec.", "")

// Validate returns what is wrong with the spec, as an error that begins with the name of a flag.
func (o *StandaloneOptions) Validate() error {
	_, err := o.rule()
	return err
}

func (o *StandaloneOptions) rule() (*rule, error) {
	t := &RestartTrigger{Spec: o.Spec}
	t.Namespace, t.UID = cmp.Or(o.Namespace, "default"), o.Namespace
	if len(o.Spec.Targets) > 0 {
		t.UID += "/" + o.Spec.Targets[0].String() // where the state is
	}
	r, err := newRule(t)
	if err != nil {
		return nil, errors.New(flagOf.Replace(err.Error()))
	}
	r.maxPods = maxAnnotatedPods
	return r, nil
}

// NewStandalone returns a controller that does what a RestartTrigger would do. It watches the pods that the
// selector selects on the server, and sends nothing before Run. An error is a mistake in o.
func NewStandalone(c *kube.Client, o StandaloneOptions) (*controller.Controller, error) {
	r, err := o.rule()
	if err != nil {
		return nil, err
	}
	c = c.Limit(o.Rights())
	ps := cache.New[*pod](cache.Options{Resource: pods, Namespaces: []string{o.Namespace}, Client: c,
		LabelSelector: r.selector.String(), WatchIdleTimeout: o.WatchIdleTimeout, Log: o.Log})
	s := &standalone{
		client: client{c},
		memory: memory{reads: map[TargetRef]reading{}},
		rule:   r,
		pods:   ps.List,
		key:    kube.Key{Namespace: o.Namespace, Name: r.targets[0].Name},
	}
	return controller.New("restart", s.Reconcile, controller.Options{Workers: 1, Log: o.Log},
		controller.Watches(ps, func(*pod) []kube.Key { return []kube.Key{s.key} }), controller.Once(s.key)), nil
}

// standalone is the one trigger of a `skiff restart`. It has one key, so its reconciles follow one another.
type standalone struct {
	client
	memory
	rule   *rule
	pods   func(namespace string) ([]*pod, error)
	key    kube.Key
	state  State
	stored string // the annotation as it was last read or written
	logged string // the problem that was logged last
}

// Reconcile brings the state up to date with the pods, and restarts a target if that is due.
func (s *standalone) Reconcile(ctx context.Context, _ kube.Key) (controller.Outcome, error) {
	all, err := s.pods(s.key.Namespace)
	if err != nil {
		return controller.Done, err
	}
	now := time.Now()
	source := sourcePods(s.rule, s.key.Namespace, all)
	s.update(ctx, source, now)
	fresh := s.needsRead(s.rule, &s.state, nil, now)
	if fresh {
		if err := s.read(ctx, s.key.Namespace, s.rule, &s.memory, nil); err != nil {
			return controller.Done, err
		}
		if s.load(ctx) {
			s.update(ctx, source, now)
		}
	}
	if err := s.selfReference(); err != nil {
		return controller.Done, controller.Terminal(err)
	}
	d := s.decide(s.rule, s.state, fresh, now)
	s.state = d.state
	s.logProblem(ctx, &d)
	if d.restart >= 0 {
		d.wait, d.cause = 0, ""
		err = s.carryOut(ctx, &d)
	} else if fresh && s.stored == "" {
		err = s.store(ctx, &d)
	}
	return controller.Wait(d.wait).Because(d.cause), err
}

// update brings the state up to date with the pods.
func (s *standalone) update(ctx context.Context, source []sourcePod, now time.Time) {
	before := s.state.Pending
	s.state = s.state.clone()
	s.absorb(s.rule, &s.state, source, now)
	s.detail = s.seen
	s.state.align(s.rule)
	if p := s.state.Pending; before == nil && p != nil {
		wait, limit := s.state.due(s.rule, now)
		log := logr.FromContextOrDiscard(ctx)
		log.Info("restart pending", "reason", p.Reason.String(), "note", p.Note, "in", wait, "limit", limit)
	}
}

// first returns the target that holds the state, as it was last read; nil if there is none.
func (s *standalone) first() *workload { return s.reads[s.rule.targets[0]].live }

// load takes over a state that this process has not written: of the process before this one, or of another one
// beside it.
func (s *standalone) load(ctx context.Context) bool {
	live := s.first()
	if live == nil {
		return false
	}
	text, _ := live.Annotations.Get(StateAnnotation)
	if text == s.stored {
		return false
	}
	s.stored = text
	var state State
	if text == "" {
		return false // it was removed, and will be written again
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		logr.FromContextOrDiscard(ctx).Info("the stored state cannot be read and is replaced",
			"annotation", StateAnnotation, "error", err.Error())
		s.stored = ""
		return false
	}
	s.state = state
	return true
}

// carryOut restarts the target of a decision, and stores the state that follows from it: in the same request where
// the target is the first.
func (s *standalone) carryOut(ctx context.Context, d *decision) (err error) {
	i, ref := d.restart, s.rule.targets[d.restart]
	after := s.state.clone()
	after.restarted(s.rule, i, s.reads[ref].live.UID)
	var annotations map[string]string
	if i == 0 {
		if annotations, err = after.annotations(); err != nil {
			return err
		}
	}
	live, err := s.restart(ctx, s.key.Namespace, ref, s.reads[ref].live, after.Round, annotations)
	if err != nil { // where it is a conflict, another process may have been quicker
		s.readAt = time.Time{}
		s.abandon(i)
		return s.readAgain(d, err)
	}
	s.state = after
	s.restarted(ref, live)
	d.again(minPoll, "waits for "+ref.String())
	if i == 0 {
		s.stored = annotations[StateAnnotation]
		return nil
	}
	return s.store(ctx, d)
}

// readAgain asks for another run if a write has failed because the object has changed or is gone.
func (s *standalone) readAgain(d *decision, err error) error {
	if !kube.IsNotFound(err) && !kube.IsConflict(err) {
		return err
	}
	d.again(minPoll, "a target has changed")
	return nil
}

// abandon makes a round that did not get to its first restart the pending one again: no other process knows of it
// yet, and another one may have done the restart by now.
func (s *standalone) abandon(i int) {
	if r := s.state.Round; i == 0 && !same(s.state.Targets[0].RestartedAt, r.Time) {
		s.state.Round = nil
		if s.state.Pending == nil {
			waited := r.Time.Add(-s.rule.debounce)
			s.state.Pending = &Pending{Change: r.Change, First: waited, Last: waited}
		}
	}
}

// store writes the state down without a restart.
func (s *standalone) store(ctx context.Context, d *decision) error {
	live := s.first()
	if live == nil {
		return nil
	}
	annotations, err := s.state.annotations()
	if err != nil {
		return err
	}
	now := new(workload)
	metadata := map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion, "annotations": annotations}
	err = s.Patch(ctx, targetKinds[s.rule.targets[0].Kind], s.key, kube.MergePatch,
		map[string]any{"metadata": metadata}, now, kube.WriteOptions{FieldManager: manager})
	if err != nil {
		s.reads, s.readAt = map[TargetRef]reading{}, time.Time{} // to see whether it still has to be written
		return s.readAgain(d, err)
	}
	s.reads[s.rule.targets[0]] = reading{live: now}
	s.stored = annotations[StateAnnotation]
	return nil
}

// annotations returns the state as it is stored.
func (s *State) annotations() (map[string]string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the state: %w", err)
	}
	return map[string]string{StateAnnotation: string(b)}, nil
}

// selfReference says that each restart would be followed by another.
func (s *standalone) selfReference() error {
	for _, ref := range s.rule.targets {
		if live := s.reads[ref].live; live != nil && s.rule.selector.matches(live.Spec.Template.Metadata.Labels) {
			return fmt.Errorf("selector %s: matches the pods of %s, so each restart would be followed by another: "+
				"narrow it", s.rule.selector, ref)
		}
	}
	return nil
}

// logProblem logs once what a restart waits for, or what is wrong.
func (s *standalone) logProblem(ctx context.Context, d *decision) {
	p := cmp.Or(d.problem, d.waiting, &conditions.Problem{})
	if p.Message != s.logged && p.Message != "" {
		logr.FromContextOrDiscard(ctx).Info("the restart waits", "reason", p.Reason, "message", p.Message)
	}
	s.logged = p.Message
}
