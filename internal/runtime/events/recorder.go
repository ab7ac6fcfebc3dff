// Package events reports what a controller did, as Kubernetes Events (events.k8s.io/v1, KEP-383) that
// `kubectl describe` and `kubectl events` show.
//
// Recording never blocks or fails a reconcile: Record puts the event into a bounded queue and returns; what
// does not fit is dropped and counted. Sending is the job of one goroutine, which the caller of Run owns.
// Events with the same note become one Event with a series, so that a loop that says the same thing a thousand times
// costs two requests; different ones about one object are limited in number. It is not on the path of a watch event:
// operators call it in Reconcile, and it reads nothing back.
package events

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// Type is the type of an Event; the API has no others.
type Type string

// The types of Events.
const (
	Normal  Type = "Normal"
	Warning Type = "Warning"
)

const (
	// queueSize is how many events may wait while the server is slow. client-go has the same number; at a
	// few hundred bytes each it is a quarter of a megabyte.
	queueSize = 1000
	// flushTimeout is how long a shutdown waits for what is still queued: Events are optional, and the process has
	// a grace period to keep.
	flushTimeout = 3 * time.Second
	// pause is between a panic of the sender, other than in a request, and its next try.
	pause = time.Second
)

// Object is what an event is about.
type Object struct {
	APIVersion      string
	Kind            string
	Namespace       string // "" for a cluster-scoped object: its events go to the namespace default
	Name            string
	UID             string
	ResourceVersion string
}

// ObjectOf names obj, an object of resource r.
func ObjectOf(r kube.Resource, obj kube.Object) Object {
	m := obj.ObjectMeta()
	return Object{APIVersion: r.APIVersion(), Kind: r.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion}
}

// Event is one thing that happened.
type Event struct {
	Regarding Object
	Related   Object // a second object that it is about, for example the pod that was created; may be empty
	Type      Type
	Reason    string // why, in CamelCase for machines: "CreatePod"
	Action    string // what was done or tried, in CamelCase: "Reconcile"
	Note      string // text for users, cut at 1 KiB; it must not hold secrets
}

// Options configure a Recorder.
type Options struct {
	Client     *kube.Client
	Controller string // reportingController, a qualified name: "skiff.dev/redis"
	Instance   string // reportingInstance; "": the host's name, which in a pod is the pod's
	Log        logr.Logger
}

// Recorder takes events from any goroutine and sends them from one.
type Recorder struct {
	client     *kube.Client
	controller string
	instance   string
	log        logr.Logger
	queue      chan *queued // pointers: its buffer is there from the start
	dropped    atomic.Uint64
	panics     atomic.Uint64
}

// queued is an event and when it happened.
type queued struct {
	Event
	at time.Time
}

// New returns a recorder. Until Run is called, events wait in its queue.
func New(o Options) *Recorder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // the field is required; who asks for it has the pod's name in the log as well
	}
	return &Recorder{
		client:     o.Client.Limit(Rights),
		controller: o.Controller,
		instance:   cut(cmp.Or(o.Instance, host), maxField),
		log:        o.Log,
		queue:      make(chan *queued, queueSize),
	}
}

// Record queues an event and returns at once. An event that finds the queue full is dropped. A nil Recorder drops
// all.
func (r *Recorder) Record(e Event) {
	if r == nil {
		return
	}
	select {
	case r.queue <- &queued{e, time.Now()}:
	default:
		r.dropped.Add(1)
	}
}

// Panics returns how often sending has panicked.
func (r *Recorder) Panics() uint64 { return r.panics.Load() }

// Dropped returns how many events were not sent: the queue was full, an object had too many, or the server
// refused them.
func (r *Recorder) Dropped() uint64 { return r.dropped.Load() }

// Run sends events until ctx ends, and then for at most three more seconds what is still queued. It always returns
// nil: no event is worth a failure. A panic is logged and counted. In a request it costs the event, or the count, that
// was being sent; elsewhere, which is a bug, all series begin anew.
func (r *Recorder) Run(ctx context.Context) error {
	for !newSender(r).send(ctx) {
		select {
		case <-ctx.Done(): // once more, to flush
		case <-time.After(pause):
		}
	}
	return nil
}

// contain returns the error of f, or a panic as an error, which is counted and logged.
func (r *Recorder) contain(f func() error) error {
	err := process.Contain("send events", f)
	if p := new(process.Panic); errors.As(err, &p) {
		r.panics.Add(1)
		r.log.Error(err, "sending events panicked", "stack", string(p.Stack))
	}
	return err
}
