package spec

import (
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Revisions are the ControllerRevisions of this group, which rolling updates store.
var Revisions = kube.Resource{Group: Group, Version: Version, Plural: "controllerrevisions",
	Kind: "ControllerRevision"}

// Rights are the rights of c in each namespace where c works. A customize hook names its objects when called: see
// [RelatedRights].
func Rights(c *Controller) []kube.Right {
	var out []kube.Right
	add := func(t Type, subresource, why string, verbs ...string) {
		out = append(out, kube.Right{Resource: kube.Resource{Group: t.Group(), Plural: t.Resource},
			Subresource: subresource, Verbs: verbs, Why: why})
	}
	for _, p := range c.Parents {
		add(p.Type, "", "the parents of "+c.Name, "get", "list", "watch")
		if c.IsComposite() { // also without a finalize hook: an earlier version of the controller may have had one
			add(p.Type, "", "the finalizer of "+c.Name, "patch")
		} else {
			add(p.Type, "", "labels, annotations and the finalizer that "+c.Name+" sets", "patch")
		}
		add(p.Type, "status", "the status that "+c.Name+" decides", "patch")
		if len(c.Children) > 0 {
			add(p.Type, "finalizers", "owner references, where OwnerReferencesPermissionEnforcement is on", "update")
		}
	}
	for _, child := range c.Children {
		add(child.Type, "", "the children of "+c.Name, "get", "list", "watch", "create", "patch", "delete")
	}
	if c.Rolls() {
		out = append(out, kube.Right{Resource: Revisions, Why: "the revisions of rolling updates",
			Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}})
	}
	return append(out, events.Rights...)
}

// RelatedRights are the rights to see the objects of a customize hook.
func RelatedRights(r kube.Resource) kube.Right {
	return kube.Right{Resource: r, Verbs: []string{"get", "list", "watch"}, Why: "related objects of customize hooks"}
}

// Rolls says whether children of c are changed one at a time, by the revisions of their parents.
func (c *Controller) Rolls() bool {
	for _, child := range c.Children {
		if child.Method.Rolling() {
			return true
		}
	}
	return false
}

// References are the keys of Secrets and ConfigMaps that the endpoints of c are reached with, each once.
func (c *Controller) References() (out []Reference) {
	seen := map[Reference]bool{}
	add := func(r Reference) {
		if !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	for _, h := range c.Hooks() {
		if h.Webhook == nil {
			continue
		}
		a := h.Webhook.Access
		for _, r := range []*Reference{a.CA, a.Bearer} {
			if r != nil {
				add(*r)
			}
		}
		for _, p := range []*Pair{a.ClientTLS, a.Basic} {
			if p != nil {
				add(Reference{Namespace: p.Namespace, Name: p.Name, Key: p.First})
				add(Reference{Namespace: p.Namespace, Name: p.Name, Key: p.Second})
			}
		}
	}
	return out
}
