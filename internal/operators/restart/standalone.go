package restart

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/kube"
)

// StateAnnotation on the first target holds the state of a `skiff restart`.
//
// It is there because nothing else is: a Role that lets it list pods and patch its targets is all that `skiff restart` needs. And it is
// where several of them meet, one in each pod of a proxy that has it as a sidecar: the restart of the first target and the new state
// are one PATCH that only holds for the version that was read, so that one of them restarts the target and the others find that it has
// been done. It is written with a restart, and once before the first one; a change between two restarts that was not acted on before
// the process died is found again, as a difference from the state at the last one.
const StateAnnotation = "skiff.dev/restart-state"

// StandaloneOptions are a trigger without a custom resource.
type StandaloneOptions struct {
	Namespace string // of the pods and of the targets
	Selector  string // label selector of the pods, as in `kubectl get -l`
	On        []Reason
	Targets   []TargetRef
	Debounce  time.Duration
	Cooldown  time.Duration
	Budget    int           // restarts within Per; 0: no limit
	Per       time.Duration // at most a week

	WatchIdleTimeout time.Duration
	Log              logr.Logger
}

func (o *StandaloneOptions) rule() (*rule, error) {
	sel, err := parseSelector(o.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", o.Selector, err)
	}
	switch {
	case len(o.Targets) == 0 || len(o.Targets) > maxTargets:
		return nil, fmt.Errorf("target: want 1 to %d, there are %d", maxTargets, len(o.Targets))
	case o.Debounce < 0 || o.Debounce > maxDebounce:
		return nil, fmt.Errorf("debounce: must be within 0s..%s, is %s", maxDebounce, o.Debounce)
	case o.Cooldown < 0 || o.Cooldown > maxCooldown:
		return nil, fmt.Errorf("cooldown: must be within 0s..%s, is %s", maxCooldown, o.Cooldown)
	case o.Budget < 0 || o.Budget > maxBudget:
		return nil, fmt.Errorf("budget: must be within 1..%d, is %d", maxBudget, o.Budget)
	case o.Budget > 0 && (o.Per < time.Second || o.Per > maxPer):
		return nil, fmt.Errorf("budget: its window must be within 1s..%s, is %s", maxPer, o.Per)
	}
	r := &rule{selector: sel, namespace: o.Namespace, on: o.On, targets: o.Targets, debounce: o.Debounce, cooldown: o.Cooldown,
		budget: o.Budget, per: o.Per, maxPods: maxAnnotatedPods}
	return r, r.finish()
}

// NewStandalone returns a controller that does what a RestartTrigger would do. It watches the pods that the selector selects on the
// server, and sends nothing before Run. An error is a mistake in o.
func NewStandalone(client *kube.Client, o StandaloneOptions) (*controller.Controller, error) {
	r, err := o.rule()
	if err != nil {
		return nil, err
	}
	client = client.Limit(o.Rights())
	ps := cache.New[*pod](cache.Options{Resource: pods, Namespaces: []string{o.Namespace}, LabelSelector: r.selector.String(), Client: client,
		WatchIdleTimeout: o.WatchIdleTimeout, Log: o.Log})
	s := &standalone{
		worker: worker{client: client},
		rule:   r,
		pods:   ps.List,
		key:    kube.Key{Namespace: o.Namespace, Name: r.targets[0].Name},
		mem:    memory{looks: map[TargetRef]look{}},
	}
	return controller.New("restart", s.Reconcile, controller.Options{Workers: 1, Log: o.Log},
		controller.Watches(ps, func(*pod) []kube.Key { return []kube.Key{s.key} }), controller.Once(s.key)), nil
}

// standalone is the one trigger of a `skiff restart`. It has one key, so its reconciles follow one another.
type standalone struct {
	worker
	rule   *rule
	pods   func(namespace string) ([]*pod, error)
	key    kube.Key
	mem    memory
	state  State
	stored string // the annotation as it was last read or written
	said   string // the problem that was logged last
}

// Reconcile brings the state up to date with the pods, and restarts a target if that is due.
func (s *standalone) Reconcile(ctx context.Context, _ kube.Key) (controller.Outcome, error) {
	all, err := s.pods(s.key.Namespace)
	if err != nil {
		return controller.Done, err
	}
	now := time.Now()
	source := sourcePods(s.rule, s.key.Namespace, all)
	s.absorb(ctx, source, now)
	fresh := s.mem.wantsLook(s.rule, &s.state, nil, now)
	if fresh {
		if err := s.read(ctx, s.key.Namespace, s.rule, &s.mem, nil); err != nil {
			return controller.Done, err
		}
		if s.load(ctx) {
			s.absorb(ctx, source, now)
		}
	}
	if err := s.selfReference(); err != nil {
		return controller.Done, controller.Terminal(err)
	}
	d := s.mem.decide(s.rule, s.state, fresh, now)
	s.state = d.state
	s.say(ctx, &d)
	if d.restart >= 0 {
		d.wait, err = s.restart(ctx, d.restart)
	} else if fresh && s.stored == "" {
		var wait time.Duration
		wait, err = s.store(ctx)
		d.wait = apply.Earlier(d.wait, wait)
	}
	return controller.Wait(d.wait), err
}

