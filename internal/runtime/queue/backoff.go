package queue

import (
	"math/rand/v2"
	"time"
)

// backoff returns the delay after one more failure than failures: base doubled with each, at most limit, and
// of that a random part between half and all, so that keys that failed together are tried apart (WQ-06).
func backoff(base, limit time.Duration, failures int) time.Duration {
	d := limit
	// base<<failures > limit without the overflow; a shift by 63 and more gives 0.
	if base <= limit>>failures {
		d = base << failures
	}
	return d - rand.N(d/2+1)
}

// spread returns d plus up to half of it.
func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d/2+1)
}
