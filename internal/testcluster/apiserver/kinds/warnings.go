package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// A warner returns warnings about an object that is written; cur is nil for a new one.
type warner func(next, cur Object) []string

// warn adds the warnings of a function, about the part at a path if there is one behind its name, or that of a
// condition, a colon and a text.
func (k *Kind) warn(text string) {
	before := k.Warn
	var own warner
	if name, at, _ := strings.Cut(text, " "); strings.HasPrefix(name, "@") {
		made := warners()[name[1:]]
		if made == nil {
			mistake("no warnings %q", name)
		}
		own = made(at)
	} else {
		condition, message, _ := strings.Cut(text, ": ")
		when := parseCondition(strings.Fields(condition))
		own = func(next, cur Object) []string {
			if when.holds(scope{root: next, stored: cur, o: next, old: cur}) {
				return []string{message}
			}
			return nil
		}
	}
	if k.Warn = own; before != nil {
		k.Warn = func(next, cur Object) []string { return append(before(next, cur), own(next, cur)...) }
	}
}

// warners are the functions of the attribute warn.
var warners = sync.OnceValue(func() map[string]func(at string) warner {
	return map[string]func(at string) warner{
		"keyPair": func(string) warner { return func(next, _ Object) []string { return keyPairWarnings(next) } },
		"pod":     func(string) warner { return newPodWarnings },
		"pods":    namesPods, "template": templateWarnings,
		"volume": func(string) warner {
			return func(next, _ Object) []string { return driverWarnings("spec", next) }
		},
		"formats": func(string) warner { return formatWarnings },
		"claimSize": func(at string) warner {
			path := strings.Split(at, ".")
			return func(next, _ Object) []string {
				return fractions(at+".resources", obj.Map(next, append(path, "resources")...), "storage")
			}
		},
	}
})

// namesPods warns of names that are no labels, where those of pods begin with them.
func namesPods(string) warner {
	return func(next, cur Object) []string {
		return nameWarning(next, cur, "Pod names and hostnames")
	}
}

func nameWarning(next, cur Object, of string) []string {
	why := obj.Label(obj.String(next, "metadata", "name"))
	if why == "" || cur != nil {
		return nil
	}
	return []string{"metadata.name: this is used in " + of + ", which can result in surprising behavior; a DNS " +
		"label is recommended: [" + why + "]"}
}

// newPodWarnings are those about a pod: a real server says nothing when it is changed.
func newPodWarnings(next, cur Object) []string {
	if cur != nil {
		return nil
	}
	return append(nameWarning(next, cur, "the Pod's hostname"), podWarnings("", next)...)
}

// templateWarnings are those about the pods of a template, when its object is made, or changed.
func templateWarnings(at string) warner {
	path := strings.Split(at, ".")
	return func(next, cur Object) []string {
		if cur != nil && patch.Equal(obj.Get(next, "metadata", "generation"), obj.Get(cur, "metadata", "generation")) {
			return nil
		}
		if t := obj.Map(next, path...); t != nil {
			return podWarnings(at+".", t)
		}
		return nil
	}
}

// podWarnings are those about a pod or a template at a place.
func podWarnings(at string, pod Object) (out []string) {
	spec := obj.Map(pod, "spec")
	at += "spec"
	out = append(out, nodeLabelWarnings(at, spec)...)
	for i, t := range obj.Maps(spec, "topologySpreadConstraints") {
		where := fmt.Sprintf("%s.topologySpreadConstraints[%d].", at, i)
		if key := obj.String(t, "topologyKey"); deprecatedLabels[key] != "" {
			out = append(out, where+"topologyKey: "+key+" is "+deprecatedLabels[key])
		}
		out = append(out, nullSelector(where, t)...)
	}
	for i, v := range obj.Maps(spec, "volumes") {
		where := fmt.Sprintf("%s.volumes[%d]", at, i)
		out = append(out, driverWarnings(where, Object{"spec": v})...)
		size := obj.Map(v, "ephemeral", "volumeClaimTemplate", "spec", "resources")
		out = append(out, fractions(where+".ephemeral.volumeClaimTemplate.spec.resources", size, "storage")...)
	}
	for _, v := range obj.Maps(spec, "volumes") {
		for _, source := range obj.Maps(v, "projected", "sources") {
			if len(source) == 0 {
				out = append(out, fmt.Sprintf("volume %q (Projected) has no sources provided", obj.String(v, "name")))
			}
		}
	}
	out = append(out, sameTwice(at+".hostAliases", "ip", obj.Maps(spec, "hostAliases"))...)
	secrets := obj.Maps(spec, "imagePullSecrets")
	out = append(out, sameTwice(at+".imagePullSecrets", "name", secrets)...)
	for i, s := range secrets {
		if obj.String(s, "name") == "" {
			out = append(out, fmt.Sprintf(`%s.imagePullSecrets[%d].name: invalid empty name ""`, at, i))
		}
	}
	out = append(out, containerWarnings(at, spec)...)
	if obj.Number(spec, "terminationGracePeriodSeconds") < 0 {
		out = append(out, at+".terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "+
			"treated as 1")
	}
	return append(out, affinityWarnings(at, spec)...)
}

