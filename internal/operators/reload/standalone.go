package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// Standalone is the work of a `skiff reload` in one namespace. Without targets, the workloads with annotations are
// restarted.
type Standalone struct {
	Options
	Targets []Target // to be restarted, in this order; they need no annotation, and none of theirs counts
	// ConfigMaps and Secrets are the sources of all targets, "name" or "name:key". Without either, the sources are
	// those that the containers of a target see.
	ConfigMaps, Secrets []string
	Cooldown            time.Duration // the least time between two restarts of a target
}

// Target names a workload.
type Target struct{ Kind, Name string }

// ParseTarget reads a workload in kubectl's form: the kind in any case, in the plural or by its short name.
func ParseTarget(text string) (Target, error) {
	r, err := parseRef(text)
	return Target{r.kind, r.name}, err
}

// String returns the workload in kubectl's form: "deployment/web".
func (t Target) String() string { return t.ref().String() }

// Resource returns the resource of the workload's kind.
func (t Target) Resource() kube.Resource {
	return Kinds[slices.IndexFunc(Kinds, func(r kube.Resource) bool { return r.Kind == t.Kind })]
}

func (t Target) ref() ref { return ref{t.Kind, t.Name} }

// Mistake is an error in a field of a Standalone.
type Mistake struct {
	Field string // "Targets", "ConfigMaps", "Secrets" or "Cooldown"
	error
}

// Unwrap returns what is wrong.
func (m Mistake) Unwrap() error { return m.error }

// annotationOf are the annotations with the meaning of fields, whose texts the fields have.
var annotationOf = map[string]string{"ConfigMaps": ConfigMapsAnnotation, "Secrets": SecretsAnnotation,
	"Cooldown": CooldownAnnotation}

// Validate returns the first mistake, as a Mistake.
func (a *Standalone) Validate() error {
	if len(a.Targets) == 0 {
		why := errors.New("say by --target what is restarted, such as deployment/web")
		switch {
		case len(a.ConfigMaps) > 0:
			return Mistake{"ConfigMaps", why}
		case len(a.Secrets) > 0:
			return Mistake{"Secrets", why}
		}
		return nil
	}
	if a.Reloader {
		return Mistake{"Targets", errors.New("no annotation counts beside them; leave out --reloader-annotations")}
	}
	if n := len(a.Targets); n > maxAfter {
		return Mistake{"Targets", fmt.Errorf("%d are too many; at most %d", n, maxAfter)}
	}
	for i, t := range a.Targets {
		if slices.Contains(a.Targets[:i], t) {
			return Mistake{"Targets", fmt.Errorf("%s is named twice", t)}
		}
	}
	if err := a.validateSources(); err != nil {
		return err
	}
	annotations := a.annotations(0)
	for _, bad := range new(target).wants(annotations).faults {
		for field, annotation := range annotationOf {
			if bad.annotation == annotation {
				return Mistake{field, errors.New(bad.text)}
			}
		}
	}
	return nil
}

// validateSources returns the first mistake in the lists of sources that the annotations would take: their entries are
// trimmed and may be empty, and those beyond maxSources are left out.
func (a *Standalone) validateSources() error {
	for _, of := range []struct {
		field string
		list  []string
	}{{"ConfigMaps", a.ConfigMaps}, {"Secrets", a.Secrets}} {
		for _, one := range of.list {
			switch {
			case strings.TrimSpace(one) == "":
				return Mistake{of.field, errors.New("a name is empty: is a variable not set, or a comma too many?")}
			case strings.TrimSpace(one) != one:
				return Mistake{of.field, fmt.Errorf("%.100q has a space before or after the name: leave it out", one)}
			case strings.Contains(one, ","):
				return Mistake{of.field, fmt.Errorf("%.100q has a comma: give each name by itself", one)}
			}
		}
		if n := len(a.ConfigMaps) + len(a.Secrets); n > maxSources && len(of.list) > maxSources/2 {
			return Mistake{of.field, fmt.Errorf("%d sources are too many; at most %d", n, maxSources)}
		}
	}
	return nil
}

// annotations are those with the meaning of the flags for the i-th target, which comes after the ones before.
func (a *Standalone) annotations(i int) (out kube.Labels) {
	var before []string
	for _, t := range a.Targets[:i] {
		before = append(before, t.String())
	}
	if len(a.ConfigMaps)+len(a.Secrets) == 0 {
		out = append(out, kube.Label{Key: AutoAnnotation, Value: "auto"})
	}
	return append(out, // in the order of keys
		kube.Label{Key: AfterAnnotation, Value: strings.Join(before, ",")},
		kube.Label{Key: ConfigMapsAnnotation, Value: strings.Join(a.ConfigMaps, ",")},
		kube.Label{Key: CooldownAnnotation, Value: a.Cooldown.String()},
		kube.Label{Key: SecretsAnnotation, Value: strings.Join(a.Secrets, ",")})
}

