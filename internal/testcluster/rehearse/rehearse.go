// Package rehearse runs controllers on the copy of a cluster, with the rest of the cluster simulated around it, and
// says what they wrote and what came of it: what an upgrade of skiff would do, before it does.
//
// First the simulation runs alone: a copy that is at rest stays as it is. Then the controllers run, until neither they
// nor the simulation have anything to do. Nothing here is a connection to the cluster that was copied: the server is
// in this process, and is reached through a pipe.
//
// Run works on its caller's goroutine, and returns when all that it started has ended. It is on no event path.
package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cli"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
	"skiff/internal/testcluster/state"
)

// Options of a rehearsal.
type Options struct {
	State *state.State
	// Start makes the controllers: see cli.Choice.
	Start func(*kube.Client, logr.Logger) (all func() (cs []*controller.Controller, more bool),
		run func(context.Context) error)
	Rights  []kube.Right   // of the controllers
	CEL     *apiserver.CEL // nil: what needs CEL is refused
	Timeout time.Duration
	ByOwner bool // without times, the writes of each owner together: two runs compare with diff
	Log     logr.Logger

	Progress io.Writer // gets a line now and then about what is done, and what is waited for; nil: none
}

const (
	// soon is how short a wait has to be for a rehearsal to wait, too.
	soon = 5 * time.Second
	// rest is how long nothing must be written before the cluster counts as quiet.
	rest = time.Second
	// settled is how long nothing must be written before a run that only repeats itself counts as nothing: every wait
	// that is short has had its turn by then.
	settled = soon + rest
	// tell is how often the progress is told.
	tell = 5 * time.Second
	// look is how often that is looked at: often enough not to be seen.
	look = 20 * time.Millisecond
	// podDelay is how long simulated pods take to start and stop: short, and long enough for a rollout to have an
	// order.
	podDelay = 200 * time.Millisecond
)

// idle are the parts of the simulation that would write where nothing has changed, or need what is not copied.
var idle = []simulate.Part{simulate.ServiceAccounts, simulate.CronJobs, simulate.Endpoints, simulate.Volumes,
	simulate.Scalers, simulate.Policies, simulate.Events, simulate.Leases}

// rehearsal is one run.
type rehearsal struct {
	Options
	log     *journal
	server  *apiserver.Server
	cluster *simulate.Cluster
	own     func() ([]*controller.Controller, bool) // nil while the simulation runs alone
	repeats map[string]bool                         // keys that came again after a wait, while nothing was written

	early error // why the end came before all was done

	// At the end of the controllers.
	waits   []string // keys that wait for longer than a rehearsal does
	blocked []string // what cannot be done until a user changes something, and what failed
}

// Run rehearses, and writes what happened. The code is 0 where nothing was written, 3 where something was, 4 where
// something is in the way of a write, and 1 where the time was too short.
func Run(ctx context.Context, out io.Writer, o Options) (cli.ExitCode, error) {
	return (&rehearsal{Options: o, log: newJournal(o.Rights)}).run(ctx, out)
}

func (r *rehearsal) run(ctx context.Context, out io.Writer) (cli.ExitCode, error) {
	r.server = apiserver.New(apiserver.Options{OnWrite: r.log.add, CEL: r.CEL, Quotas: true})
	defer r.server.Close()
	pipe := r.server.ListenPipe()
	defer pipe.Close()
	connect := func(agent string, as kube.Credentials) (*kube.Client, error) {
		return kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: agent,
			Credentials: as})
	}
	simulation, err := connect(apiserver.Simulation, nil)
	if err != nil {
		return cli.ExitFailed, err
	}
	defer simulation.Close()
	client, err := connect("", named{})
	if err != nil {
		return cli.ExitFailed, err
	}
	defer client.Close()
	options, err := r.State.Import(r.server)
	if err != nil {
		return cli.ExitFailed, err
	}
	options.Without, options.PodStartDelay, options.PodStopDelay = idle, podDelay, podDelay
	options.Log = r.Log.V(2)
	r.cluster = simulate.New(simulation, options)
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	err = cli.During(limited, r.cluster.Run, func(ctx context.Context) error {
		r.early = r.play(ctx, client)
		return nil
	})
	if err != nil {
		return cli.ExitFailed, err
	}
	code, err := r.report(out) // also of what was found before an end that came too early
	return code, errors.Join(r.early, err)
}

