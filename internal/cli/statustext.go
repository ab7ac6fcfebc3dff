package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/page"
)

const (
	// statusWidth is that of the narrowest terminal in use. Names and commands are not cut: they are copied.
	statusWidth = 80
	// maxStatusRows of a table are shown, the worst first: more rows scroll the top away. -o json has all rows.
	maxStatusRows = 20
	// slowQueue is how old a key may be that waits for a worker before the queues are shown: a run takes milliseconds.
	slowQueue = 5 * time.Second
)

// statusText writes a status for people.
type statusText struct {
	strings.Builder
	colour bool
	now    time.Time
	all    bool // also what is as usual
	width  int  // of the terminal; 0: statusWidth
}

// newStatusText returns a writer for the reader of an output.
func newStatusText(out io.Writer) *statusText {
	w := &statusText{colour: Coloured(out), now: time.Now()}
	if file, ok := out.(*os.File); ok && isTerminal(out) {
		w.width = terminalWidth(file)
	}
	return w
}

// colours are those of a terminal, for the classes of [page.Look].
var colours = map[string]string{"bad": "31", "warn": "33", "good": "32", "dim": "2"}

func (w *statusText) painted(class, text string) string {
	if !w.colour || colours[class] == "" {
		return text
	}
	return "\x1b[" + colours[class] + "m" + text + "\x1b[0m"
}

// show writes what a process says of itself.
func (w *statusText) show(s *status) {
	if s.Probes != nil {
		w.probes(s)
		return
	}
	w.banner(s)
	w.attention(s)
	busy := w.all || slices.ContainsFunc(s.Queue, func(q page.Queue) bool {
		return q.Failing > 0 || !q.OldestDue.IsZero() && w.now.Sub(q.OldestDue) > slowQueue
	})
	silent := w.all || slices.ContainsFunc(s.Attention, func(t page.Trouble) bool { return t.State == "process" }) ||
		slices.ContainsFunc(s.Watches.Watches, func(one page.Watch) bool {
			return one.Parked || one.Problem != ""
		})
	if busy {
		w.queue(s)
	}
	if silent {
		w.watches(s)
	}
	if !busy && !silent {
		fmt.Fprint(w, "\nThe queues and the watches are as usual: --all shows them.\n")
	}
}

func (w *statusText) banner(s *status) {
	class, symbol := page.Look("well")
	if !s.Banner.Well {
		class, symbol = page.Look("failing")
	}
	text := strings.Join(w.wrapped(symbol+" "+plain(s.Banner.Text), "  "), "\n")
	about := fmt.Sprintf("skiff %s at %s, started %s", plain(s.Version), s.Address, w.ago(s.Started))
	if where := cmp.Or(s.Place.Context, s.Place.Server); where != "" {
		about += "; the cluster is " + plain(where)
	}
	if s.Leader != "" {
		about += "; " + plain(s.Leader)
	}
	about += "; the API server answered " + w.ago(s.Contact)
	if !s.OldestAt.IsZero() {
		about += fmt.Sprintf("; oldest watch contact %s (%s)", w.ago(s.OldestAt), plain(s.OldestOf))
	}
	fmt.Fprintf(w, "%s\n  %s\n", w.painted(class, text), strings.Join(w.wrapped(about, "  "), "\n"))
}

// attention writes all that needs attention, the worst first, with equal reasons in one place.
func (w *statusText) attention(s *status) {
	fmt.Fprint(w, "\nNEEDS ATTENTION\n")
	if len(s.Attention) == 0 {
		fmt.Fprint(w, "Nothing.\n")
	}
	shown := s.Attention[:min(len(s.Attention), maxStatusRows)]
	for _, group := range alike(shown) {
		class, symbol := page.Look(group[0].State)
		head := w.painted(class, symbol+" "+plain(group[0].State)) + "  "
		if len(group) == 1 {
			w.trouble(head, "  ", group[0])
			continue
		}
		fmt.Fprintf(w, "%s%s: %s\n", head, plain(group[0].Reason), s.howMany(group))
		for _, t := range group {
			t.Reason = ""
			w.trouble("  ", "    ", t)
		}
	}
	w.more(len(s.Attention)+s.Omitted, "-o json has them, or the live page")
}

// howMany says how many objects need attention for the reason of a group, of which some are shown. The most urgent
// state comes first: objects that the page has left out are in the last state, or in a less urgent one.
func (s *status) howMany(group []page.Trouble) string {
	like, all := group[0], 0
	for _, t := range s.Attention {
		if t.State == like.State && t.Reason == like.Reason {
			all++
		}
	}
	switch last := s.Attention[len(s.Attention)-1]; {
	case s.Omitted > 0 && like.State == last.State:
		return fmt.Sprintf("%d of %d or more", len(group), all)
	case all > len(group):
		return fmt.Sprintf("%d of %d", len(group), all)
	}
	return fmt.Sprint(all)
}

// alike puts together objects in the same state for the same reason, each group at the place of the group's first
// object.
func alike(all []page.Trouble) (groups [][]page.Trouble) {
	type same struct{ state, reason string }
	at := map[same]int{}
	for _, t := range all {
		key := same{t.State, t.Reason}
		if i, ok := at[key]; ok {
			groups[i] = append(groups[i], t)
			continue
		}
		at[key] = len(groups)
		groups = append(groups, []page.Trouble{t})
	}
	return groups
}