// sources returns the names of the sources of a kind, as flags have them; none: any may be one. used says whether
// there can be any.
func (a *Standalone) sources(of []string) (names []string, used bool) {
	for _, one := range of {
		name, _, _ := strings.Cut(one, ":")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), len(of) > 0 || len(a.ConfigMaps)+len(a.Secrets) == 0
}

// stateName returns the name of the annotation with the state: StateAnnotation without targets, else that with a hash
// over the sources. Two processes with other sources would take the entries of each other out of one annotation.
func (a *Standalone) stateName() string {
	if len(a.Targets) == 0 {
		return StateAnnotation
	}
	var of []string
	for _, one := range a.ConfigMaps {
		of = append(of, sources.ConfigMapKind+"/"+one)
	}
	for _, one := range a.Secrets {
		of = append(of, sources.SecretKind+"/"+one)
	}
	if len(of) == 0 {
		of = []string{"auto"}
	}
	slices.Sort(of)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(of), ",")))
	return StateAnnotation + "-" + hex.EncodeToString(sum[:4])
}

// stateNames are the names of stateName with a hash.
var stateNames = regexp.MustCompile("^" + regexp.QuoteMeta(StateAnnotation) + "-[0-9a-f]{8}$")

func isStateName(annotation string) bool { return stateNames.MatchString(annotation) }

// managerOf returns the field manager of the annotation with a state. Server-side apply by one manager would remove
// the annotation of another process.
func managerOf(stateName string) string {
	return Manager + strings.TrimPrefix(stateName, StateAnnotation)
}

// kinds returns the kinds of the targets with their names; without targets, all kinds.
func (a *Standalone) kinds() (kinds []kube.Resource, names map[string][]string) {
	names = map[string][]string{}
	for _, t := range a.Targets {
		names[t.Kind] = append(names[t.Kind], t.Name)
	}
	if len(a.Targets) == 0 {
		return Kinds, names
	}
	return slices.DeleteFunc(slices.Clone(Kinds), func(r kube.Resource) bool { return len(names[r.Kind]) == 0 }), names
}

// OnlyName returns the name of the only object of a resource that is asked for; "": there are several, or all are.
func (a *Standalone) OnlyName(r kube.Resource) string {
	_, targets := a.kinds()
	names := targets[r.Kind]
	switch r {
	case sources.ConfigMaps:
		names, _ = a.sources(a.ConfigMaps)
	case sources.Secrets:
		names, _ = a.sources(a.Secrets)
	}
	if len(names) == 1 {
		return names[0]
	}
	return ""
}

// Rights are all rights needed for the work. Where OnlyName has a name for a kind, a Role may grant the rights for the
// name alone.
func (a *Standalone) Rights() (out []kube.Right) {
	kinds, _ := a.kinds()
	of := slices.Clone(kinds)
	if _, used := a.sources(a.ConfigMaps); used {
		of = append(of, sources.ConfigMaps)
	}
	if _, used := a.sources(a.Secrets); used {
		of = append(of, sources.Secrets)
	}
	for _, r := range Rights {
		if slices.Contains(of, r.Resource) {
			out = append(out, r)
		}
	}
	return out
}

// NewStandalone returns the controllers of a `skiff reload` in the one namespace of s. They record no Events, which
// would need one more right. An error is a Mistake.
func NewStandalone(s controller.Setup, a Standalone) ([]*controller.Controller, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	s.Client, s.Workers = s.Client.Limit(a.Rights()), 1
	w := newWorld(s, nil, a.Options)
	if _, used := a.sources(a.ConfigMaps); used {
		w.configMaps = mirrorOf[*sources.ConfigMap](s, sources.ConfigMaps, a.OnlyName(sources.ConfigMaps))
	}
	if _, used := a.sources(a.Secrets); used {
		w.secrets = mirrorOf[*sources.Secret](s, sources.Secrets, a.OnlyName(sources.Secrets))
	}
	w.kinds, _ = a.kinds()
	for _, r := range w.kinds {
		w.workloads[r.Kind] = mirrorOf[*target](s, r, a.OnlyName(r))
	}
	for i, t := range a.Targets {
		if w.flags == nil {
			w.flags = map[ref]kube.Labels{}
		}
		w.flags[t.ref()] = a.annotations(i)
	}
	w.state, w.sayer = a.stateName(), &sayer{log: s.Log}
	return w.controllers(s), nil
}

// mirrorOf returns a mirror of the object with a name, or, if the name is "", of all objects of the kind.
func mirrorOf[T kube.Object](s controller.Setup, r kube.Resource, name string) *cache.Store[T] {
	of := controller.MirrorOptions{Name: name}
	of.Optional = r == rollouts
	return controller.MirrorOf[T](s, r, of)
}