// play lets the simulation come to rest, and then runs the controllers. The error says what went on for too long.
func (r *rehearsal) play(ctx context.Context, client *kube.Client) error {
	r.tell("%d objects are copied: waiting until the copy is at rest", len(r.State.Objects))
	if err := r.quiet(ctx); err != nil {
		return fmt.Errorf("wait until the copy is at rest: %w", err)
	}
	r.tell("the controllers run")
	r.log.begin()
	all, run := r.Start(client, r.Log)
	r.own = all
	return cli.During(apply.Observe(ctx, r.log.observe), run, func(ctx context.Context) error {
		err := r.quiet(ctx)
		r.waits, r.blocked = r.whatWaits(), r.whatIsBlocked() // before they are stopped, and know no more
		return err
	})
}

// quiet waits until nothing is left to do.
func (r *rehearsal) quiet(ctx context.Context) error {
	began := time.Now()
	last, told := began, began
	for {
		busy := r.busy()
		now := time.Now()
		if busy != "" {
			last = now
		}
		if now.Sub(last) >= rest && now.Sub(r.log.latest()) >= rest {
			return nil
		}
		busy = cmp.Or(busy, "writes go on")
		if now.Sub(told) >= tell {
			told = now
			r.tell("after %s, %d writes: %s", now.Sub(began).Round(time.Second), r.log.count(), busy)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not quiet after %s (%s): give more time with --timeout", r.Timeout, busy)
			}
			return fmt.Errorf("stopped before its end (%s)", busy)
		}
	}
}

// tell says how far the rehearsal is.
func (r *rehearsal) tell(format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, "rehearse: %s\n", kube.Text(fmt.Sprintf(format, args...)))
	}
}

// busy names what runs or is due soon, "" if nothing is.
func (r *rehearsal) busy() string {
	all := r.cluster.Controllers()
	if err := r.cluster.Ready(); err != nil {
		return err.Error()
	}
	if r.own != nil {
		own, more := r.own()
		if more {
			return "a hook controller is about to start"
		}
		all = append(all, own...)
	}
	if r.repeats == nil || time.Since(r.log.latest()) < settled {
		r.repeats = map[string]bool{}
	}
	for _, c := range all {
		if all := c.Unsynced(); len(all) > 0 {
			return c.Name() + ": " + health.Texts(all, time.Now())
		}
		pending, _, _, _ := c.View(maxWaits)
		for _, p := range pending {
			if (p.Running || p.Waiting && time.Until(p.Due) < soon) && !r.onlyRepeats(c.Name(), p) {
				return strings.TrimSpace(c.Name() + " " + p.Key.String() + " " + strings.Join(p.Causes, ", "))
			}
		}
	}
	return ""
}

// onlyRepeats says whether a key comes again and again and nothing is written for it: a recheck of what waits for a
// change that no one here makes, or the next try of what fails.
func (r *rehearsal) onlyRepeats(name string, p controller.Pending) bool {
	if time.Since(r.log.latest()) < settled {
		return false
	}
	k := name + " " + p.Key.String()
	if p.Waiting && !p.Running && time.Until(p.Due) > 0 {
		r.repeats[k] = true
	}
	return r.repeats[k]
}

// named has each request of a controller say in the header Authorization what it is for. The server of a rehearsal has
// no users, and hands the text to the journal.
type named struct{}

func (named) Authorization(ctx context.Context) (string, error) {
	kind, key, ok := controller.RunOf(ctx)
	if !ok {
		return "", nil
	}
	return kind + " " + key.String(), nil
}

func (named) Invalidate(time.Time) {}
