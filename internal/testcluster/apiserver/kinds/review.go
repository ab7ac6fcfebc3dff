package kinds

import (
	"skiff/internal/testcluster/apiserver/obj"
)

// User is the user of a request.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// reviews answer the kinds by which kubectl asks about its user.
func reviews() map[string]func(Object, User) (Object, []Cause) {
	return map[string]func(Object, User) (Object, []Cause){
		"SelfSubjectReview": whoAmI, "TokenReview": whoAmI, // of another user: package apiserver
		"LocalSubjectAccessReview": mayThey, "SubjectAccessReview": mayThey,
		"SelfSubjectAccessReview": canI, "SelfSubjectRulesReview": whatCanI,
		"Binding": func(Object, User) (Object, []Cause) { return nil, nil }, // the same
	}
}

func whoAmI(_ Object, u User) (Object, []Cause) {
	return Object{"userInfo": UserInfo(u)}, nil
}

// UserInfo is a user as reviews name it.
func UserInfo(u User) Object {
	out := Object{"username": u.Name, "groups": obj.Anys(u.Groups)}
	if u.UID != "" {
		out["uid"] = u.UID
	}
	if len(u.Extra) > 0 {
		extra := Object{}
		for name, values := range u.Extra {
			extra[name] = obj.Anys(values)
		}
		out["extra"] = extra
	}
	return out
}

// unchecked is the reason in the answers: every user is allowed everything.
const unchecked = "skiff's embedded API server checks no roles"

func canI(o Object, _ User) (Object, []Cause) {
	return Object{"allowed": true, "reason": unchecked}, accessRules(o, "must be empty")
}

// mayThey is canI about another user.
func mayThey(o Object, _ User) (Object, []Cause) {
	namespace, empty := obj.String(o, "metadata", "namespace"), "must be empty"
	if namespace != "" {
		empty += " except for namespace"
	}
	causes := accessRules(o, empty)
	if obj.String(o, "spec", "user") == "" && len(obj.Slice(o, "spec", "groups")) == 0 {
		causes = append(causes, obj.Invalid("spec.user", "", "at least one of user or group must be specified"))
	}
	if namespace == "" {
		return Object{"allowed": true, "reason": unchecked}, causes
	}
	if at := obj.Map(o, "spec", "resourceAttributes"); at != nil && obj.String(at, "namespace") != namespace {
		causes = append(causes, obj.Invalid("spec.resourceAttributes.namespace", obj.String(at, "namespace"),
			"must match metadata.namespace"))
	}
	if at := obj.Map(o, "spec", "nonResourceAttributes"); at != nil {
		causes = append(causes, obj.Invalid("spec.nonResourceAttributes", at, "disallowed on this kind of request"))
	}
	return Object{"allowed": true, "reason": unchecked}, causes
}

// accessRules are those of the question in a review of access. empty is what its metadata must be.
func accessRules(o Object, empty string) (causes []Cause) {
	resource, other := obj.Map(o, "spec", "resourceAttributes"), obj.Map(o, "spec", "nonResourceAttributes")
	switch {
	case resource != nil && other != nil:
		causes = append(causes, obj.Invalid("spec.nonResourceAttributes", other,
			"cannot be specified in combination with resourceAttributes"))
	case resource == nil && other == nil:
		causes = append(causes, obj.Invalid("spec.resourceAttributes", nil,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	for _, selector := range []string{"fieldSelector", "labelSelector"} {
		raw := obj.String(resource, selector, "rawSelector")
		if raw != "" && len(obj.Slice(resource, selector, "requirements")) > 0 {
			causes = append(causes, obj.Invalid("spec.resourceAttributes."+selector+".rawSelector", raw,
				"may not specified at the same time as requirements"))
		}
	}
	if meta := obj.Map(o, "metadata"); len(meta) > 1 || len(meta) == 1 && meta["namespace"] == nil {
		causes = append(causes, obj.Invalid("metadata", meta, empty))
	}
	return causes
}

func whatCanI(Object, User) (Object, []Cause) {
	all := []any{"*"}
	return Object{"incomplete": false,
		"resourceRules":    []any{Object{"verbs": all, "apiGroups": all, "resources": all}},
		"nonResourceRules": []any{Object{"verbs": all, "nonResourceURLs": all}}}, nil
}
