package kinds

import (
	"skiff/internal/fakeapi/cause"
	"skiff/internal/fakeapi/obj"
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
		"SelfSubjectReview": whoAmI, "TokenReview": whoAmI, // of another user: package fakeapi
		"LocalSubjectAccessReview": mayThey, "SubjectAccessReview": mayThey,
		"SelfSubjectAccessReview": canI, "SelfSubjectRulesReview": whatCanI,
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
	if (obj.Map(o, "spec", "resourceAttributes") == nil) == (obj.Map(o, "spec", "nonResourceAttributes") == nil) {
		return nil, []Cause{cause.Invalid("spec.resourceAttributes", nil,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return Object{"allowed": true, "reason": unchecked}, nil
}

// mayThey is canI about another user.
func mayThey(o Object, u User) (Object, []Cause) {
	if obj.String(o, "spec", "user") == "" && len(obj.Slice(o, "spec", "groups")) == 0 {
		return nil, []Cause{cause.Invalid("spec.user", obj.Get(o, "spec", "user"),
			"at least one of user or group must be specified")}
	}
	return canI(o, u)
}

func whatCanI(Object, User) (Object, []Cause) {
	all := []any{"*"}
	return Object{"incomplete": false,
		"resourceRules":    []any{Object{"verbs": all, "apiGroups": all, "resources": all}},
		"nonResourceRules": []any{Object{"verbs": all, "nonResourceURLs": all}}}, nil
}
