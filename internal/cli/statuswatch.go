package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/page"
)

const (
	// watchStatusEvery is how often --watch asks: what breaks is seen within two seconds.
	watchStatusEvery = time.Second
	// watchStatusTimeout is for how long --watch waits for an answer before saying that there is none: a working skiff
	// answers within a fraction of a second.
	watchStatusTimeout = 5 * time.Second
)

// follow shows the result of ask until ctx ends: each second in place on a terminal, and otherwise when the result
// changes. The error is the meaning of the last answer. The first answer must not fail: the flags are wrong then.
func (f *statusFlags) follow(ctx context.Context, ask func(context.Context) ([]*status, error), out io.Writer) error {
	all, failed := ask(ctx)
	if failed != nil {
		return Ended(ctx, failed)
	}
	show := f.whenChanged(out)
	if isTerminal(out) && f.output == "" && os.Getenv("TERM") != "dumb" {
		show = f.inPlace(out)
		defer fmt.Fprintln(out) // the prompt of the shell comes on a line of its own
	}
	ticks := time.NewTicker(watchStatusEvery)
	defer ticks.Stop()
	for answered := time.Now(); ; {
		if err := show(all, failed, answered); errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
			return nil // the reader of a pipe has closed it, as in `| head`
		} else if err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			if failed != nil {
				return failed
			}
			return worst(all)
		}
		now, err := ask(ctx)
		if ctx.Err() != nil {
			continue // what was shown stays the last answer
		}
		if failed = err; err == nil {
			all, answered = now, time.Now()
		}
	}
}

// silent is what is shown while there is no answer.
func silent(err error, answered time.Time, out io.Writer) string {
	w := newStatusText(out)
	_, symbol := page.Look("process")
	text := fmt.Sprintf("%s skiff does not answer; the last answer came %s", symbol, w.ago(answered))
	return w.painted("bad", text) + "\n  " + strings.Join(w.wrapped(kube.Text(err.Error()), "  "), "\n") + "\n"
}

// shower shows some answers, or why there is none since one came.
type shower func(all []*status, failed error, answered time.Time) error

// whenChanged writes the answers when something has changed in them that is more than an age or a count.
func (f *statusFlags) whenChanged(out io.Writer) shower {
	last, first := "", true
	return func(all []*status, failed error, answered time.Time) error {
		now := "no answer"
		if failed == nil {
			now = steady(all)
		}
		if now == last {
			return nil
		}
		last = now
		switch {
		case f.output == "json" && failed == nil:
			return f.write(out, all)
		case f.output == "json":
			text, err := json.Marshal(map[string]any{"well": false, "problem": kube.Text(failed.Error())})
			if err != nil {
				return fmt.Errorf("encode the status: %w", err)
			}
			_, err = fmt.Fprintln(out, string(text))
			return err
		}
		text := "--- " + time.Now().UTC().Format(time.RFC3339) + "\n"
		if !first {
			text = "\n" + text
		}
		first = false
		if failed != nil {
			text += silent(failed, answered, out)
		} else {
			text += f.textOfAll(all, out)
		}
		_, err := io.WriteString(out, text)
		return err
	}
}

// inPlace redraws a terminal. Each line is put at a row of the terminal, so that a window that is too small keeps the
// top and scrolls nothing away; the last row then has the last line, which says how the command ends.
func (f *statusFlags) inPlace(out io.Writer) shower {
	clearAll := "\x1b[2J"
	return func(all []*status, failed error, answered time.Time) error {
		text := ""
		if failed != nil {
			text = silent(failed, answered, out)
		} else {
			text = f.textOfAll(all, out)
		}
		text += fmt.Sprintf("\n%s UTC; asked each second; Ctrl-C ends", time.Now().UTC().Format(time.TimeOnly))
		frame := clearAll + "\x1b[?7l" // long lines are cut, not wrapped
		clearAll = ""
		for i, line := range strings.Split(text, "\n") {
			frame += fmt.Sprintf("\x1b[%d;1H%s\x1b[K", i+1, line)
		}
		_, err := io.WriteString(out, frame+"\x1b[?7h\x1b[J")
		return err
	}
}

// steady is the part of an answer that stays the same while nothing happens, without ages, and without counts that
// move with each reconcile.
func steady(all []*status) string {
	var out strings.Builder
	for _, s := range all {
		fmt.Fprintln(&out, s.Address)
		if s.Probes != nil {
			fmt.Fprintln(&out, s.Probes.Passed)
			for _, c := range s.Probes.Checks {
				fmt.Fprintln(&out, c.Name)
				for _, p := range slices.Concat(c.Failed, c.Problems) {
					p.Since = time.Time{} // an age would change each second
					fmt.Fprintln(&out, p.Text(time.Time{}))
				}
			}
			continue
		}
		fmt.Fprintln(&out, s.Banner.Text, s.Standby, s.Omitted)
		for _, t := range s.Attention {
			fmt.Fprintln(&out, t.State, t.Object(), t.Reason, t.Step)
			if t.State == "process" {
				fmt.Fprintln(&out, t.Message)
			}
		}
		for _, q := range s.Queue {
			fmt.Fprintln(&out, q.Controller, q.Failing)
		}
		for _, one := range s.Watches.Watches {
			fmt.Fprintln(&out, one.Resource, one.Namespace, one.Phase, one.Code, one.Problem)
		}
	}
	return moments().ReplaceAllString(out.String(), "")
}

// moments matches what a text says of times: "12s", "3m0.5s", "02:41:00".
var moments = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b[0-9][0-9hm.µ]*s\b|\b[0-9]{2}:[0-9]{2}(:[0-9]{2})?\b`)
})
