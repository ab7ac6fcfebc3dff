// Package cron checks the schedules of CronJobs. It accepts what Kubernetes accepts (github.com/robfig/cron, standard
// parser), and refuses the rest in its words.
//
// It is a pure function of text on its caller's goroutine. Nothing runs by the schedules: the embedded API server
// validates them, and the simulation starts no CronJobs.
package cron

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// words are the schedules with a name.
var words = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// field is one of the five: its range, and names for its numbers.
type field struct {
	low, high int
	names     []string // of low, low+1, ...
}

var fields = []field{{0, 59, nil}, {0, 23, nil}, {1, 31, nil},
	{1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{0, 6, strings.Fields("sun mon tue wed thu fri sat")}}

// Check returns what is wrong with a schedule.
func Check(text string) error {
	if text == "" {
		return errors.New("empty spec string")
	}
	if rest, ok := strings.CutPrefix(text, "@every "); ok {
		if _, err := time.ParseDuration(rest); err != nil {
			return fmt.Errorf("failed to parse duration %s: %w", text, err)
		}
		return nil
	}
	if strings.HasPrefix(text, "@") {
		if !slices.Contains(words, text) {
			return fmt.Errorf("unrecognized descriptor: %s", text)
		}
		return nil
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %s", len(fields), len(parts), parts)
	}
	for i, f := range fields {
		for _, part := range strings.FieldsFunc(parts[i], func(r rune) bool { return r == ',' }) {
			if err := f.check(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// check reads NUMBER, NUMBER-NUMBER or *, each with /STEP.
func (f field) check(text string) (err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	if strings.Contains(stepText, "/") {
		return fmt.Errorf("too many slashes: %s", text)
	}
	from, to, ranged := strings.Cut(span, "-")
	low, high, step := f.low, f.high, 1
	if from != "*" && from != "?" {
		if low, err = f.number(from); err != nil {
			return err
		}
		if high = low; ranged {
			if strings.Contains(to, "-") {
				return fmt.Errorf("too many hyphens: %s", text)
			}
			if high, err = f.number(to); err != nil {
				return err
			}
		}
	}
	if stepped {
		if step, err = (field{}).number(stepText); err != nil {
			return err
		}
		if !ranged {
			high = f.high // N/step goes on to the end
		}
	}
	switch {
	case low < f.low:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", low, f.low, text)
	case high > f.high:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", high, f.high, text)
	case low > high:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", low, high, text)
	case step == 0:
		return fmt.Errorf("step of range should be a positive number: %s", text)
	}
	return nil
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
