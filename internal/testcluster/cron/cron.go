// Package cron reads the schedules of CronJobs (cron.go) and finds the times that they name (next.go). It accepts what
// Kubernetes accepts (github.com/robfig/cron, standard parser), and refuses the rest in its words.
//
// Its functions are pure, of text and time, on their caller's goroutine. The embedded API server validates schedules
// with it, and the simulation starts Jobs by them.
package cron

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule is a set of times: an interval, or the numbers that each field of the schedule names, as bits.
type Schedule struct {
	every time.Duration // 0 unless the schedule is "@every ..."
	sets  [5]uint64
	stars [5]bool // the field is * or ?
}

// The fields.
const (
	minute = iota
	hour
	day
	month
	weekday
)

// words are the schedules with a name.
var words = map[string]string{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}

// field is one of the five: its range, and names for its numbers.
type field struct {
	low, high int
	names     []string // of low, low+1, ...
}

var fields = []field{{0, 59, nil}, {0, 23, nil}, {1, 31, nil},
	{1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{0, 6, strings.Fields("sun mon tue wed thu fri sat")}}

// Parse reads a schedule.
func Parse(text string) (s Schedule, err error) {
	if text == "" {
		return s, errors.New("empty spec string")
	}
	if rest, ok := strings.CutPrefix(text, "@every "); ok {
		every, err := time.ParseDuration(rest)
		if err != nil {
			return s, fmt.Errorf("failed to parse duration %s: %w", text, err)
		}
		return Schedule{every: max(every.Truncate(time.Second), time.Second)}, nil
	}
	if strings.HasPrefix(text, "@") {
		if words[text] == "" {
			return s, fmt.Errorf("unrecognized descriptor: %s", text)
		}
		text = words[text]
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return s, fmt.Errorf("expected exactly %d fields, found %d: %s", len(fields), len(parts), parts)
	}
	for i, f := range fields {
		for _, part := range strings.FieldsFunc(parts[i], func(r rune) bool { return r == ',' }) {
			set, star, err := f.parse(part)
			if err != nil {
				return s, err
			}
			s.sets[i] |= set
			s.stars[i] = s.stars[i] || star
		}
	}
	return s, nil
}

// parse reads NUMBER, NUMBER-NUMBER or *, each with /STEP. star means that it is * without a step.
func (f field) parse(text string) (set uint64, star bool, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	if strings.Contains(stepText, "/") {
		return 0, false, fmt.Errorf("too many slashes: %s", text)
	}
	from, to, ranged := strings.Cut(span, "-")
	low, high, step := f.low, f.high, 1
	if star = from == "*" || from == "?"; !star {
		if low, err = f.number(from); err != nil {
			return 0, false, err
		}
		if high = low; ranged {
			if strings.Contains(to, "-") {
				return 0, false, fmt.Errorf("too many hyphens: %s", text)
			}
			if high, err = f.number(to); err != nil {
				return 0, false, err
			}
		}
	}
	if stepped {
		if step, err = (field{}).number(stepText); err != nil {
			return 0, false, err
		}
		if !ranged {
			high = f.high // N/step goes on to the end
		}
	}
	switch {
	case low < f.low:
		return 0, false, fmt.Errorf("beginning of range (%d) below minimum (%d): %s", low, f.low, text)
	case high > f.high:
		return 0, false, fmt.Errorf("end of range (%d) above maximum (%d): %s", high, f.high, text)
	case low > high:
		return 0, false, fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", low, high, text)
	case step == 0:
		return 0, false, fmt.Errorf("step of range should be a positive number: %s", text)
	}
	for n := low; n <= high && n >= low; n += step {
		set |= 1 << n
	}
	return set, star && step == 1, nil
}

func (f field) number(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.low + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	}
	return n, nil
}
