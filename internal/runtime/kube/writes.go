package kube

import (
	"context"
	"sync/atomic"
)

// writesKey is where a context has the count of its writes.
type writesKey struct{}

// CountWrites returns a context that counts the writes which are sent with it, or with contexts derived from it.
func CountWrites(ctx context.Context) (context.Context, *atomic.Int64) {
	n := new(atomic.Int64)
	return context.WithValue(ctx, writesKey{}, n), n
}

// countWrite counts one write where somebody wants to know.
func countWrite(ctx context.Context) {
	if n, ok := ctx.Value(writesKey{}).(*atomic.Int64); ok {
		n.Add(1)
	}
}
