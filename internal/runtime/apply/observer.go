package apply

import "context"

// Observer is told what came of the children of an owner, and what was declared of them; nothing was where it is being
// deleted.
type Observer func(owner Owner, want []Child, r Report)

// observerKey is where a context has its Observer.
type observerKey struct{}

// Observe returns a context whose calls of engines are told to o.
func Observe(ctx context.Context, o Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// Tell tells the Observer of a context, if there is one, what came of the children of an owner.
func Tell(ctx context.Context, owner Owner, want []Child, r Report) {
	if o, ok := ctx.Value(observerKey{}).(Observer); ok {
		o(owner, want, r)
	}
}
