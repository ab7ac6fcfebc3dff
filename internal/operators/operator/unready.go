package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
)

var pods = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}

const (
	// quiet is how long there is no progress before the pods are read: an image on the node starts within seconds.
	quiet = 30 * time.Second
	// longestLook bounds the time between two reads of pods that do not become ready, which grows with the time
	// without progress: of a thousand custom resources whose image is missing, three are read in a second, and not
	// thirty.
	longestLook = 5 * time.Minute
	// enough pods are read of a custom resource: the fault of the newest pod is the fault of all.
	enough = 100
	// maxPod is the size up to which a pod is read: enough pods are 6 MiB, whatever their annotations and messages.
	maxPod = 64 << 10
)

// unready knows why the pods of custom resources are not ready after a long wait.
type unready struct {
	client *kube.Client
	looks  keyed.Map[look]
}

// look is the result of a read of the pods of a custom resource.
type look struct {
	since, at time.Time // of the last progress; of the read
	found     health.Problem
}

// due returns when the pods are to be read again.
func (l look) due() time.Time {
	return l.at.Add(min(max(l.at.Sub(l.since), quiet), longestLook))
}

// of returns why the pods of a custom resource are not ready, the zero value where nothing can be said, and the time
// until the next look at the pods; 0: there is none. waits is Definition.Waits.
func (u *unready) of(ctx context.Context, key kube.Key,
	waits func(now time.Time) (selector string, since time.Time)) (health.Problem, time.Duration) {
	now := time.Now()
	selector, since := waits(now)
	if selector == "" {
		u.looks.Forget(key)
		return health.Problem{}, 0
	}
	if wait := since.Add(quiet).Sub(now); wait > 0 {
		return health.Problem{}, wait
	}
	last := u.looks.Get(key)
	if last.since.Equal(since) && now.Before(last.due()) {
		return last.found, last.due().Sub(now)
	}
	found, err := u.read(ctx, key.Namespace, selector, now)
	if err != nil { // the condition has the counts, as before
		logr.FromContextOrDiscard(ctx).V(1).Info("why pods are not ready is not known", "error", err.Error())
	}
	last = look{since: since, at: now, found: found}
	u.looks.Set(key, last)
	return found, last.due().Sub(now)
}

// errEnough ends a list.
var errEnough = errors.New("enough pods were read")

// read says why the pods of a selector are not ready.
func (u *unready) read(ctx context.Context, namespace, selector string, now time.Time) (health.Problem, error) {
	list, _, err := u.list(ctx, namespace, selector)
	if err != nil {
		return health.Problem{}, err
	}
	return unreadyOf(list, now), nil
}

// list reads the pods of a selector, at most enough; more: there may be more pods.
func (u *unready) list(ctx context.Context, namespace, selector string) (list []*mountingPod, more bool, err error) {
	read := 0
	q := kube.Query{Resource: pods, Namespace: namespace, LabelSelector: selector}
	_, err = kube.List[*mountingPod](ctx, u.client, q,
		kube.ListOptions{Limit: enough, MaxObject: maxPod, Each: func(obj kube.Object, _ kube.Part,
			bad *kube.DecodeError) error {
			if p, ok := obj.(*mountingPod); ok && bad == nil {
				list = append(list, p)
			}
			if read++; read == enough { // also pods that are too large
				return errEnough
			}
			return nil
		}})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, err
	}
	return list, err != nil, nil
}

// PodsWith returns a function that reads the pods of a namespace with some labels, a bounded number, for people.
func PodsWith(c *kube.Client) func(ctx context.Context, namespace, selector string) (controller.Pods, error) {
	u := unready{client: c.Limit([]kube.Right{{Resource: pods, Verbs: []string{"list"}}})}
	return func(ctx context.Context, namespace, selector string) (controller.Pods, error) {
		return u.shown(ctx, namespace, selector, time.Now())
	}
}

// shown reads the pods of a selector, for people.
func (u *unready) shown(ctx context.Context, namespace, selector string, now time.Time) (controller.Pods, error) {
	list, more, err := u.list(ctx, namespace, selector)
	out := controller.Pods{More: more}
	for _, p := range list {
		one := controller.Pod{Name: p.Name, Deleting: p.Deleting(), Created: p.CreationTimestamp}
		for _, owner := range p.OwnerReferences {
			if owner.Controller {
				one.Of = owner.Kind + " " + owner.Name
			}
		}
		if _, one.Ready = p.pod().Ready(); !one.Ready && !one.Deleting {
			one.Reason, one.Message = p.fault(now)
		}
		out.List = append(out.List, one)
	}
	return out, err
}

// unreadyOf returns why pods are not ready: the reason of the newest pod, a text that counts the pods with the same
// reason, and the words of the scheduler or the kubelet. A pod that has only been slow may have no fault.
func unreadyOf(pods []*mountingPod, now time.Time) health.Problem {
	type fault struct{ reason, message string }
	var newest *mountingPod
	var what fault
	alike := map[fault]int{}
	for _, p := range pods {
		if _, ready := p.pod().Ready(); ready || p.Deleting() {
			continue
		}
		reason, message := p.fault(now)
		if reason == "" {
			continue
		}
		alike[fault{reason, message}]++
		if newest == nil || p.CreationTimestamp.After(newest.CreationTimestamp) {
			newest, what = p, fault{reason, message}
		}
	}
	if newest == nil {
		return health.Problem{}
	}
	p := health.Problem{Reason: what.reason, Quoted: what.message}
	if what.reason == podNotReady {
		p.Severity = health.Passing
	}
	who := "pod " + newest.Name
	if n := alike[what]; n > 1 {
		who = fmt.Sprintf("%d pods", n)
	}
	if p.Public = who + ": " + what.reason; what.reason == unschedulable {
		p.Public = who + " cannot be scheduled"
	}
	return p
}

// unschedulable is the scheduler's reason in the condition PodScheduled.
const unschedulable = "Unschedulable"
