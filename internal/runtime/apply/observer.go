package apply

import "context"

// Observer is told the results of an owner's children, and their declaration: none if the owner is being deleted.
type Observer func(owner Owner, want []Child, r Report)

// observerKey is the key of a context's Observer.
type observerKey struct{}

// Observe returns a context in which engines report to o.
func Observe(ctx context.Context, o Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// Tell tells the Observer of a context, if any, the results of an owner's children.
func Tell(ctx context.Context, owner Owner, want []Child, r Report) {
	if o, ok := ctx.Value(observerKey{}).(Observer); ok {
		o(owner, want, r)
	}
}
