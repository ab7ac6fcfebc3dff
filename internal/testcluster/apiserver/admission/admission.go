// Package admission decides whether a write to the embedded API server is admitted, and changes it on the way: it
// describes writes (Attributes) and calls admission webhooks, as a v1.36 kube-apiserver does. It calls the webhooks
// of conversion, too. It knows nothing of the server: objects are JSON values, and what it has to look up is in the
// Attributes.
//
// It keeps no lock while it calls a webhook. Its goroutines are those of one call of the validating webhooks, which
// waits for them, and those of net/http, whose idle connections Close ends.
package admission

import (
	"context"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/kinds"
)

// The operations of a write, as rules name them.
const (
	Create = "CREATE"
	Update = "UPDATE"
	Delete = "DELETE"
)

// Attributes are what is known of a write when it is admitted.
type Attributes struct {
	Operation   string        // Create, Update or Delete
	Kind        kube.Resource // the group, version and kind of Object: for some subresources that of a Scale, say
	Resource    kube.Resource // the group, version and plural of the request
	Subresource string
	Namespace   string // of a Namespace: its own name
	Name        string // "" while a name is to be generated
	User        kinds.User
	DryRun      bool
	Options     map[string]any // CreateOptions, UpdateOptions, PatchOptions or DeleteOptions

	// Object is what is written, OldObject what is stored: nil where there is none. Both have apiVersion and kind.
	// A plugin may replace Object while it mutates, but changes neither of them in place.
	Object, OldObject map[string]any
	// NamespaceObject is the namespace of a namespaced object; nil if there is none.
	NamespaceObject map[string]any

	// Equivalents are the resources under which the same object is served, besides Resource itself.
	Equivalents []kube.Resource
	// Convert returns an object in the form of one of them, or back in that of Kind.
	Convert func(ctx context.Context, o map[string]any, to kube.Resource) (map[string]any, error)
	// Complete makes an object complete after a change: it drops unknown fields and sets defaults. The error is about
	// a field of the wrong type.
	Complete func(o map[string]any) (map[string]any, error)
	// Allowed says whether a user may do something, and why.
	Allowed func(u kinds.User, a auth.Action) (ok bool, why string)
	// Warn adds a warning to the answer. It can be called by several goroutines.
	Warn func(text string)
}

// Plugin is a part of the chain that admits writes. An error of Mutate and Validate is the answer to the request: a
// *kube.Status, or a 500.
type Plugin struct {
	// Concerns reports whether the plugin may have a say in a write of this operation and resource, of whose other
	// attributes only the kind, the subresource and the equivalents are known yet. It is called with the store locked.
	Concerns func(a *Attributes) bool
	// Mutate may replace a.Object. Plugins mutate one after the other, before the object is validated. nil: this one
	// does not.
	Mutate func(ctx context.Context, a *Attributes) error
	// Validate sees the object as it would be stored. nil: this one admits everything.
	Validate func(ctx context.Context, a *Attributes) error
}

// Chain is the plugins that admit a write, in their order.
type Chain []Plugin

// Concerning returns the plugins that may have a say in a write.
func (c Chain) Concerning(a *Attributes) (out Chain) {
	for _, p := range c {
		if p.Concerns(a) {
			out = append(out, p)
		}
	}
	return out
}

// Mutate has the plugins change the object of a write, one after the other.
func (c Chain) Mutate(ctx context.Context, a *Attributes) error {
	for _, p := range c {
		if p.Mutate == nil {
			continue
		}
		if err := p.Mutate(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// Validate asks the plugins whether a write is admitted, until one refuses it.
func (c Chain) Validate(ctx context.Context, a *Attributes) error {
	for _, p := range c {
		if p.Validate == nil {
			continue
		}
		if err := p.Validate(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// Admit has the plugins change what is not written in steps of its own, and then validate it.
func (c Chain) Admit(ctx context.Context, a *Attributes) error {
	if err := c.Mutate(ctx, a); err != nil {
		return err
	}
	return c.Validate(ctx, a)
}
