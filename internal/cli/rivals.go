package cli

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/runtime/process"
)

const (
	// rivalLooks and rivalEvery are how often the Leases are read, and the time between two reads: all together last
	// as long as a Lease does by default, and a holder renews every two seconds.
	rivalLooks, rivalEvery = 4, leader.DefaultLeaseDuration / 3
	// rivalTimeout bounds each read; nothing waits for the end.
	rivalTimeout = 10 * time.Second
)

// warnOfRival logs the first skiff that leads by a Lease of that name, in any namespace, and renews the Lease while
// warnOfRival looks: both processes would write the same objects. The clocks of the two machines may differ, so that
// the time in a Lease alone does not tell whether its holder still works.
func warnOfRival(ctx context.Context, c *kube.Client, lease string, log logr.Logger) {
	err := process.Contain("look for other skiffs", func() error {
		h, err := findRival(ctx, c, lease)
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

// findRival returns a holder that has renewed its Lease between two reads; the zero Holder: there is none.
func findRival(ctx context.Context, c *kube.Client, lease string) (leader.Holder, error) {
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
			if h.Identity == "" {
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
