// Package podsecurity holds pods to the Pod Security Standards that the labels of their namespace name, with the texts
// of kube-apiserver's admission plugin PodSecurity.
//
// Its job is the rules alone: pure functions on decoded JSON, which run on the caller's goroutine. Which writes are
// checked, and what an answer looks like, is package apiserver's. It is written anew beside package runtime/podpolicy,
// which skiff checks templates with: a rule that one of them reads wrongly then shows as a difference.
package podsecurity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// Levels, from the one that allows everything.
var levels = []string{"privileged", "baseline", "restricted"}

const (
	privileged = iota
	baseline
	restricted
)

// latest is the version of a policy that is always the newest.
const latest = 1 << 30

// Standard is a level, and the version of Kubernetes whose rules it has. PolicyOf makes it.
type Standard struct {
	level   int
	version int // x of 1.x, or latest
}

// String returns the standard as kube-apiserver names it, such as "baseline:latest".
func (s Standard) String() string {
	version := "latest"
	if s.version != latest {
		version = "v1." + strconv.Itoa(s.version)
	}
	return levels[s.level] + ":" + version
}

// Restricts reports whether the standard allows less than everything.
func (s Standard) Restricts() bool { return s.level != privileged }

// Tightens reports whether the standard may refuse pods that the other one allows.
func (s Standard) Tightens(other Standard) bool {
	return s != other && s.Restricts() && (s.version != other.version || s.level > other.level)
}

// Policy is what the labels of a namespace ask for.
type Policy struct{ Enforce, Warn, Audit Standard }

const prefix = "pod-security.kubernetes.io/"

// PolicyOf reads the labels of a namespace, and returns what is wrong with them. A level that is none counts as
// restricted where it is enforced, and as privileged elsewhere.
func PolicyOf(labels map[string]any) (p Policy, causes []kinds.Cause) {
	wrong := func(label, value, why string) {
		causes = append(causes, obj.Invalid("metadata.labels["+label+"]", value, why))
	}
	read := func(mode string, otherwise int) (s Standard, valid bool) {
		s.version = latest
		if value, ok := labels[prefix+mode].(string); ok {
			if s.level = slices.Index(levels, value); s.level < 0 {
				s.level = otherwise
				wrong(prefix+mode, value, "must be one of "+strings.Join(levels, ", "))
			} else {
				valid = true
			}
		}
		if value, ok := labels[prefix+mode+"-version"].(string); ok {
			if s.version, ok = versionOf(value); !ok {
				wrong(prefix+mode+"-version", value, `must be "latest" or "v1.x"`)
			}
		}
		return s, valid
	}
	var valid bool
	p.Enforce, valid = read("enforce", restricted)
	p.Audit, _ = read("audit", privileged)
	p.Warn, _ = read("warn", privileged)
	if labels[prefix+"warn"] == nil && valid {
		if p.Warn.level = p.Enforce.level; labels[prefix+"warn-version"] == nil && p.Enforce.Restricts() {
			p.Warn.version = p.Enforce.version
		}
	}
	return p, causes
}

// versionOf reads a version such as v1.36.
func versionOf(text string) (minor int, ok bool) {
	digits, ok := strings.CutPrefix(text, "v1.")
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case text == "latest":
		return latest, true
	case !ok || err != nil || digits != strconv.FormatUint(n, 10):
		return latest, false
	}
	return int(n), true
}

// Violations are what a standard does not allow of a pod.
type Violations []violation

type violation struct{ reason, detail string }

// Details are the violations as they are told about one pod.
func (v Violations) Details() string {
	return strings.Join(obj.Each(v, func(one violation) string {
		if one.detail == "" {
			return one.reason
		}
		return one.reason + " (" + one.detail + ")"
	}), ", ")
}

// reasons are the violations as they are told about many pods.
func (v Violations) reasons() string {
	return strings.Join(obj.Each(v, func(one violation) string { return one.reason }), ", ")
}

// Check returns what a standard does not allow of a pod, or of the template of one, on a server of version 1.minor.
func (s Standard) Check(template map[string]any, minor int) (out Violations) {
	if !s.Restricts() {
		return nil
	}
	p := &pod{spec: obj.Map(template, "spec"), annotations: obj.Strings(template, "metadata", "annotations"),
		version: min(s.version, minor)}
	p.userNamespace = obj.Get(p.spec, "hostUsers") == false
	p.windows = obj.String(p.spec, "os", "name") == "windows"
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		p.containers = append(p.containers, obj.Maps(p.spec, list)...)
	}
	replaced := map[string]bool{}
	for _, c := range checks {
		if c.restricted && s.level == restricted && p.version >= c.since {
			replaced[c.replaces] = true
		}
	}
	for _, c := range checks {
		if p.version < c.since || c.restricted && s.level != restricted || replaced[c.name] {
			continue
		}
		if v := c.find(p); v.reason != "" {
			out = append(out, v)
		}
	}
	return out
}

// maxPods is how many pods of a namespace are checked when it gets another standard.
const maxPods = 3000

// Warnings returns what is told about the pods of a namespace when a standard is enforced from now on.
func (s Standard) Warnings(namespace string, pods []map[string]any, minor int) (out []string) {
	all := len(pods)
	pods = eachOwnerFirst(pods)
	pods = pods[:min(len(pods), maxPods)]
	names := map[string][]string{}
	for _, p := range pods {
		if v := s.Check(p, minor); len(v) > 0 {
			names[v.reasons()] = append(names[v.reasons()], obj.String(p, "metadata", "name"))
		}
	}
	if all > len(pods) {
		out = append(out, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d "+
			"existing pods", len(pods), all))
	}
	if len(names) > 0 {
		out = append(out, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q",
			namespace, s))
	}
	var lines []string
	for reasons := range maps.Keys(names) {
		line := slices.Min(names[reasons])
		switch others := len(names[reasons]) - 1; others {
		case 0:
		case 1:
			line += " (and 1 other pod)"
		default:
			line += fmt.Sprintf(" (and %d other pods)", others)
		}
		lines = append(lines, line+": "+reasons)
	}
	slices.Sort(lines)
	return append(out, lines...)
}

// eachOwnerFirst has one pod of each controller before the others of it.
func eachOwnerFirst(pods []map[string]any) []map[string]any {
	var first, others []map[string]any
	seen := map[string]bool{}
	for _, p := range pods {
		owner := ""
		for _, o := range obj.Maps(p, "metadata", "ownerReferences") {
			if o["controller"] == true {
				owner = obj.String(o, "uid")
			}
		}
		if owner != "" && seen[owner] {
			others = append(others, p)
			continue
		}
		seen[owner] = true
		first = append(first, p)
	}
	return append(first, others...)
}

// Significant reports whether a change of a pod is checked: one of an image, or of which containers there are.
func Significant(next, cur map[string]any) bool {
	for _, list := range []string{"containers", "initContainers"} {
		now, was := obj.Maps(next, "spec", list), obj.Maps(cur, "spec", list)
		if len(now) != len(was) {
			return true
		}
		for i := range now {
			if now[i]["image"] != was[i]["image"] {
				return true
			}
		}
	}
	was := map[any]any{}
	for _, c := range obj.Maps(cur, "spec", "ephemeralContainers") {
		was[c["name"]] = c["image"]
	}
	return slices.ContainsFunc(obj.Maps(next, "spec", "ephemeralContainers"), func(c map[string]any) bool {
		image, known := was[c["name"]]
		return !known || image != c["image"]
	})
}
