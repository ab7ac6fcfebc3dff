package kube

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// writesKey is the key of a context's Writes.
type writesKey struct{}

// CountedWrite is a request for a change.
type CountedWrite struct {
	Verb string // "create", "patch", "patch status", "delete"
	What string // "deployments.apps default/web"
	Code int    // of the answer; 0: there was none
	Sent time.Time
	Took time.Duration // until the header of the answer
	// DryRun marks a dry run. A create that tries a template and gets a 409 is fine except for the name, which belongs
	// to the object to be replaced.
	DryRun bool
}

// Writes are those of a context.
type Writes struct {
	sent atomic.Int64
	most int // limit of kept writes

	mu   sync.Mutex // guards kept
	kept []CountedWrite
}

// CountWrites returns a context that counts the writes sent with the context, or with a derived context, and keeps the
// first keep writes.
func CountWrites(ctx context.Context, keep int) (context.Context, *Writes) {
	w := &Writes{most: keep}
	return context.WithValue(ctx, writesKey{}, w), w
}

// WritesOf returns the Writes of the context of CountWrites that ctx is derived from; nil: writes are not counted.
func WritesOf(ctx context.Context) *Writes {
	w, _ := ctx.Value(writesKey{}).(*Writes)
	return w
}

// Sent returns the number of writes; 0 where they are not counted.
func (w *Writes) Sent() int {
	if w == nil {
		return 0
	}
	return int(w.sent.Load())
}

// Kept returns the first finished writes.
func (w *Writes) Kept() []CountedWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.kept)
}

// count counts a write about to be sent.
func (w *Writes) count() {
	if w != nil {
		w.sent.Add(1)
	}
}

// answered keeps a write with its time of sending and its end.
func (w *Writes) answered(r *request, sent time.Time, resp *http.Response, err error) {
	if w == nil || w.most == 0 {
		return
	}
	write := CountedWrite{Verb: strings.TrimSuffix(r.verb+" "+r.subresource, " "), What: r.what, Sent: sent,
		Took: time.Since(sent), DryRun: r.query.Get("dryRun") == dryRunAll}
	if resp != nil {
		write.Code = resp.StatusCode
	} else if s := AsStatus(err); s != nil {
		write.Code = s.Code
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept) < w.most {
		w.kept = append(w.kept, write)
	}
}
