package cli

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

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
)

// The Lease of skiff-dev has the durations of a kubelet's: rivalLooks sees a renewal, and an idle cluster stays calm.
const devLeaseDuration, devRenewDeadline, devRetryPeriod = 40 * time.Second, 15 * time.Second, 10 * time.Second

// meetRivals warns of another skiff at work, and with Renewals lets other skiffs find the process, until end runs.
// A process with an election does neither: candidates for the Lease are no rivals, and the granted rights are for a
// single Lease.
func (on Cluster) meetRivals(ctx context.Context, log logr.Logger) (end func()) {
	looking, stop := context.WithCancel(ctx)
	holding, release := context.WithCancel(context.WithoutCancel(ctx)) // controllers that finish are rivals still
	var running sync.WaitGroup
	self := ""
	if on.Renewals != nil {
		self = devIdentity()
		running.Go(func() { holdLease(holding, on.Renewals, on.lease, self, log.V(1)) })
	}
	if on.lease != "" && on.elector == nil {
		running.Go(func() { warnOfRival(looking, on.Client, on.lease, self, log) })
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

// warnOfRival logs the first skiff except self that leads by a Lease of the name, in any namespace, and renews the
// Lease while warnOfRival looks: both processes would write the same objects. The clocks of the two machines may
// differ, so that the time in a Lease alone does not tell whether the holder still works.
func warnOfRival(ctx context.Context, c *kube.Client, lease, self string, log logr.Logger) {
	err := process.Contain("look for other skiffs", func() error {
		h, err := findRival(ctx, c, lease, self)
		if err == nil && h.Identity != "" {
			log.Info("another skiff works on this cluster: both write the same objects, unless their controllers or "+
				"namespaces differ; stop one of the two", kube.Warn("holder", kube.Printable(h.Identity, 100),
				"lease", kube.Printable(h.Lease.String(), 400))...)
		}
		return err
	})
	if p := new(process.Panic); errors.As(err, &p) {
		log.Error(err, "other skiffs are not looked for", "stack", string(p.Stack))
	} else if err != nil && ctx.Err() == nil {
		log.V(1).Info("cannot look for other skiffs", "problem", err.Error())
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
