package reload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
)

// The annotations by which a workload opts in.
const (
	// AutoAnnotation with the value "auto" means all references of the pod template: env, envFrom and volumes,
	// imagePullSecrets not, of which no container sees anything.
	AutoAnnotation = "skiff.dev/reload"
	// ConfigMapsAnnotation and SecretsAnnotation name sources, separated by commas: "a,b:key" is all of a and the key
	// of b.
	ConfigMapsAnnotation = "skiff.dev/reload-configmaps"
	SecretsAnnotation    = "skiff.dev/reload-secrets"
	// AfterAnnotation names the workloads to be restarted first where the change concerns both:
	// "deployment/db-proxy,statefulset/db".
	AfterAnnotation = "skiff.dev/reload-after"
	// CooldownAnnotation is the least time between two restarts, as "5m".
	CooldownAnnotation = "skiff.dev/reload-cooldown"
)

const (
	DefaultCooldown = time.Minute // about the length of a rollout of a few pods, as of a RestartTrigger
	maxCooldown     = 24 * time.Hour

	// maxSources bounds the work of a look at a workload, and the size of the state: 200 sources are 10 KiB, and 106
	// KB with the longest names and keys, of the 256 KiB that all annotations of an object may have.
	maxSources = 200
	// maxAfter bounds the search for a circle.
	maxAfter = 16
)

// entry is a thing whose change restarts a workload: a ConfigMap or Secret, or a key of either.
type entry struct {
	kind     string // "configmap" or "secret"
	name     string
	key      string // "": all keys
	optional bool   // the pods start without the source
	named    bool   // by an annotation of skiff, or a flag
}

// source identifies the ConfigMap or Secret: "configmap/a".
func (e entry) source() string { return e.kind + "/" + e.name }

// String identifies the entry in the state: "configmap/a", "secret/b:key".
func (e entry) String() string {
	if e.key == "" {
		return e.source()
	}
	return e.source() + ":" + e.key
}

// ref names a workload in the same namespace.
type ref struct{ kind, name string }

// String returns the workload in kubectl's form: "deployment/web".
func (r ref) String() string { return strings.ToLower(r.kind) + "/" + r.name }

// wants holds the annotations of a workload as read.
type wants struct {
	entries  []entry // in order, each once; beside a source as a whole, its keys are left out
	after    []ref
	cooldown time.Duration
	faults   []fault       // all else counts
	inPlace  bool          // a Rollout is restarted by restartAt
	state    string        // the name of the annotation with the state
	theirs   *theirs       // nil: nothing in Reloader's annotations counts
	period   time.Duration // from the first change to the restart, in place of the debounce; 0: none
	rival    *kube.Key     // a running Reloader's Deployment, where only Reloader's annotations count; nil: none
}

// fault is a mistake in an annotation.
type fault struct{ annotation, text string }

// optsIn says whether annotations of a workload have any of skiff about sources.
func optsIn(annotations kube.Labels) bool {
	for _, name := range []string{AutoAnnotation, ConfigMapsAnnotation, SecretsAnnotation} {
		if _, ok := annotations.Get(name); ok {
			return true
		}
	}
	return false
}

// wants reads annotations of skiff, the workload's own or those made of flags. A mistake costs the wrong part alone.
func (w *target) wants(annotations kube.Labels) (out wants) {
	switch auto, ok := annotations.Get(AutoAnnotation); {
	case auto == "auto":
		out.entries = w.Spec.Template.Spec.refers()
	case ok:
		out.fault(AutoAnnotation, "%.100q is not auto", auto)
	}
	out.named(annotations, ConfigMapsAnnotation, "configmap")
	out.named(annotations, SecretsAnnotation, "secret")
	out.entries = merged(out.require(w.Spec.Template.Spec.refers()))
	out.bound(AutoAnnotation)
	out.order(annotations)
	out.cooldown, out.state = DefaultCooldown, StateAnnotation
	if text, ok := annotations.Get(CooldownAnnotation); ok {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxCooldown {
			out.fault(CooldownAnnotation, "%.100q is not a duration of at most %s, such as 30s or 5m", text,
				maxCooldown)
		} else {
			out.cooldown = d
		}
	}
	return out
}

// require returns the entries, of which those are not optional without whose sources the pods do not start.
func (o *wants) require(refers []entry) []entry {
	needed := map[string]bool{}
	for _, e := range refers {
		if !e.optional {
			needed[e.source()] = true
		}
	}
	for i := range o.entries {
		e := &o.entries[i]
		e.optional = e.optional && !needed[e.source()]
	}
	return o.entries
}

// bound drops the sources beyond maxSources.
func (o *wants) bound(annotation string) {
	if n := len(o.entries); n > maxSources {
		o.fault(annotation, "%d sources are too many; only the first %d count", n, maxSources)
		o.entries = o.entries[:maxSources]
	}
}