// sameTwice warns of the second item with the same value.
func sameTwice(at, field string, items []Object) (out []string) {
	seen := map[string]bool{}
	for i, item := range items {
		value := obj.String(item, field)
		if seen[value] {
			out = append(out, fmt.Sprintf("%s[%d].%s: duplicate %s %q", at, i, field, field, value))
		}
		seen[value] = true
	}
	return out
}

// deprecatedLabels are labels of nodes that have other names now.
var deprecatedLabels = map[string]string{
	"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type": `deprecated since v1.17; ` +
		`use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  "deprecated since v1.9",
	"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

func nodeLabelWarnings(at string, spec Object) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(obj.Map(spec, "nodeSelector"))) {
		if why := deprecatedLabels[key]; why != "" {
			out = append(out, at+".nodeSelector["+key+"]: "+why)
		}
	}
	terms := func(where string, term Object) {
		for i, e := range obj.Maps(term, "matchExpressions") {
			key := obj.String(e, "key")
			if why := deprecatedLabels[key]; why != "" {
				out = append(out, fmt.Sprintf("%s.matchExpressions[%d].key: %s is %s", where, i, key, why))
			}
		}
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution",
		"preferredDuringSchedulingIgnoredDuringExecution"
	affinity := obj.Map(spec, "affinity", "nodeAffinity")
	for i, t := range obj.Maps(affinity, required, "nodeSelectorTerms") {
		terms(fmt.Sprintf("%s.affinity.nodeAffinity.%s.nodeSelectorTerms[%d]", at, required, i), t)
	}
	for i, t := range obj.Maps(affinity, preferred) {
		terms(fmt.Sprintf("%s.affinity.nodeAffinity.%s[%d].preference", at, preferred, i), obj.Map(t, "preference"))
	}
	return out
}

func nullSelector(where string, term Object) []string {
	if term["labelSelector"] != nil {
		return nil
	}
	return []string{where + "labelSelector: a null labelSelector results in matching no pod"}
}

func affinityWarnings(at string, spec Object) (out []string) {
	for _, kind := range []string{"podAffinity", "podAntiAffinity"} {
		const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution",
			"preferredDuringSchedulingIgnoredDuringExecution"
		of := obj.Map(spec, "affinity", kind)
		for i, t := range obj.Maps(of, required) {
			out = append(out, nullSelector(fmt.Sprintf("%s.affinity.%s.%s[%d].", at, kind, required, i), t)...)
		}
		for i, t := range obj.Maps(of, preferred) {
			where := fmt.Sprintf("%s.affinity.%s.%s[%d].podAffinityTerm.", at, kind, preferred, i)
			out = append(out, nullSelector(where, obj.Map(t, "podAffinityTerm"))...)
		}
	}
	return out
}

// driverWarnings returns the warnings about a volume whose driver is gone, in the order and the words of a real
// server. The fields of the volume, of a pod or a PersistentVolume, are in the field spec of o.
func driverWarnings(at string, o Object) (out []string) {
	const gone = "deprecated in v%s, non-functional in v%s+"
	for _, d := range [][3]string{{"photonPersistentDisk", "1.11", "1.16"}, {"gitRepo", "1.11", ""},
		{"scaleIO", "1.16", "1.22"}, {"flocker", "1.22", "1.25"}, {"storageos", "1.22", "1.25"},
		{"quobyte", "1.22", "1.25"}, {"glusterfs", "1.25", "1.26"}, {"cephfs", "1.28", "1.31"},
		{"rbd", "1.28", "1.31"}} {
		volume := at == "spec" // of which the real server says nothing of two drivers
		if obj.Get(o, "spec", d[0]) == nil || volume && (d[0] == "flocker" || d[0] == "quobyte") {
			continue
		}
		name, text := strings.Replace(d[0], "storageos", "storageOS", 1), fmt.Sprintf(gone, d[1], d[2])
		if d[2] == "" {
			text = "deprecated in v1.11, and disabled by default in v1.33+"
		}
		out = append(out, at+"."+name+": "+text)
	}
	return out
}
