// Package backoff computes the pause before the next try from the number of failures, and nothing else: callers count
// failures and wait. Its functions run on the goroutines of their callers and are pure but for the jitter.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff is a pause which doubles from Min to Max.
type Backoff struct {
	Min, Max time.Duration
	// Jitter is the random fraction of a pause, so that callers who failed together try again apart: with 0.5 a pause
	// is between half and all of the full length, with 1 between none and all.
	Jitter float64
}

// After returns the pause after one more failure than failures.
func (b Backoff) After(failures int) time.Duration {
	d := b.Max
	// Min<<failures > Max without the overflow; a shift by 63 and more gives 0.
	if b.Min <= b.Max>>failures {
		d = b.Min << failures
	}
	return d - upTo(d, b.Jitter)
}

// Next returns the pause after a pause of last, without jitter, for callers that keep the pause; 0: none yet.
func (b Backoff) Next(last time.Duration) time.Duration { return min(max(2*last, b.Min), b.Max) }

// Spread returns d, made longer by a random part of at most the fraction by: callers that were told the same d come
// back apart, and none too early.
func Spread(d time.Duration, by float64) time.Duration { return d + upTo(d, by) }

func upTo(d time.Duration, fraction float64) time.Duration {
	if d <= 0 || fraction == 0 {
		return 0
	}
	return rand.N(time.Duration(fraction*float64(d)) + 1)
}