func (o *wants) fault(annotation, format string, args ...any) {
	o.faults = append(o.faults, fault{annotation, fmt.Sprintf(format, args...)})
}

// named adds the sources listed in an annotation.
func (o *wants) named(annotations kube.Labels, annotation, kind string) {
	text, _ := annotations.Get(annotation)
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		name, key, keyed := strings.Cut(one, ":")
		switch {
		case !kube.ValidName(name):
			o.fault(annotation, "%.100q is not the name of a %s", name, kind)
		case keyed && !sources.ValidKey(key):
			o.fault(annotation, "%.100q has no key of %s behind the colon", one, name)
		default:
			o.entries = append(o.entries, entry{kind: kind, name: name, key: key, optional: true, named: true})
		}
	}
}

// order reads AfterAnnotation.
func (o *wants) order(annotations kube.Labels) {
	text, _ := annotations.Get(AfterAnnotation)
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		r, err := parseRef(one)
		switch {
		case len(o.after) == maxAfter:
			o.fault(AfterAnnotation, "only the first %d workloads count", maxAfter)
			return
		case err != nil:
			o.fault(AfterAnnotation, "%s", err)
		default:
			o.after = append(o.after, r)
		}
	}
}

// parseRef reads a workload in kubectl's form: the kind in any case, in the plural or by its short name.
func parseRef(given string) (ref, error) {
	word, name, _ := strings.Cut(given, "/")
	kind := kindNames[strings.ToLower(word)]
	switch {
	case kind == "":
		return ref{}, fmt.Errorf("%.100q is none of deployment/NAME, statefulset/NAME, daemonset/NAME, rollout/NAME%s",
			given, meant(word, name))
	case !kube.ValidName(name):
		return ref{}, fmt.Errorf("%.100q is not the name of a %s", name, word)
	}
	return ref{kind, name}, nil
}

// kindNames are the kinds of workloads by their names in kubectl.
var kindNames = map[string]string{
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
	"statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
	"rollout": "Rollout", "rollouts": "Rollout", "ro": "Rollout",
}

// meant asks for the kind most like a mistyped kind.
func meant(word, name string) string {
	question := nearest.Ask(word, []string{"deployment", "statefulset", "daemonset", "rollout"}, "", "/"+name)
	if question != "" {
		return "; " + question
	}
	return ""
}

// refers returns the references of containers to ConfigMaps and Secrets.
func (s *podSpec) refers() (out []entry) {
	add := func(kind, name, key string, optional bool) {
		if name != "" {
			out = append(out, entry{kind: kind, name: name, key: key, optional: optional})
		}
	}
	addItems := func(kind, name string, items []item, optional bool) {
		for _, i := range items {
			add(kind, name, i.Key, optional)
		}
		if len(items) == 0 {
			add(kind, name, "", optional)
		}
	}
	for _, list := range [][]container{s.InitContainers, s.Containers} {
		for _, c := range list {
			for _, e := range c.Env {
				add("configmap", e.From.ConfigMap.Name, e.From.ConfigMap.Key, e.From.ConfigMap.Optional)
				add("secret", e.From.Secret.Name, e.From.Secret.Key, e.From.Secret.Optional)
			}
			for _, e := range c.EnvFrom {
				add("configmap", e.ConfigMap.Name, "", e.ConfigMap.Optional)
				add("secret", e.Secret.Name, "", e.Secret.Optional)
			}
		}
	}
	for _, v := range s.Volumes {
		if !s.mounts(v.Name) {
			continue
		}
		addItems("configmap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
		addItems("secret", v.Secret.Name, v.Secret.Items, v.Secret.Optional)
		for _, p := range v.Projected.Sources {
			addItems("configmap", p.ConfigMap.Name, p.ConfigMap.Items, p.ConfigMap.Optional)
			addItems("secret", p.Secret.Name, p.Secret.Items, p.Secret.Optional)
		}
	}
	return out
}

// mounts says whether a container sees a volume.
func (s *podSpec) mounts(volume string) bool {
	mounted := func(c container) bool {
		return slices.Contains(c.Mounts, mount{volume})
	}
	return slices.ContainsFunc(s.Containers, mounted) || slices.ContainsFunc(s.InitContainers, mounted)
}

// merged returns entries in order, each once: a source as a whole stands for the keys as well, and an entry is
// optional only where all references are.
func merged(all []entry) (out []entry) {
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
	})
	for _, e := range all {
		if n := len(out); n > 0 {
			last := &out[n-1]
			same := last.source() == e.source()
			if same && (last.key == e.key || last.key == "") {
				last.optional, last.named = last.optional && e.optional, last.named || e.named
				continue
			}
		}
		out = append(out, e)
	}
	return out
}
