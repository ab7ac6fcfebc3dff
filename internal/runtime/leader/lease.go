package leader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"skiff/internal/runtime/kube"
)

var leases = kube.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"}

// record is the spec of a Lease. Fields that it does not name are kept: a lease is only ever patched.
type record struct {
	Holder      string `json:"holderIdentity"`
	Seconds     int64  `json:"leaseDurationSeconds"`
	Acquired    string `json:"acquireTime"`
	Renewed     string `json:"renewTime"`
	Transitions int64  `json:"leaseTransitions"`
	Preferred   string `json:"preferredHolder"` // coordinated election (KEP-4355): who should lead next
}

type lease struct {
	kube.Meta `json:"metadata"`
	Spec      record `json:"spec"`
}

// microTime is the form of a metav1.MicroTime.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

func now() string { return time.Now().UTC().Format(microTime) }

func (e *Elector) key() kube.Key { return kube.Key{Namespace: e.o.Namespace, Name: e.o.Name} }

// observe takes note of a lease as the server has it. Only a change of the record restarts its time: not the holder's
// clock, and not an annotation that was set.
func (e *Elector) observe(l *lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.seen.IsZero() && l.Spec != e.last {
		e.renewed = time.Now()
	}
	if e.seen.IsZero() || l.Spec != e.last {
		e.seen, e.last = time.Now(), l.Spec
	}
	e.version, e.uid, e.lost = l.ResourceVersion, l.UID, time.Time{}
}

// withTimeout bounds one request, and says so where that is over.
func (e *Elector) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := e.o.requestTimeout()
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
}

// get reads the lease. It is no error that there is none: the version is "" then.
func (e *Elector) get(ctx context.Context) error {
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	var l lease
	err := e.o.Client.Get(ctx, leases, e.key(), &l)
	if kube.IsNotFound(err) {
		e.mu.Lock()
		e.version, e.lost = "", time.Time{}
		e.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	e.observe(&l)
	return nil
}

// expires returns when the lease that was seen last may be taken, by the local clock. A lease that is gone is
// respected like one that is there: its holder may still work.
func (e *Elector) expires() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.last
	free := r.Holder == "" || r.Holder == e.o.Identity
	if e.seen.IsZero() || free && (r.Preferred == "" || r.Preferred == e.o.Identity) {
		return time.Time{}
	}
	if free || r.Seconds <= 0 { // the preferred holder gets the time of one lease to come
		return e.seen.Add(e.o.LeaseDuration)
	}
	return e.seen.Add(time.Duration(min(r.Seconds, int64(maxLeaseDuration/time.Second))) * time.Second)
}

// write makes the Elector the holder, or keeps it so: a create where there is no lease, else a patch with the version
// that was seen last, so that of two candidates only one succeeds. The time of leadership counts from before the
// request was sent.
func (e *Elector) write(ctx context.Context) error {
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	e.mu.Lock()
	old, version := e.last, e.version
	e.mu.Unlock()
	next := record{Holder: e.o.Identity, Seconds: int64(e.o.LeaseDuration / time.Second), Renewed: now(),
		Acquired: old.Acquired, Transitions: old.Transitions}
	if old.Holder != e.o.Identity || old.Acquired == "" { // a server refuses it empty
		next.Acquired = next.Renewed
	}
	if old.Holder != e.o.Identity && (version != "" || old.Holder != "") {
		next.Transitions = min(next.Transitions+1, math.MaxInt32) // it is an int32 there
	}
	var l lease
	var err error
	sent := time.Now()
	if version == "" {
		err = e.o.Client.Create(ctx, leases, e.o.Namespace, map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": e.o.Name, "namespace": e.o.Namespace}, "spec": next.body()},
			&l, kube.WriteOptions{FieldManager: "skiff"})
	} else {
		err = e.patch(ctx, version, next.body(), &l)
	}
	if err != nil {
		return err
	}
	e.observe(&l)
	e.mu.Lock()
	e.sent = sent
	e.mu.Unlock()
	return nil
}

// body is the record as it is sent. The preferred holder is dropped: who leads now has been decided.
func (r record) body() map[string]any {
	return map[string]any{"holderIdentity": r.Holder, "leaseDurationSeconds": r.Seconds, "acquireTime": r.Acquired,
		"renewTime": r.Renewed, "leaseTransitions": r.Transitions, "preferredHolder": nil}
}

func (e *Elector) patch(ctx context.Context, version string, spec map[string]any, into *lease) error {
	return e.o.Client.Patch(ctx, leases, e.key(), kube.MergePatch,
		map[string]any{"metadata": map[string]any{"resourceVersion": version}, "spec": spec}, into,
		kube.WriteOptions{FieldManager: "skiff"})
}

// release gives the lease up, if it is still ours, so that another process need not wait until it expires.
func (e *Elector) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = e.get(ctx); err != nil {
			break
		}
		e.mu.Lock()
		old, version := e.last, e.version
		e.mu.Unlock()
		if version == "" || old.Holder != e.o.Identity {
			return nil
		}
		var l lease
		err = e.patch(ctx, version, map[string]any{"holderIdentity": "", "leaseDurationSeconds": 1,
			"acquireTime": now(), "renewTime": now()}, &l)
		if err == nil {
			e.observe(&l)
			e.log.Info("released the lease")
			return nil
		}
		if !kube.IsConflict(err) {
			break
		}
		pause(ctx, releasePause)
	}
	return fmt.Errorf("release lease %s: %w; the next leader waits until it expires", e.key(),
		errors.Join(err, context.Cause(ctx)))
}
