package cron

import (
	"testing"
	"time"
)

// No schedule makes the search for its times wrong or long: the next one is later, and the latest is not.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"* * * * *", "0 0 29 2 *", "@every 1h30m", "*/15 2-4,6 ? jan-mar mon", "@daily",
		"59 23 31 12 6", "0 0 30 2 *", "@every 1ns", "0/0 * * * *", "5-1 * * * *"} {
		f.Add(text, int64(1_700_000_000), int64(3600))
	}
	f.Fuzz(func(t *testing.T, text string, at, gap int64) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		const century = 100 * 365 * 24 * 3600
		now := time.Unix(at%century, 0).UTC()
		start := time.Now()
		if next := s.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q: %s is after %s", text, next, now)
		}
		since := now.Add(-time.Duration(gap%century) * time.Second)
		latest, missed := s.Latest(since, now)
		if missed < 0 || latest.After(now) || missed > 0 && !latest.After(since) {
			t.Errorf("%q: %s is the latest of %d between %s and %s", text, latest, missed, since, now)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q takes %s", text, took)
		}
	})
}
