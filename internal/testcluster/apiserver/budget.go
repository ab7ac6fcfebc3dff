package apiserver

import (
	"context"
	"mime"
	"sync"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
)

const (
	// smallBody is the length of a body that takes little memory even at its worst: such requests do not wait.
	smallBody = 32 << 10
	// perByte is what a byte of a body takes at most: small objects in JSON take 60 bytes, and the tree of YAML 100.
	perByte = 100
	// bodyMemory is what all bodies may take at a time, estimated.
	bodyMemory = obj.MaxMemory
)

// budget bounds the memory of what requests have decoded. The zero value is ready.
type budget struct {
	mu      sync.Mutex // guards what follows
	used    int
	changed chan struct{} // closed by the next release, nil if nothing waits
}

// claim waits until there is memory for n bytes.
func (b *budget) claim(ctx context.Context, n int) error {
	for {
		b.mu.Lock()
		if b.used+n <= bodyMemory {
			b.used += n
			b.mu.Unlock()
			return nil
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// release gives back what was claimed.
func (b *budget) release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= n; b.changed != nil && n > 0 {
		close(b.changed)
		b.changed = nil
	}
}

// readBody reads the body, and waits until there is memory for what it says, which the request has until its end.
func (r *request) readBody() ([]byte, error) {
	body, err := httpd.ReadBody(r.Request)
	if err != nil || len(body) <= smallBody {
		return body, err
	}
	takes := min(perByte*len(body), bodyMemory)
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType == "application/json" || mediaType == string(kube.MergePatch) || mediaType == string(kube.JSONPatch) {
		if n, err := patch.Measure(body, obj.MaxMemory, obj.MaxDepth); err == nil {
			takes = min(len(body)+n, bodyMemory)
		}
	}
	if err := r.bodies.claim(r.Context(), takes); err != nil {
		return nil, httpd.TimedOut()
	}
	r.claimed += takes
	return body, nil
}
