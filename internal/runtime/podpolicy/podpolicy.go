// Package podpolicy says whether a pod template keeps to the Pod Security Standards of Kubernetes, baseline or
// restricted, as of Kubernetes 1.36.
//
// Its job is the check alone: pure functions on decoded JSON in the form of package patch, and a table of rules
// (rules.go). It does not know who declares the template and what follows from a refusal. A value of a type that a
// pod cannot have is refused, too. The standards say nothing about the service account, the secrets and the node that
// a pod names.
//
// Place on the event path: (*operator.reconciler).converge calls it with the children that an operator declares. It
// runs on the caller's goroutine, keeps no state and starts none.
package podpolicy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Policy is a set of rules for pod templates. Its zero value is Baseline.
type Policy string

// The policies, in order: each allows less than the one before.
const (
	Any        Policy = "any"
	Baseline   Policy = "baseline"
	Restricted Policy = "restricted"
)

// Names are the names of all policies.
var Names = []string{string(Any), string(Baseline), string(Restricted)}

// String returns the name of the policy.
func (p Policy) String() string {
	if p == "" {
		return string(Baseline)
	}
	return string(p)
}

// maxViolations is how many violations are returned: enough to correct a template in one go, and short enough for a
// condition.
const maxViolations = 8

// Check returns what in a pod, or a pod template, the policy does not allow, such as
// "spec.containers[0].securityContext.privileged must be false (container web)". prefix goes before each path. Where
// a container violates a rule several times, only the first is returned.
func (p Policy) Check(prefix string, template map[string]any) []string {
	if p == Any {
		return nil
	}
	c := checker{
		prefix:        prefix,
		restricted:    p == Restricted,
		userNamespace: at(template, "spec", "hostUsers") == false,
		windows:       at(template, "spec", "os", "name") == "windows",
	}
	c.all(podRules, "", template, "")
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		switch v := at(template, "spec", list).(type) {
		case nil:
		case []any:
			for i := range v {
				c.container(template, list, i, v[i])
			}
		default:
			c.found = append(c.found, prefix+"spec."+list+" must be a list")
		}
	}
	return c.found
}

type checker struct {
	prefix        string // of the paths that are reported
	restricted    bool
	userNamespace bool // the pod has a user namespace of its own: root in it is not root on the node
	windows       bool
	found         []string
	paths         []string // of those in found that a rule names
}

// container checks a container. What a container does not say it takes from the pod.
func (c *checker) container(template map[string]any, list string, i int, v any) {
	if len(c.found) >= maxViolations {
		return
	}
	path := "spec." + list + "[" + strconv.Itoa(i) + "]."
	container, ok := v.(map[string]any)
	if !ok {
		c.found = append(c.found, c.prefix+strings.TrimSuffix(path, ".")+" must be an object")
		return
	}
	name, _ := container["name"].(string)
	c.all(containerRules, path, container, name)
	if !c.restricted {
		return
	}
	for _, r := range inherited {
		ofPod := append([]string{"spec"}, r.path...)
		if c.applies(&r) && at(container, r.path...) == nil && at(template, ofPod...) == nil {
			c.report(r, path+strings.Join(r.path, "."), name)
		}
	}
}

// all checks an object by the rules.
func (c *checker) all(rules []rule, path string, object map[string]any, container string) {
	for i := range rules {
		if !c.applies(&rules[i]) {
			continue
		}
		if bad, ok := violation(object, rules[i].path, rules[i].allowed); ok {
			c.report(rules[i], path+bad, container)
		}
	}
}

// applies says whether a rule applies to this pod.
func (c *checker) applies(r *rule) bool {
	return (c.restricted || !r.restricted) && !(r.notInUserNamespace && c.userNamespace) &&
		!(r.notOnWindows && c.windows)
}

// report takes in a violation of a rule.
func (c *checker) report(r rule, path, container string) {
	if len(c.found) >= maxViolations {
		return
	}
	if slices.Contains(c.paths, path) {
		return // baseline's rule has said so
	}
	c.paths = append(c.paths, path)
	text := c.prefix + path + " " + r.must
	if container != "" {
		text += fmt.Sprintf(" (container %.63s)", container)
	}
	c.found = append(c.found, text)
}

// violation returns the path of the first value in v that is not allowed at a path. In the path, "*" means each item
// of a list. A value that is not there is nil. The path is put together only when there is something to report.
func violation(v any, path []string, allowed func(any) bool) (bad string, ok bool) {
	switch {
	case len(path) == 0:
		return "", !allowed(v)
	case v == nil && (slices.Contains(path, "*") || allowed(nil)):
		return "", false
	case v == nil:
		return strings.Join(path, "."), true
	}
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	switch each := path[0] == "*"; {
	case each && isList:
		for i := range list {
			if bad, ok = violation(list[i], path[1:], allowed); ok {
				return join("["+strconv.Itoa(i)+"]", bad), true
			}
		}
		return "", false
	case !each && isObject:
		if bad, ok = violation(object[path[0]], path[1:], allowed); ok {
			return join(path[0], bad), true
		}
		return "", false
	}
	return "", true // of a type that no pod has here
}

// join joins a step and the path that follows it.
func join(step, rest string) string {
	if rest == "" || rest[0] == '[' {
		return step + rest
	}
	return step + "." + rest
}

// at returns the value at a path, nil if there is none.
func at(object map[string]any, path ...string) any {
	v, here := any(object), map[string]any(nil)
	for _, step := range path {
		if here, _ = v.(map[string]any); here == nil {
			return nil
		}
		v = here[step]
	}
	return v
}
