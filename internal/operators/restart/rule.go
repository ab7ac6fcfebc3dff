package restart

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultDebounce is longer than the pauses within one event of an operator's life (three pods evicted from one node), and
	// short enough that nobody wonders why nothing happens.
	DefaultDebounce = 10 * time.Second
	// DefaultCooldown is about what a rollout of a few pods takes. It must not be zero: it is what bounds the damage of a source
	// that never comes to rest.
	DefaultCooldown = time.Minute

	// maxDebounce and maxCooldown refuse what is a mistake in the unit rather than a wish.
	maxDebounce = time.Hour
	maxCooldown = 24 * time.Hour
	// maxBudget bounds the times that have to be remembered; maxPer is a week.
	maxBudget = 100
	maxPer    = 7 * 24 * time.Hour
	// maxTargets bounds a round: each target is waited for.
	maxTargets = 16

	// maxPods is how many source pods are remembered one by one in the status, at some 50 bytes each. Of more than that, a
	// process that starts anew only knows when the newest one that ran was created (see digest).
	maxPods = 500
	// maxAnnotatedPods is the same for `skiff restart`, whose state is an annotation that a Deployment copies to its ReplicaSets.
	maxAnnotatedPods = 100
)

// rule is a checked spec.
type rule struct {
	selector           selector
	namespace          string // of the source
	source             string // identifies selector, namespace and on
	on                 []Reason
	targets            []TargetRef
	debounce, cooldown time.Duration
	budget             int // rounds within per; 0: no limit
	per                time.Duration
	maxPods            int
	suspended          bool // from whatever cause
}

// newRule checks what the schema of the CRD checks already, for clusters with an older one, and what a schema cannot. namespace
// is the trigger's. An error names the field.
func newRule(namespace string, s *Spec) (*rule, error) {
	sel, err := newSelector(s.Source.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.source.selector: %w", err)
	}
	r := &rule{selector: sel, namespace: s.Source.Namespace, on: s.Source.Reasons, targets: s.Targets, maxPods: maxPods, suspended: s.Suspend}
	if r.namespace == "" {
		r.namespace = namespace
	}
	if r.debounce, err = duration(s.Debounce, DefaultDebounce, 0, maxDebounce); err != nil {
		return nil, fmt.Errorf("spec.debounce: %w", err)
	}
	if r.cooldown, err = duration(s.Cooldown, DefaultCooldown, 0, maxCooldown); err != nil {
		return nil, fmt.Errorf("spec.cooldown: %w", err)
	}
	if s.Budget != nil {
		if s.Budget.Max < 1 || s.Budget.Max > maxBudget {
			return nil, fmt.Errorf("spec.budget.max: must be within 1..%d, is %d; use suspend to allow no restart", maxBudget, s.Budget.Max)
		}
		r.budget = int(s.Budget.Max)
		if r.per, err = duration(&s.Budget.Per, 0, time.Second, maxPer); err != nil {
			return nil, fmt.Errorf("spec.budget.per: %w", err)
		}
	}
	return r, r.finish()
}

// finish checks what a rule of flags and one of a spec have in common, and fills in what follows from the rest.
func (r *rule) finish() error {
	if len(r.on) == 0 {
		r.on = []Reason{NewPodRunning}
	}
	for i, on := range r.on {
		if !slices.Contains(reasons, on) {
			return fmt.Errorf("spec.source.reasons[%d]: %q is none of %s", i, on, reasonNames())
		}
	}
	if len(r.targets) == 0 || len(r.targets) > maxTargets {
		return fmt.Errorf("spec.targets: want 1 to %d, there are %d", maxTargets, len(r.targets))
	}
	for i, t := range r.targets {
		switch {
		case targetKinds[t.Kind].Kind == "":
			return fmt.Errorf("spec.targets[%d].kind: must be Deployment, StatefulSet or DaemonSet, is %q", i, t.Kind)
		case t.Name == "":
			return fmt.Errorf("spec.targets[%d].name: must not be empty", i)
		case slices.Contains(r.targets[:i], t):
			return fmt.Errorf("spec.targets[%d]: %s is there twice", i, t)
		}
	}
	on := slices.Clone(r.on)
	slices.Sort(on)
	r.source = hash(fmt.Sprint(r.selector, r.namespace, slices.Compact(on)))
	return nil
}

// duration reads a duration within bounds.
func duration(text *string, otherwise, least, most time.Duration) (time.Duration, error) {
	if text == nil {
		return otherwise, nil
	}
	d, err := time.ParseDuration(*text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration such as 30s or 5m", *text)
	case d < least || d > most:
		return 0, fmt.Errorf("must be within %s..%s, is %s", least, most, d)
	}
	return d, nil
}

// has says whether a change is one that counts.
func (r *rule) has(reason Reason) bool { return slices.Contains(r.on, reason) }

// targetNames returns the targets in kubectl's form, for a column.
func (r *rule) targetNames() string {
	names := make([]string, len(r.targets))
	for i, t := range r.targets {
		names[i] = t.String()
	}
	return strings.Join(names, ",")
}

// String returns the target in kubectl's form: "deployment/predixy".
func (t TargetRef) String() string { return strings.ToLower(t.Kind) + "/" + t.Name }

// ParseTarget reads a target in kubectl's form: KIND/NAME, the kind in any case, in the plural or by its short name.
func ParseTarget(text string) (TargetRef, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || name == "" {
		return TargetRef{}, fmt.Errorf("%q: want KIND/NAME, such as deployment/web", text)
	}
	switch strings.ToLower(kind) {
	case "deployment", "deployments", "deploy":
		kind = "Deployment"
	case "statefulset", "statefulsets", "sts":
		kind = "StatefulSet"
	case "daemonset", "daemonsets", "ds":
		kind = "DaemonSet"
	default:
		return TargetRef{}, fmt.Errorf("%q: only a deployment, statefulset or daemonset can be restarted", text)
	}
	return TargetRef{Kind: kind, Name: name}, nil
}

func reasonNames() string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// ParseReasons reads the names of reasons.
func ParseReasons(names []string) ([]Reason, error) {
	var out []Reason
	for _, n := range names {
		if !slices.Contains(reasons, Reason(n)) {
			return nil, fmt.Errorf("%q is none of %s", n, reasonNames())
		}
		out = append(out, Reason(n))
	}
	if len(out) == 0 {
		return nil, errors.New("name at least one of " + reasonNames())
	}
	return out, nil
}
