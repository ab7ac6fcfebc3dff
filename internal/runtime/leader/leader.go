// Package leader elects one of several processes with a Lease (coordination.k8s.io/v1), as client-go's leader election
// does and together with it.
//
// Its job: to get the lease, to keep it, to run a function while it is held, and to release it when that function has
// ended. Losing the lease ends the function's context, not the process: the Elector contends again.
// Not its job: what the leader does, and what a standby does meanwhile (package manager), Events and metrics.
//
// A lease is no fence: the server does not know who leads. What keeps two leaders from writing at once is time. A
// leader stops RenewDeadline after it sent its last successful renewal; no other process takes over before
// LeaseDuration has passed since they saw that renewal arrive, which is later. Both are measured with each process's
// own monotonic clock, so the clocks of the machines need not agree; only their speed must, to within a third with the
// default durations. A process that was stopped (SIGSTOP, a paused VM) may wake up long after that: ask Held before
// each write. A write that the process had handed to the network before it was stopped can still arrive late; it must
// carry a precondition (resourceVersion, uid) or be one that does no harm twice.
//
// Run blocks its caller, on whose goroutine all requests are made, and owns one goroutine, for the function. It is not
// on the way of an event.
package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// The default durations are those of the Kubernetes components. With them a leader that dies is replaced after 15 s.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

const (
	// jitter is by how much a wait may be longer than it says, as a fraction, so that many candidates do not ask at
	// once. client-go adds up to 1.2 times the period; less lets a standby take over sooner.
	jitter = 0.2
	// takeoverSpread is the longest that a candidate lets pass after a release before it asks for the lease.
	takeoverSpread = 400 * time.Millisecond
	// releaseTimeout bounds the release at shutdown. Without it the standby waits for the lease to expire.
	releaseTimeout = 2 * time.Second
	// releasePause is between two tries of it: ten of them, also on a server that answers each with a conflict.
	releasePause = 200 * time.Millisecond
	// lateTolerance is how long after the lease has expired Check still waits for the led work to end.
	lateTolerance = 20 * time.Second
	// maxLeaseDuration bounds how long a lease that another client has written is respected without a renewal.
	maxLeaseDuration = 24 * time.Hour
	// watchIdle ends a watch of the lease that brings nothing. A holder with the default durations renews 15
	// times in it; for a lease that is renewed less often, a read and a new watch each half minute cost little.
	watchIdle = 30 * time.Second
)

// Rights are what an Elector needs in the namespace of its lease. Without watch it asks every few seconds instead.
var Rights = []kube.Right{{Resource: leases, Verbs: []string{"get", "watch", "create", "patch"},
	Why: "leader election, in skiff's own namespace"}}

// Options configure an Elector.
type Options struct {
	// Client has its own connections: a renewal must not wait behind the writes of the leader.
	Client          *kube.Client
	Namespace, Name string             // of the lease
	Identity        string             // "": the host name and a random part, so that no two processes have the same
	LeaseDuration   time.Duration      // how long a leader is respected after its last renewal; whole seconds; 0: 15 s
	RenewDeadline   time.Duration      // how long after its last renewal a leader works on; 0: 10 s
	RetryPeriod     time.Duration      // how often a leader renews; 0: 2 s
	Advice          func(error) string // what to do about an error, for the log; nil: it says enough
	Log             logr.Logger
}

// problem is an error for the log, with the next step.
func (e *Elector) problem(err error, more ...any) []any {
	if e.o.Advice != nil {
		if advice := e.o.Advice(err); advice != "" {
			more = append(more, "advice", advice)
		}
	}
	return kube.Warn(append([]any{"problem", err.Error()}, more...)...)
}

// Elector contends for one lease.
type Elector struct {
	o   Options
	log logr.Logger

	mu      sync.Mutex              // guards the rest
	last    record                  // the lease when it was seen last
	seen    time.Time               // when last was seen to change, by the local clock; zero: never seen
	version string                  // the lease's resourceVersion; "": there was none
	uid     string                  // the lease's
	sent    time.Time               // when the last successful renewal was sent
	leading bool                    // led work runs
	lose    context.CancelCauseFunc // ends a leadership; nil while this process does not lead
	gaveUp  bool                    // GiveUp has ended this leadership
	lost    time.Time               // see Standing
	renewed time.Time               // see Standing
	slow    uint64                  // renewals that had to read the lease first
	panics  uint64
}

// New checks the options and returns an Elector. It sends nothing.
func New(o Options) (*Elector, error) {
	if o.LeaseDuration == 0 {
		o.LeaseDuration = DefaultLeaseDuration
	}
	if o.RenewDeadline == 0 {
		o.RenewDeadline = DefaultRenewDeadline
	}
	if o.RetryPeriod == 0 {
		o.RetryPeriod = DefaultRetryPeriod
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("make an identity for leader election: %w", err)
		}
		o.Identity = strings.ToLower(host) + "_" + strings.ToLower(rand.Text())
	}
	return &Elector{o: o, log: o.Log.WithValues("lease", o.Namespace+"/"+o.Name, "identity", o.Identity)}, nil
}

