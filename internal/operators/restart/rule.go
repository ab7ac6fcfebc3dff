package restart

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/nearest"
)

const (
	// DefaultDebounce is longer than the pauses within an operation (three pods evicted from one node), and short
	// enough not to look like a fault.
	DefaultDebounce = 10 * time.Second
	// DefaultCooldown is about the length of a rollout of a few pods, and must not be zero: the cooldown bounds the
	// damage of a source whose pods are replaced all the time.
	DefaultCooldown = time.Minute

	// maxDebounce and maxCooldown refuse what must be a mistake in the unit.
	maxDebounce = time.Hour
	maxCooldown = 24 * time.Hour
	// maxBudget bounds the times that have to be remembered; maxPer is a week.
	maxBudget = 100
	maxPer    = 7 * 24 * time.Hour
	// maxTargets bounds a round, which restarts target after target.
	maxTargets = 16

	// maxPods is how many source pods the status remembers each, at some 50 bytes a pod. With more pods, a process
	// that starts anew only knows when the newest was created (see digest).
	maxPods = 500
	// maxAnnotatedPods is the same for `skiff restart`, whose state is an annotation that a Deployment copies to
	// its ReplicaSets.
	maxAnnotatedPods = 100
)

// rule is a checked spec.
type rule struct {
	selector           labels.Requirements // of pods; empty: none are a source
	wanted             []wanted            // ConfigMaps and Secrets
	configID           string              // identifies wanted
	born               time.Time           // when the trigger was created; zero: not known
	namespace          string              // of the source
	salt               string              // of the digests
	source             string              // identifies salt, selector, namespace and on
	on                 []Reason
	targets            []TargetRef
	debounce, cooldown time.Duration
	raised             string // says which of both differ from the spec
	budget             int    // rounds within per; 0: no limit
	per                time.Duration
	maxPods            int
	suspended          bool // by the spec or by the annotation
}

// newRule checks again everything in the schema of the CRD, because a cluster may have an older CRD, and the rules
// that a schema cannot express. An error names the field.
func newRule(t *RestartTrigger) (*rule, error) {
	s := &t.Spec
	r := &rule{selector: s.Source.Selector.Requirements(), namespace: sourceNamespace(t), salt: t.UID,
		on: s.Source.Reasons, targets: s.Targets, maxPods: maxPods,
		suspended: s.Suspend || conditions.IsPaused(t.Annotations)}
	var err error
	if r.wanted, err = newWanted(&s.Source); err != nil {
		return nil, err
	}
	r.configID, r.born = configIdentity(r.wanted), t.CreationTimestamp
	if len(r.wanted) > 0 && r.namespace != t.Namespace {
		return nil, errors.New("spec.source.namespace: ConfigMaps and Secrets of another namespace cannot be a " +
			"source; have a RestartTrigger for the pods, and another one for configMaps and secrets")
	}
	if len(r.selector) > 0 || len(r.wanted) == 0 {
		if err := checkSelector(r.selector); err != nil {
			return nil, fmt.Errorf("spec.source.selector: %w", err)
		}
	}
	if r.debounce, err = duration(s.Debounce, DefaultDebounce, 0, maxDebounce); err != nil {
		return nil, fmt.Errorf("spec.debounce: %w", err)
	}
	if r.cooldown, err = duration(s.Cooldown, DefaultCooldown, 0, maxCooldown); err != nil {
		return nil, fmt.Errorf("spec.cooldown: %w", err)
	}
	if s.Budget != nil {
		if s.Budget.Max < 1 || s.Budget.Max > maxBudget {
			return nil, fmt.Errorf("spec.budget.max: must be within 1..%d, is %d; use suspend to allow no restart",
				maxBudget, s.Budget.Max)
		}
		r.budget = int(s.Budget.Max)
		if r.per, err = duration(&s.Budget.Per, 0, time.Second, maxPer); err != nil {
			return nil, fmt.Errorf("spec.budget.per: %w", err)
		}
	}
	return r, r.check()
}

// Floors are the shortest debounce and cooldown that a RestartTrigger may have. The zero value has no floor.
type Floors struct{ Debounce, Cooldown time.Duration }

// DefaultFloors are the floors of skiff's flags by default. Without floors, a tenant whose pods are replaced all the
// time restarts a workload each second or two; with these floors six times a minute at most.
var DefaultFloors = Floors{Debounce: time.Second, Cooldown: 10 * time.Second}

