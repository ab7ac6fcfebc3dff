package cli

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/runtime/process"
)

const (
	// rivalLooks and rivalEvery are how often the Leases are read, and the time between two reads: all together last
	// as long as a Lease does by default, and a holder renews every two seconds, skiff-dev every ten.
	rivalLooks, rivalEvery = 4, leader.DefaultLeaseDuration / 3
	// rivalTimeout bounds each read; nothing waits for the end.
	rivalTimeout = 10 * time.Second
	// rivalAgain is how often a skiff that was found is looked for again.
	rivalAgain = time.Minute
)

// The Lease of skiff-dev has the durations of a kubelet's: rivalLooks sees a renewal, and an idle cluster stays calm.
const devLeaseDuration, devRenewDeadline, devRetryPeriod = 40 * time.Second, 15 * time.Second, 10 * time.Second

// meetRivals tells of another skiff at work, and with Renewals lets other skiffs find the process, until end runs.
// A process with an election does neither: candidates for the Lease are no rivals, and the granted rights are for a
// single Lease.
func (on Cluster) meetRivals(ctx context.Context, other *rival, log logr.Logger) (end func()) {
	looking, stop := context.WithCancel(ctx)
	holding, release := context.WithCancel(context.WithoutCancel(ctx)) // controllers that finish are rivals still
	var running sync.WaitGroup
	self := ""
	if on.Renewals != nil {
		self = devIdentity()
		running.Go(func() { holdLease(holding, on.Renewals, on.lease, self, log.V(1)) })
	}
	if on.lease != "" && on.elector == nil {
		running.Go(func() { other.watch(looking, on.Client, on.lease, self, log) })
	}
	return func() {
		stop()
		release()
		running.Wait()
	}
}

// devIdentity is as whom skiff-dev holds the Lease. No server has two skiff-devs, and after a kill the next run with
// the same --data takes the Lease at once.
func devIdentity() string {
	host, _ := os.Hostname() // for readers; unique on the server without a name, too
	return "skiff-dev_" + host
}

// holdLease holds a Lease until ctx is done, as soon as no other holder renews it, and then gives it up.
func holdLease(ctx context.Context, c *kube.Client, name, identity string, log logr.Logger) {
	e, err := leader.New(leader.Options{Client: c, Namespace: "default", Name: name, Identity: identity,
		LeaseDuration: devLeaseDuration, RenewDeadline: devRenewDeadline, RetryPeriod: devRetryPeriod, Log: log})
	if err == nil {
		err = e.Run(ctx, func(ctx, leaseCtx context.Context) {
			select {
			case <-ctx.Done():
			case <-leaseCtx.Done():
			}
		})
	}
	if err != nil {
		log.Info("cannot hold the Lease by which other skiffs find this one", kube.Warn("problem", err.Error())...)
	}
}

// rival is another skiff at work on the cluster, which leads by a Lease of the same name in any namespace.
type rival struct {
	mu       sync.Mutex // guards problems
	problems []health.Problem
}

// attention returns a Problem while another skiff works.
func (r *rival) attention() []health.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problems
}

// watch looks for a skiff except self that renews a Lease of the name while watch looks: both processes would write
// the same objects. The clocks of the two machines may differ, so that the time in a Lease alone does not tell whether
// the holder still works. Without another skiff at the start, watch ends; after one was found, watch goes on until ctx
// ends, because the other may be a Deployment whose pods come and go.
func (r *rival) watch(ctx context.Context, c *kube.Client, lease, self string, log logr.Logger) {
	for first := true; first || sleep(ctx, rivalAgain); first = false {
		var found leader.Holder
		err := process.Contain("look for other skiffs", func() (err error) {
			found, err = findRival(ctx, c, lease, self)
			return err
		})
		if p := new(process.Panic); errors.As(err, &p) {
			log.Error(err, "other skiffs are not looked for", "stack", string(p.Stack))
			r.take(leader.Holder{}, log)
			return
		}
		if err == nil {
			r.take(found, log)
		} else if ctx.Err() == nil {
			log.V(1).Info("cannot look for other skiffs", "problem", err.Error())
		}
		if first && found.Identity == "" {
			return
		}
	}
}

// take keeps what a look has found, the zero Holder: nobody, and logs a change.
func (r *rival) take(found leader.Holder, log logr.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := len(r.problems) > 0
	switch {
	case found.Identity == "" && known:
		log.Info("the other skiff does not work on this cluster any more")
		r.problems = nil
	case found.Identity != "" && !known:
		const both = "both write the same objects, unless their controllers or namespaces differ; stop one of the two"
		holder, lease := kube.Printable(found.Identity, 100), kube.Printable(found.Lease.String(), 400)
		log.Info("another skiff works on this cluster: "+both, kube.Warn("holder", holder, "lease", lease)...)
		r.problems = []health.Problem{{Reason: "AnotherSkiff", Quoted: holder, Next: both, Since: time.Now(),
			Public: "another skiff, with the Lease " + lease + ", has been seen at work on this cluster"}}
	}
}

// findRival returns a holder, not self, that has renewed its Lease between two reads; the zero Holder: there is none.
func findRival(ctx context.Context, c *kube.Client, lease, self string) (leader.Holder, error) {
	before := map[kube.Key]leader.Holder{}
	for look := range rivalLooks {
		if look > 0 && !sleep(ctx, rivalEvery) {
			return leader.Holder{}, ctx.Err()
		}
		held, err := holdersOf(ctx, c, lease)
		if err != nil {
			return leader.Holder{}, err
		}
		others := false
		for _, h := range held {
			if h.Identity == "" || h.Identity == self {
				continue
			}
			if old, seen := before[h.Lease]; seen && old.Renewed != h.Renewed {
				return h, nil
			}
			before[h.Lease], others = h, true
		}
		if !others {
			break
		}
	}
	return leader.Holder{}, nil
}

func holdersOf(ctx context.Context, c *kube.Client, lease string) ([]leader.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, rivalTimeout)
	defer cancel()
	return heldIn(ctx, c, "", []string{lease})
}

// sleep waits, and says whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