// absorb brings the state up to date with the pods.
func (s *standalone) absorb(ctx context.Context, source []sourcePod, now time.Time) {
	before := s.state.Pending
	s.state = s.state.clone()
	s.mem.absorb(s.rule, &s.state, source, now)
	s.state.begin(s.rule)
	if p := s.state.Pending; before == nil && p != nil {
		logr.FromContextOrDiscard(ctx).Info("noticed", "reason", string(p.Reason), "note", p.Note, "restartIn", s.state.due(s.rule, now))
	}
}

// first returns the target that holds the state, as it was last read; nil if there is none.
func (s *standalone) first() *workload { return s.mem.looks[s.rule.targets[0]].live }

// load takes over a state that is not the one we have written: of the process before this one, or of another one beside it.
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
		return false // somebody took it away: we still know
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		logr.FromContextOrDiscard(ctx).Info("the stored state cannot be read and is made anew", "annotation", StateAnnotation, "error", err.Error())
		s.stored = ""
		return false
	}
	s.state = state
	return true
}

// restart restarts a target, and stores the state that follows from it: in the same request where the target is the first.
func (s *standalone) restart(ctx context.Context, i int) (wait time.Duration, err error) {
	ref := s.rule.targets[i]
	after := s.state.clone()
	after.restarted(s.rule, i, s.mem.looks[ref].live.UID)
	var annotations map[string]string
	text := ""
	if i == 0 {
		if text, err = after.text(); err != nil {
			return 0, err
		}
		annotations = map[string]string{StateAnnotation: text}
	}
	s.mem.lookAt = time.Time{}
	live, err := s.patch(ctx, s.key.Namespace, ref, s.mem.looks[ref].live, after.Round.Time, annotations)
	switch {
	case kube.IsNotFound(err), kube.IsConflict(err): // it has changed since it was read, perhaps because another one was quicker
		s.abandon(i)
		return minPoll, nil
	case err != nil:
		s.abandon(i)
		return 0, err
	}
	logr.FromContextOrDiscard(ctx).Info("restarted", "target", ref.String(), "reason", string(after.Round.Reason), "note", after.Round.Note)
	s.state = after
	s.mem.restarted(ref, live)
	s.mem.lookAt = time.Now().Add(minPoll)
	if i == 0 {
		s.stored = text
		return minPoll, nil
	}
	return s.store(ctx)
}

// abandon makes a round that did not get to its first restart the pending one again: nobody has heard of it yet, and by now it may have
// been done by somebody else.
func (s *standalone) abandon(i int) {
	if r := s.state.Round; i == 0 && !same(s.state.Targets[0].RestartedAt, r.Time) {
		s.state.Round = nil
		if s.state.Pending == nil {
			waited := r.Time.Add(-s.rule.debounce)
			s.state.Pending = &Pending{Reason: r.Reason, Pod: r.Pod, Note: r.Note, First: waited, Last: waited}
		}
	}
}

// store writes the state down without a restart. It returns when to go on, 0 for at the next change.
func (s *standalone) store(ctx context.Context) (wait time.Duration, err error) {
	live := s.first()
	if live == nil {
		return 0, nil
	}
	text, err := s.state.text()
	if err != nil {
		return 0, err
	}
	now := new(workload)
	err = s.client.Patch(ctx, targetKinds[s.rule.targets[0].Kind], s.key, kube.MergePatch, map[string]any{"metadata": map[string]any{
		"uid": live.UID, "resourceVersion": live.ResourceVersion, "annotations": map[string]string{StateAnnotation: text}}},
		now, kube.WriteOptions{FieldManager: manager})
	switch {
	case kube.IsNotFound(err), kube.IsConflict(err): // read it again, and see whether it still has to be written
		s.mem.looks, s.mem.lookAt = map[TargetRef]look{}, time.Time{}
		return minPoll, nil
	case err != nil:
		return 0, err
	}
	s.mem.restarted(s.rule.targets[0], now)
	s.stored = text
	if s.state.Round != nil {
		return minPoll, nil
	}
	return 0, nil
}

// text returns the state as it is stored.
func (s *State) text() (string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the state: %w", err)
	}
	return string(b), nil
}

// selfReference says that restarts would set off restarts.
func (s *standalone) selfReference() error {
	for _, ref := range s.rule.targets {
		if live := s.mem.looks[ref].live; live != nil && s.rule.selector.matches(live.Spec.Template.Metadata.Labels) {
			return fmt.Errorf("selector %s: matches the pods of %s, so that each restart would be followed by another: narrow it", s.rule.selector, ref)
		}
	}
	return nil
}

// say logs what a restart is waiting for, or what is wrong, once.
func (s *standalone) say(ctx context.Context, d *decision) {
	p := d.problem
	if p == nil {
		p = d.waiting
	}
	text := ""
	if p != nil {
		text = p.Message
	}
	if text != s.said && text != "" {
		logr.FromContextOrDiscard(ctx).Info("held up", "reason", p.Reason, "message", text)
	}
	s.said = text
}