// raise lifts debounce and cooldown to the floors.
func (r *rule) raise(to Floors) {
	for _, one := range []struct {
		name  string
		value *time.Duration
		floor time.Duration
	}{{"debounce", &r.debounce, to.Debounce}, {"cooldown", &r.cooldown, to.Cooldown}} {
		if *one.value < one.floor {
			r.raised += fmt.Sprintf("; the %s of %s is raised to %s, the least that this skiff allows (--min-%[1]s)",
				one.name, short(*one.value), short(one.floor))
			*one.value = one.floor
		}
	}
}

// checkSelector refuses selectors that a server would refuse, and selectors that could match every pod of a namespace:
// for at least one requirement a pod must have a label.
func checkSelector(s labels.Requirements) error {
	switch err := s.Check(); {
	case len(s) == 0:
		return errors.New("must not be empty: it would match every pod")
	case err != nil:
		return err
	case !s.Positive():
		return errors.New("would match every pod without certain labels: " +
			"require at least one label, by matchLabels, In or Exists")
	}
	return nil
}

// sourceNamespace returns the namespace of the source pods.
func sourceNamespace(t *RestartTrigger) string {
	if t.Spec.Source.Namespace != "" {
		return t.Spec.Source.Namespace
	}
	return t.Namespace
}

// check checks reasons and targets, and fills in the rest.
func (r *rule) check() error {
	if !kube.ValidName(r.namespace) {
		return fmt.Errorf("spec.source.namespace: %.100q is not the name of a namespace", r.namespace)
	}
	if len(r.on) == 0 {
		r.on = []Reason{NewPodRunning}
	}
	for _, on := range r.on {
		if !slices.Contains(reasons, on) {
			return fmt.Errorf("spec.source.reasons: %.100q is none of %s%s", on, join(", ", reasons), meant(on))
		}
	}
	if len(r.targets) == 0 || len(r.targets) > maxTargets {
		return fmt.Errorf("spec.targets: want 1 to %d, there are %d", maxTargets, len(r.targets))
	}
	for i, t := range r.targets {
		switch {
		case targetKinds[t.Kind].Kind == "":
			return fmt.Errorf("spec.targets[%d].kind: must be Deployment, StatefulSet or DaemonSet, is %.100q",
				i, t.Kind)
		case !kube.ValidName(t.Name):
			return fmt.Errorf("spec.targets[%d].name: %.100q is not the name of an object", i, t.Name)
		case slices.Contains(r.targets[:i], t):
			return fmt.Errorf("spec.targets: %s is there twice", t)
		}
	}
	on := slices.Clone(r.on)
	slices.Sort(on)
	r.source = hash(r.salt, r.selector.String(), r.namespace, join(" ", slices.Compact(on)))
	return nil
}

var durationText = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)

// duration reads a duration within bounds.
func duration(text *string, otherwise, least, most time.Duration) (time.Duration, error) {
	if text == nil {
		return otherwise, nil
	}
	d, err := time.ParseDuration(*text)
	switch {
	case err != nil && durationText.MatchString(*text), d > most:
		return 0, fmt.Errorf("%.100q is too long; at most %s", *text, short(most))
	case err != nil:
		return 0, fmt.Errorf("%.100q is not a duration such as 30s or 5m", *text)
	case d < least:
		return 0, fmt.Errorf("%.100q is too short; at least %s", *text, short(least))
	}
	return d, nil
}

// short prints a duration as people write it: "1h", not "1h0m0s".
func short(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

// has says whether a change counts.
func (r *rule) has(reason Reason) bool { return slices.Contains(r.on, reason) }

// String returns the target in kubectl's form: "deployment/predixy".
func (t TargetRef) String() string { return strings.ToLower(t.Kind) + "/" + t.Name }

func (r Reason) String() string { return string(r) }

// configNames lists the ConfigMaps and Secrets for people, as many as a line has room for.
func (r *rule) configNames() string {
	var all []string
	for i, w := range r.wanted {
		if i == sources.MaxNames {
			all = append(all, fmt.Sprintf("%d more", len(r.wanted)-i))
			break
		}
		all = append(all, w.String())
	}
	return strings.Join(all, ", ")
}

// join lists reasons or targets.
func join[S fmt.Stringer](separator string, list []S) string {
	return strings.Join(names(list), separator)
}

func names[S fmt.Stringer](list []S) (names []string) {
	for _, s := range list {
		names = append(names, s.String())
	}
	return names
}

// meant asks for the reason most like a mistyped reason.
func meant(on Reason) string {
	var names []string
	for _, r := range reasons {
		names = append(names, r.String())
	}
	if question := nearest.Ask(on.String(), names, "", ""); question != "" {
		return "; " + question
	}
	return ""
}
