package cron

import (
	"math/bits"
	"time"
)

// Next returns the first time of the schedule after t, in t's location; the zero time if there is none in five years.
func (s Schedule) Next(t time.Time) time.Time {
	if s.every > 0 {
		return t.Add(s.every - time.Duration(t.Nanosecond()))
	}
	for day := range 5 * 366 {
		start := time.Date(t.Year(), t.Month(), t.Day()+day, 0, 0, 0, 0, t.Location())
		if !s.on(start) {
			continue
		}
		for hours := s.sets[hour]; hours != 0; hours &= hours - 1 {
			for minutes := s.sets[minute]; minutes != 0; minutes &= minutes - 1 {
				h := bits.TrailingZeros64(hours)
				at := time.Date(start.Year(), start.Month(), start.Day(), h, bits.TrailingZeros64(minutes), 0, 0,
					t.Location())
				if at.Hour() == h && at.After(t) { // where clocks are put forward, an hour of a day is missing
					return at
				}
			}
		}
	}
	return time.Time{}
}

// on reports whether the schedule has times on a day. Where both kinds of days are restricted, one has to match.
func (s Schedule) on(start time.Time) bool {
	if s.sets[month]&(1<<start.Month()) == 0 {
		return false
	}
	inMonth, inWeek := s.sets[day]&(1<<start.Day()) != 0, s.sets[weekday]&(1<<start.Weekday()) != 0
	if s.stars[day] || s.stars[weekday] {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// maxYears is how far back Latest looks: a time.Duration is 292 years at most.
const maxYears = 200

// Latest returns the last time of the schedule after since and not after now, zero if there is none, and about how
// many there are. It looks at a few of them only, however long ago since is.
func (s Schedule) Latest(since, now time.Time) (latest time.Time, missed int64) {
	if longAgo := now.AddDate(-maxYears, 0, 0); since.Before(longAgo) {
		since = longAgo
	}
	first := s.Next(since)
	if first.IsZero() || first.After(now) {
		return time.Time{}, 0
	}
	second := s.Next(first)
	if second.IsZero() || second.After(now) {
		return first, 1
	}
	step := second.Sub(first)
	missed = int64(now.Sub(first)/step) + 1
	for behind := int64(2); latest.IsZero(); behind *= 2 { // further back where the steps are uneven
		from := first.Add(time.Duration(max(missed-behind, 0)) * step)
		for t := s.Next(from); !t.IsZero() && !t.After(now); t = s.Next(t) {
			latest = t
		}
	}
	return latest, missed
}