// Check refuses durations with which two processes could lead at once, or none for long.
func (o *Options) Check() error {
	slack := time.Duration(float64(o.RetryPeriod)*(1+jitter)) + o.requestTimeout()
	switch {
	case o.Namespace == "" || o.Name == "":
		return &OptionError{"Name", "", "leader election needs the namespace and the name of a lease"}
	case o.LeaseDuration < time.Second || o.LeaseDuration%time.Second != 0:
		return wrong("LeaseDuration", o.LeaseDuration, "want whole seconds, at least 1s")
	case o.LeaseDuration > maxLeaseDuration:
		return wrong("LeaseDuration", o.LeaseDuration, "want at most %s", maxLeaseDuration)
	case o.RetryPeriod <= 0:
		return wrong("RetryPeriod", o.RetryPeriod, "must be more than 0")
	case o.RenewDeadline <= time.Duration(float64(o.RetryPeriod)*(1+jitter)):
		return wrong("RenewDeadline", o.RenewDeadline, "must be more than %g times the retry period of %s",
			1+jitter, o.RetryPeriod)
	case o.LeaseDuration <= o.RenewDeadline+slack:
		return wrong("LeaseDuration", o.LeaseDuration, "must be more than %s (the renew deadline of %s and %s "+
			"for a retry and its request): otherwise two processes could lead at once",
			o.RenewDeadline+slack, o.RenewDeadline, slack)
	}
	return nil
}

// OptionError is an option with which an Elector does not work.
type OptionError struct{ Option, Value, Problem string }

func (e *OptionError) Error() string {
	return strings.TrimSpace(e.Option+" "+e.Value) + ": " + e.Problem
}

func wrong(option string, value time.Duration, problem string, args ...any) error {
	return &OptionError{option, value.String(), fmt.Sprintf(problem, args...)}
}

// requestTimeout bounds one request: a renewal that hangs must leave time for another.
func (o *Options) requestTimeout() time.Duration { return min(o.RetryPeriod, o.RenewDeadline/2) }

// Name returns the name of the lease.
func (e *Elector) Name() string { return e.o.Name }

// Identity returns by which name the process is the holder.
func (e *Elector) Identity() string { return e.o.Identity }

// Lease returns what an Event about the lease has to name.
func (e *Elector) Lease() (kube.Resource, *kube.Meta) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return leases, &kube.Meta{Namespace: e.o.Namespace, Name: e.o.Name, UID: e.uid, ResourceVersion: e.version}
}

// SlowRenewals returns how many renewals had to read the lease first, because it had been changed.
func (e *Elector) SlowRenewals() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.slow
}

// Run contends for the lease until ctx ends. Each time it gets it, it calls lead, at most once at a time. leaseCtx
// ends when the lease is lost: what is under way then has to be cut short. When ctx ends, lead takes up nothing new,
// finishes what is under way and returns; until then the lease is renewed, and after that released.
//
// lead may also return earlier; Run then releases the lease and returns. The error says that the lease was not
// released, so that the next leader has to wait until it expires.
//
// A panic, also one of lead, ends a leadership as the loss of the lease does.
func (e *Elector) Run(ctx context.Context, lead func(ctx, leaseCtx context.Context)) error {
	for {
		var acquired bool
		lost := e.contained("acquire the lease", func() error { acquired = e.acquire(ctx); return nil })
		switch {
		case lost != nil:
			pause(ctx, spread(e.o.RetryPeriod))
			continue
		case !acquired:
			return nil
		}
		if lost = e.hold(ctx, lead); lost == nil {
			return e.release(ctx)
		}
		e.log.Info("stopped leading", kube.Warn("reason", lost.Error())...)
		panicked := errors.As(lost, new(*process.Panic))
		if panicked || errors.Is(lost, errNotWanted) {
			if err := e.release(ctx); err != nil {
				e.log.Info("cannot release the lease", kube.Warn("problem", err.Error())...)
			}
		}
		if panicked || errors.Is(lost, errGivenUp) {
			pause(ctx, spread(e.o.LeaseDuration)) // the same may happen at once again: others lead first
		}
	}
}

// Panics returns how many panics were contained.
func (e *Elector) Panics() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.panics
}

// Leading says whether led work runs.
func (e *Elector) Leading() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading
}

// Held returns nil while the lease is held for certain. It looks at the clock, so that it is right at once in a
// process that was stopped for a while.
func (e *Elector) Held() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leading {
		return errors.New("this process does not lead")
	}
	if e.gaveUp {
		return errGivenUp
	}
	if age := time.Since(e.sent); age >= e.o.RenewDeadline {
		return fmt.Errorf("this process does not lead any more: it renewed the lease %s ago", age.Round(time.Second))
	}
	return nil
}

// GiveUp ends a leadership whose work does not get on: its context ends, Held fails from now on, and the lease is left
// to expire, because what still runs may not be waited for. This process contends again once that has ended.
func (e *Elector) GiveUp(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lose != nil {
		e.gaveUp = true
		e.lose(fmt.Errorf("%w: %w", errGivenUp, why))
	}
}

// Check fails when led work has not ended although the lease expired long ago: only a restart helps then.
func (e *Elector) Check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	age := time.Since(e.sent)
	if !e.leading || age <= e.o.LeaseDuration+lateTolerance {
		return nil
	}
	return fmt.Errorf("lease %s/%s was renewed %s ago, and the work of the leader has not ended",
		e.o.Namespace, e.o.Name, age.Round(time.Second))
}
