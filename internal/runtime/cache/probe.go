package cache

import (
	"context"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// minProbe is the least time between two probes of a scope. A watch in steady state is opened anew every 5
	// to 10 minutes, so that is how often one is sent; a watch that keeps breaking adds one request a minute.
	minProbe = time.Minute
	// probeTimeout bounds a probe. It reads one object, and the watch waits for it.
	probeTimeout = 10 * time.Second
)

// probe asks the server, before a watch is opened, whether our resource version is one that it has reached.
// After an etcd restore it is not: the counter went back. Such a server accepts a watch from our version,
// which is then the future, and stays silent until the counter has passed it (kubernetes issue 107457), while
// the mirror shows objects that no longer exist and misses all new ones. No error ever comes of it, so it must
// be asked for: a list of one object, of the state of now, whose list version is lower than ours.
//
// A restore breaks all watches, so asking when one is opened is soon enough, and a steady state in which
// nothing is sent but watches stays one. (What cannot be found out this way: that a counter went back and has
// passed our version again before we asked.)
func (r *Reflector[T]) probe(ctx context.Context, s state[T]) (next state[T], rewound bool, err error) {
	if time.Since(s.probed) < minProbe {
		return s, false, nil
	}
	rv, err := r.presentVersion(ctx)
	if err != nil && offline(err) {
		return s, false, err // no answer: still unknown
	}
	s.probed = time.Now()
	if err != nil { // not allowed, or busy: a watch is worth trying all the same
		r.log.V(1).Info("cannot probe the server's resource version", "reason", err.Error())
		return s, false, err
	}
	if !older(rv, s.rv) {
		return s, false, nil
	}
	s.unset = true // the list decides: see install
	return s, true, nil
}

// presentVersion returns the resource version of the collection now. It is asked for in the mirror's own namespace, so
// that it needs no right that the list does not need.
func (r *Reflector[T]) presentVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	body, err := r.store.o.Client.ListOne(ctx, r.query)
	if err != nil {
		return "", err
	}
	var list struct {
		kube.Meta `json:"metadata"`
	}
	if err := kube.Unmarshal(body, &list); err != nil {
		r.log.V(1).Info("probe was not answered with a list", "reason", err.Error()) // which proves nothing
		return "", nil
	}
	return list.ResourceVersion, nil
}

// outdated drops an event from before the resume point. That is a replay, or the first sign of a history that
// was rewound: the server is asked which.
func (r *Reflector[T]) outdated(ctx context.Context, s state[T]) state[T] {
	r.store.count(r.scope, func(n *Counters) { n.Outdated++ })
	s, rewound, err := r.probe(ctx, s)
	if err != nil {
		s.probed = time.Now() // the stream works; ask again later
	}
	if !rewound {
		return s
	}
	r.store.count(r.scope, func(n *Counters) { n.Reconnects["rewound"]++ })
	return r.relist(closeStream(s), "rewound")
}
