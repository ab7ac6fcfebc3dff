package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Owner is an object under the care of a controller: the status as written, and the controller's next step.
type Owner struct {
	Kind       string
	Resource   kube.Resource
	Key        kube.Key
	Created    time.Time
	Deleting   bool
	Conditions []conditions.Condition
	Foreign    bool           // another controller writes the conditions
	Problem    health.Problem // see Controller.Report; the zero value: none is known
	Failing    Failing        // the failure of the last run; the zero value: none
	Next       time.Time      // when its next run may start; zero: none is due
}

// conditioned is an object with conditions to show.
type conditioned interface{ Shown() []conditions.Condition }

// Shows are the details of an object of For beside its conditions. The functions read from memory, and may be called
// from any goroutine; nil: no details.
type Shows struct {
	Children func(owner kube.Object) []apply.Shown
	Facts    func(owner kube.Object) []Fact
	Works    func(owner kube.Object) bool // whether the controller does anything for it; nil: for each
	Foreign  bool                         // the status of the objects is written by others
	// Reported says that the controller writes no status, and that the conditions shown are made of what Report was
	// told last.
	Reported bool
	Short    []string // the short names of the resource
	// Example is an object in YAML, as short as possible; "": derived from the resource.
	Example string
	// Pods reads the pods of an object, a bounded number; nil, or ErrNoPods: the object is not shown with pods.
	Pods func(ctx context.Context, owner kube.Object) (Pods, error)
}

// ErrNoPods says that an object has nothing that makes pods.
var ErrNoPods = errors.New("no pods are known of the object")

// Pods are the pods of an object, at the time of the read.
type Pods struct {
	List []Pod
	More bool // there are others, which were not read
	// Withheld says that skiff has no right to read pods, and needs none to work: no pods are shown.
	Withheld bool
}

// Pod is how a pod is.
type Pod struct {
	Name     string
	Of       string // the owner: "ReplicaSet web-6d8f"; "": none
	Ready    bool
	Deleting bool
	Created  time.Time
	Reason   string // it is not ready; "": nothing is known yet
	Message  string // the words of the kubelet or the scheduler
}

// Fact is a detail of an object beside its conditions.
type Fact struct {
	Name, Value string
	At          time.Time // zero: it is about no time
}

// maxReported bounds the Problems kept of one namespace: ten times as many as a page shows in all.
const maxReported = 1000

// reports are the Problems of objects.
type reports struct {
	mu sync.Mutex                           // guards of
	of map[string]map[string]health.Problem // by namespace and name

	quoted bool // also the words of others are kept, which no condition has; do not change after Run has begun
}

func (r *reports) set(k kube.Key, p *health.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.of[k.Namespace]
	if p == nil {
		if delete(in, k.Name); len(in) == 0 {
			delete(r.of, k.Namespace)
		}
		return
	}
	if _, known := in[k.Name]; !known && len(in) == maxReported {
		return
	}
	if r.of == nil {
		r.of = map[string]map[string]health.Problem{}
	}
	if in == nil {
		in = map[string]health.Problem{}
		r.of[k.Namespace] = in
	}
	kept := p.Hidden()
	if r.quoted {
		kept = p.Printable()
	}
	if before := in[k.Name]; before.Reason == kept.Reason {
		kept.Since = before.Since
	} else if kept.Since.IsZero() {
		kept.Since = time.Now()
	}
	in[k.Name] = kept
}

func (r *reports) get(k kube.Key) health.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[k.Namespace][k.Name]
}

// reasons returns how many objects have a Problem, by the reason.
func (r *reports) reasons() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, in := range r.of {
		for _, p := range in {
			n[p.Reason]++
		}
	}
	return n
}

// Forget drops the Problem of one object.
func (r *reports) Forget(k kube.Key) { r.set(k, nil) }

// Leave drops the Problems of a namespace.
func (r *reports) Leave(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, namespace)
}
