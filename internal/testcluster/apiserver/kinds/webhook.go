package kinds

import (
	"fmt"
	"net/url"
	"skiff/internal/testcluster/apiserver/obj"
	"slices"
	"strings"
)

// hookResources validates the resources of a rule, in which wildcards stand beside nothing that they include.
func hookResources(s scope) {
	list, at := obj.Slice(s.o, "resources"), s.at+".resources"
	ofResource, ofSub, plain := map[string]bool{}, map[string]bool{}, false
	for i, item := range list {
		text, _ := item.(string)
		at := fmt.Sprintf("%s[%d]", at, i)
		if text == "" {
			s.add(obj.Required(at, ""))
			continue
		}
		resource, sub, divided := strings.Cut(text, "/")
		if !divided {
			plain = text != "*"
			continue
		}
		if ofResource[resource] {
			s.invalid(at, text, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, text))
		}
		if ofSub[sub] {
			s.invalid(at, text, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, text))
		}
		ofResource[resource], ofSub[sub] = ofResource[resource] || sub == "*", ofSub[sub] || resource == "*"
	}
	if len(list) > 1 && slices.Contains(list, any("*/*")) {
		s.invalid(at, list, "if '*/*' is present, must not specify other resources")
	}
	if plain && slices.Contains(list, any("*")) {
		s.invalid(at, list, "if '*' is present, must not specify other resources without subresources")
	}
}

// servicePath checks the path of a Service that a webhook calls.
func servicePath(s scope) {
	path, at := obj.String(s.o, "path"), s.at+".path"
	switch {
	case path == "" || path == "/":
		return
	case path == "//":
		s.invalid(at, path, "segment[0] may not be empty")
		return
	case path[0] != '/':
		s.invalid(at, path, "must start with a '/'")
	}
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		switch why := obj.Subdomain(step); {
		case step == "":
			s.invalid(at, path, fmt.Sprintf("segment[%d] may not be empty", i))
		case why != "":
			s.invalid(at, path, fmt.Sprintf("segment[%d]: %s", i, why))
		}
	}
}

// hookURL checks the URL of a webhook.
func hookURL(s scope) {
	address, isURL := s.o["url"].(string)
	if !isURL {
		return
	}
	at := s.at + ".url"
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(address)
	if err != nil {
		s.add(obj.Required(at, "url must be a valid URL: "+err.Error()+form))
		return
	}
	refuse := func(broken bool, value, text string) {
		if broken {
			s.invalid(at, value, text)
		}
	}
	refuse(u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme"+form)
	refuse(u.Host == "", u.Host, "host must be specified"+form)
	refuse(u.User != nil, u.User.String(), "user information is not permitted in the URL")
	refuse(u.Fragment != "", u.Fragment, "fragments are not permitted in the URL")
	refuse(u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL")
}

// reviewVersions validates the versions of reviews that a webhook takes, the list in a field.
func reviewVersions(s scope, field string) {
	versions, at := obj.Slice(s.o, field), s.at+"."+field
	seen := map[any]bool{}
	for i, v := range versions {
		at, text := fmt.Sprintf("%s[%d]", at, i), fmt.Sprint(v)
		if seen[v] {
			s.invalid(at, v, "duplicate version")
		} else if why := obj.Label1035(text); why != "" {
			s.invalid(at, v, why)
		}
		seen[v] = true
	}
	if !seen["v1"] && !seen["v1beta1"] {
		s.invalid(at, versions, "must include at least one of v1, v1beta1")
	}
}