// trouble writes the state of an object in one line, and the next step below.
func (w *statusText) trouble(head, indent string, t page.Trouble) {
	facts := []string{plain(t.Object())}
	if t.Reason != "" {
		facts = append(facts, plain(t.Reason))
	}
	if !t.Since.IsZero() {
		facts = append(facts, "since "+age(w.now.Sub(t.Since)))
	}
	if t.Failures > 0 {
		facts = append(facts, fmt.Sprintf("failures: %d", t.Failures))
	}
	if !t.Next.IsZero() {
		facts = append(facts, "next try "+w.ago(t.Next))
	}
	fmt.Fprintf(w, "%s%s\n", head, strings.Join(facts, ", "))
	if text := t.Text(); text != "" {
		w.lines(indent, plain(text))
	}
}

func (w *statusText) queue(s *status) {
	rows := [][]string{{"QUEUE", "WORKERS", "RUNNING", "DUE", "DELAYED", "FAILING", "DUE FOR", "LONGEST RUN"}}
	for _, q := range s.Queue[:min(len(s.Queue), maxStatusRows)] {
		due := "-"
		if !q.OldestDue.IsZero() {
			due = age(w.now.Sub(q.OldestDue))
		}
		longest := time.Duration(q.Longest * float64(time.Millisecond)).Round(time.Millisecond)
		rows = append(rows, []string{plain(q.Controller), fmt.Sprint(q.Workers), fmt.Sprint(q.Running),
			fmt.Sprint(q.Due), fmt.Sprint(q.Delayed), fmt.Sprint(q.Failing), due, longest.String()})
	}
	w.table(rows)
	w.more(len(s.Queue), "-o json has them")
}

func (w *statusText) watches(s *status) {
	rows := [][]string{{"WATCHES", "PHASE", "OBJECTS", "LAST CONTACT", "PROBLEM"}}
	for _, one := range s.Watches.Watches[:min(len(s.Watches.Watches), maxStatusRows)] {
		name, problem := plain(one.Resource), plain(one.Problem)
		if one.Namespace != "" {
			name += " in " + plain(one.Namespace)
		}
		if problem == "" {
			problem = "-"
		} else if one.Code != 0 {
			problem = fmt.Sprint(one.Code, " ", problem)
		}
		rows = append(rows, []string{name, plain(one.Phase), fmt.Sprint(one.Objects), w.ago(one.Contact), problem})
	}
	w.table(rows)
	w.more(len(s.Watches.Watches)+s.Watches.Omitted, "-o json has them")
}

// probes writes what the probes say.
func (w *statusText) probes(s *status) {
	summary, state := "all is well", "ready"
	if n := s.Probes.Problems(); n == 1 {
		summary = "1 line needs attention"
	} else if n > 1 {
		summary = fmt.Sprintf("%d lines need attention", n)
	}
	if !s.Probes.Passed {
		state = "not ready"
	}
	fmt.Fprintf(w, "skiff at %s is %s; %s\n", s.Address, state, summary)
	health.WriteText(w, s.Probes.Checks, true, w.now)
}

// more says how many rows of a table are not shown.
func (w *statusText) more(all int, where string) {
	if all > maxStatusRows {
		fmt.Fprintf(w, "and %d more: %s\n", all-maxStatusRows, where)
	}
}

// lines writes a text in lines that fit.
func (w *statusText) lines(indent, text string) {
	fmt.Fprintf(w, "%s%s\n", indent, strings.Join(w.wrapped(text, indent), "\n"))
}

// table writes rows below each other, the first column to the left and those of numbers to the right.
func (w *statusText) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	w.WriteByte('\n')
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 && (rows[0][i] == "OBJECTS" || rows[0][0] == "QUEUE") {
				line += space + cell + "  "
			} else {
				line += cell + space + "  "
			}
		}
		w.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// wordsOf yields the words of a text. A command between backquotes is one: it is copied.
func wordsOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		command := ""
		for word := range strings.FieldsSeq(text) {
			if command += word; strings.Count(command, "`")%2 == 1 {
				command += " "
				continue
			}
			if !yield(command) {
				return
			}
			command = ""
		}
		if command != "" {
			yield(strings.TrimSpace(command))
		}
	}
}

// wrapped cuts a text into lines at spaces. Lines after the first begin with an indent.
func (w *statusText) wrapped(text, indent string) []string {
	lines := []string{""}
	for word := range wordsOf(text) {
		last := &lines[len(lines)-1]
		switch width := utf8.RuneCountInString(*last) + 1 + utf8.RuneCountInString(word); {
		case *last == "":
			*last = word
		case width >= cmp.Or(w.width, statusWidth)-len(indent) && strings.TrimSpace(*last) != "":
			lines = append(lines, indent+word)
		default:
			*last += " " + word
		}
	}
	return lines
}

// plain is a text of others as it may go to a terminal.
func plain(text string) string { return kube.Printable(text, statusLine) }

// ago is a time as it is seen from now.
func (w *statusText) ago(t time.Time) string {
	d := w.now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d < 0 && -d > time.Second/2:
		return "in " + age(-d)
	}
	return age(d) + " ago"
}

// age is a duration in at most two units.
func age(d time.Duration) string {
	switch d = max(d, 0).Round(time.Second); {
	case d < time.Hour:
		return d.String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// writeJSON writes it for programs; on one line if more follow.
func (s *status) writeJSON(out io.Writer, line bool) error {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if !line {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	_, err := io.WriteString(out, kube.PrintableJSON(text.String()))
	return err
}
