package check

import (
	"context"
	"slices"

	"skiff/internal/runtime/kube"
)

var namespaceResource = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// namespace is what is read of a namespace: only its name.
type namespace struct {
	kube.Meta `json:"metadata"`
}

// Selection is what a namespace selector selects.
type Selection struct {
	Selector   string   `json:"selector"`
	Allowed    bool     `json:"allowed"`    // this user may list and watch namespaces
	Namespaces []string `json:"namespaces"` // that are selected now, sorted
}

// selected finds out which namespaces o.Selector selects, and adds it to the report. Where this user may not list
// namespaces, the right to do so is among those that are missing.
func (r *Report) selected(ctx context.Context, o Options, s subject) ([]string, error) {
	r.Selection = &Selection{Selector: o.Selector, Namespaces: []string{}}
	before := r.OK
	r.OK = true
	scope := Scope{For: "the namespace selector"}
	if err := r.rights(ctx, o.Client, s, scope, o.SelectRights); err != nil {
		return nil, err
	}
	r.Selection.Allowed, r.OK = r.OK, r.OK && before
	if !r.Selection.Allowed {
		return nil, nil
	}
	list, err := kube.List[*namespace](ctx, o.Client,
		kube.Query{Resource: namespaceResource, LabelSelector: o.Selector}, kube.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, ns := range list.Items {
		r.Selection.Namespaces = append(r.Selection.Namespaces, ns.Name)
	}
	slices.Sort(r.Selection.Namespaces)
	r.OK = r.OK && len(list.Items) > 0
	return r.Selection.Namespaces, nil
}

// scopes checks the rights of the controllers, in each namespace in which they are to work.
func (r *Report) scopes(ctx context.Context, o Options, s subject) error {
	namespaces := o.Namespaces
	if o.Selector != "" {
		var err error
		if namespaces, err = r.selected(ctx, o, s); err != nil || len(namespaces) == 0 {
			return err
		}
		// A ClusterRole is enough for all of them, as many as there are.
		all := Report{OK: true}
		if err := all.rights(ctx, o.Client, s, Scope{For: "the controllers"}, o.Rights); err != nil {
			return err
		}
		if all.OK {
			r.Scopes = append(r.Scopes, all.Scopes...)
			return nil
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, ns := range namespaces {
		if err := r.rights(ctx, o.Client, s, Scope{Namespace: ns, For: "the controllers"}, o.Rights); err != nil {
			return err
		}
	}
	return nil
}
