package kinds

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/patch"
)

// webhookDefaults sets the defaults of a configuration of webhooks.
func webhookDefaults(mutating bool) func(Object) {
	return func(o Object) {
		for _, hook := range obj.Maps(o, "webhooks") {
			obj.Default(hook, "Fail", "failurePolicy")
			obj.Default(hook, "Equivalent", "matchPolicy")
			obj.Default(hook, Object{}, "namespaceSelector")
			obj.Default(hook, Object{}, "objectSelector")
			obj.Default(hook, int64(10), "timeoutSeconds")
			if mutating {
				obj.Default(hook, "Never", "reinvocationPolicy")
			}
			for _, r := range obj.Maps(hook, "rules") {
				obj.Default(r, "*", "scope")
			}
			clientDefaults(obj.Map(hook, "clientConfig"))
		}
	}
}

func clientDefaults(client Object) {
	if service := obj.Map(client, "service"); service != nil {
		obj.Default(service, int64(443), "port")
	}
}

func webhooksChanged(next, cur Object) bool { return !patch.Equal(next["webhooks"], cur["webhooks"]) }

// webhookRules validates a configuration of webhooks, all but their matchConditions.
func webhookRules(next, _ Object) []Cause {
	var out []Cause
	for i, hook := range obj.Maps(next, "webhooks") {
		at := fmt.Sprintf("webhooks[%d]", i)
		out = append(out, runChecks(hook, at, nameChecks)...)
		for j, r := range obj.Maps(hook, "rules") {
			out = append(out, runChecks(r, fmt.Sprintf("%s.rules[%d]", at, j), hookRuleChecks)...)
		}
		out = append(out, runChecks(hook, at, hookChecks)...)
		out = append(out, clientCauses(obj.Map(hook, "clientConfig"), at+".clientConfig")...)
		out = append(out, reviewVersionCauses(obj.Slice(hook, "admissionReviewVersions"),
			at+".admissionReviewVersions")...)
	}
	return append(out, unique("name", "")("webhooks", next["webhooks"])...)
}

var (
	nameChecks = []check{must("name", present(""), valid(func(name string) string {
		if why := selector.Subdomain(name); why != "" || strings.Count(name, ".") > 1 {
			return why
		}
		return "should be a domain with at least three segments separated by dots"
	}))}
	hookRuleChecks = []check{
		must("operations", present(""), alone("operations")),
		must("operations[]", among("*", "CONNECT", "CREATE", "DELETE", "UPDATE")),
		must("apiGroups", present(""), alone("API groups")),
		must("apiVersions", present(""), alone("API versions")), must("apiVersions[]", present("")),
		must("resources", present(""), resourceCauses), must("scope", among("*", "Cluster", "Namespaced")),
	}
	selectorOperators = workloadChecks[3].tests[0]
	hookChecks        = []check{must("failurePolicy", among("Fail", "Ignore")),
		must("matchPolicy", among("Equivalent", "Exact")),
		must("sideEffects", present("must specify one of None, NoneOnDryRun"), among("None", "NoneOnDryRun")),
		must("timeoutSeconds", between(1, 30, "the timeout value must be between 1 and 30 seconds")),
		must("namespaceSelector.matchExpressions[].operator", selectorOperators),
		must("objectSelector.matchExpressions[].operator", selectorOperators),
		must("reinvocationPolicy", among("IfNeeded", "Never"))}
)

// alone refuses a wildcard that is not the only value of its list.
func alone(what string) test {
	return func(at string, v any) []Cause {
		if list, _ := v.([]any); len(list) > 1 && slices.Contains(list, any("*")) {
			return []Cause{Invalid(at, list, "if '*' is present, must not specify other "+what)}
		}
		return nil
	}
}

// resourceCauses validates the resources of a rule, in which wildcards stand beside nothing that they include.
func resourceCauses(at string, v any) []Cause {
	list, _ := v.([]any)
	var out []Cause
	ofResource, ofSub, plain := map[string]bool{}, map[string]bool{}, false
	for i, item := range list {
		text, _ := item.(string)
		at := fmt.Sprintf("%s[%d]", at, i)
		if text == "" {
			out = append(out, Required(at, ""))
			continue
		}
		resource, sub, divided := strings.Cut(text, "/")
		if !divided {
			plain = text != "*"
			continue
		}
		if ofResource[resource] {
			out = append(out, Invalid(at, text, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource,
				text)))
		}
		if ofSub[sub] {
			out = append(out, Invalid(at, text, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, text)))
		}
		ofResource[resource], ofSub[sub] = ofResource[resource] || sub == "*", ofSub[sub] || resource == "*"
	}
	if len(list) > 1 && slices.Contains(list, any("*/*")) {
		out = append(out, Invalid(at, list, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(list, any("*")) {
		out = append(out, Invalid(at, list, "if '*' is present, must not specify other resources without "+
			"subresources"))
	}
	return out
}

// clientCauses validates a clientConfig: a URL or a Service.
func clientCauses(client Object, at string) []Cause {
	address, isURL := client["url"].(string)
	service := obj.Map(client, "service")
	if isURL == (service != nil) {
		return []Cause{Required(at, "exactly one of url or service is required")}
	}
	if isURL {
		return urlCauses(address, at+".url")
	}
	out := runChecks(service, at+".service", []check{must("name", present("")), must("namespace", present("")),
		must("port", between(1, 1<<16-1, "port is not valid: "+portRange))})
	path := obj.String(service, "path")
	at += ".service.path"
	switch {
	case path == "" || path == "/":
		return out
	case path == "//":
		return append(out, Invalid(at, path, "segment[0] may not be empty"))
	case path[0] != '/':
		out = append(out, Invalid(at, path, "must start with a '/'"))
	}
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		switch why := selector.Subdomain(step); {
		case step == "":
			out = append(out, Invalid(at, path, fmt.Sprintf("segment[%d] may not be empty", i)))
		case why != "":
			out = append(out, Invalid(at, path, fmt.Sprintf("segment[%d]: %s", i, why)))
		}
	}
	return out
}

func urlCauses(address, at string) []Cause {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(address)
	if err != nil {
		return []Cause{Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	var out []Cause
	if u.Scheme != "https" {
		out = append(out, Invalid(at, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		out = append(out, Invalid(at, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		out = append(out, Invalid(at, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		out = append(out, Invalid(at, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		out = append(out, Invalid(at, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return out
}

// reviewVersionCauses validates the versions of reviews that a webhook takes.
func reviewVersionCauses(versions []any, at string) []Cause {
	const known = "v1, v1beta1"
	if len(versions) == 0 {
		return []Cause{Required(at, "must specify one of "+known)}
	}
	var out []Cause
	seen := map[any]bool{}
	for i, v := range versions {
		at, text := fmt.Sprintf("%s[%d]", at, i), fmt.Sprint(v)
		if seen[v] {
			out = append(out, Invalid(at, v, "duplicate version"))
		} else if why := selector.Label1035(text); why != "" {
			out = append(out, Invalid(at, v, why))
		}
		seen[v] = true
	}
	if !seen["v1"] && !seen["v1beta1"] {
		out = append(out, Invalid(at, versions, "must include at least one of "+known))
	}
	return out
}
