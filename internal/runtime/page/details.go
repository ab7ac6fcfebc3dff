package page

import (
	"fmt"
	"strings"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
)

// This file shows the facts about an object beside the state: the subject, and the children.

// hasDetails says whether there is anything for showDetails.
func (o Owner) hasDetails() bool { return o.Declared > 0 || len(o.Facts) > 0 }

// showDetails shows the facts about an object and its children.
func showDetails(w *writer, o Owner) {
	if len(o.Facts) > 0 {
		w.put(`<dl>`)
		for _, fact := range o.Facts {
			value := text(fact.Value)
			if !fact.At.IsZero() {
				value = joined(" ", value, moment(fact.At))
			}
			w.put(`<dt>%s</dt><dd>%s</dd>`, fact.Name, value)
		}
		w.put(`</dl>`)
	}
	if o.Declared == 0 {
		return
	}
	w.table(fmt.Sprintf("%d of %s ready, what is missing first.", o.Ready,
		health.Count(o.Declared, "child", "children")), "State", "Child", "Last apply", "Last write", "In the way",
		"#Age")
	for _, c := range o.Children {
		name := text(c.Kind + " " + c.Name)
		if c.Namespace != o.Namespace {
			name += ` <span class="dim">in ` + text(c.Namespace) + `</span>`
		}
		since := markup("")
		if !c.Created.IsZero() {
			since = age(c.Created)
		}
		w.keyed(c.Kind+" "+c.Namespace+"/"+c.Name, childWord(c.State), name, text(c.Outcome),
			lastWrite(c.LastWrite), inTheWay(c), "#"+since)
	}
	w.end()
	if o.Omitted > 0 {
		w.put(`<p>and %d more</p>`, o.Omitted)
	}
}

// childWord is the state of a child with its symbol.
func childWord(state string) markup {
	class, symbol := "good", "✔"
	switch apply.State(state) {
	case apply.Missing:
		class, symbol = "bad", "✖"
	case apply.NotReady:
		class, symbol = "warn", "…"
	case apply.Deleting:
		class, symbol = "dim", "⌫"
	}
	return `<span class="` + text(class) + `">` + text(symbol+" "+state) + `</span>`
}

// lastWrite says what skiff last sent about a child.
func lastWrite(w *history.Write) markup {
	if w == nil {
		return `<span class="dim">not lately</span>`
	}
	return joined(" ", text(verbOf(*w)), codeWord(*w), moment(w.Sent))
}

// inTheWay says why a child is not as it is declared.
func inTheWay(c Child) markup {
	if c.Problem == "" && len(c.Fields) > 0 {
		return text("differs in " + strings.Join(c.Fields, ", "))
	}
	return text(c.Problem)
}

// since is when a condition got its status.
func since(t time.Time) markup {
	if t.IsZero() {
		return `<span class="dim">not known</span>`
	}
	return moment(t)
}

// lately is a time of which only the last runs are known.
func lately(t time.Time) markup {
	if t.IsZero() {
		return `<span class="dim">not lately</span>`
	}
	return moment(t)
}

// inWords are conditions as people say them, with equal reasons together. The usual is left out: nothing is degraded,
// or paused.
func inWords(all []ConditionWord) markup {
	var reasons []string
	of := map[string][]string{}
	for _, c := range all {
		name, reason := strings.ToLower(c.Type), c.Reason
		switch {
		case c.Type == conditions.Ready && c.Status == conditions.True:
			reason = ""
		case c.Status == conditions.False && usuallyFalse[c.Type]:
			continue
		case c.Status == conditions.False:
			name = "not " + name
		case c.Status != conditions.True:
			name += " is not known"
		}
		if of[reason] = append(of[reason], name); len(of[reason]) == 1 {
			reasons = append(reasons, reason)
		}
	}
	var words []string
	for _, reason := range reasons {
		words = append(words, strings.TrimSuffix(strings.Join(of[reason], ", ")+": "+reason, ": "))
	}
	if len(words) == 0 {
		return `<span class="dim">none</span>`
	}
	return text(strings.Join(words, "; "))
}

// usuallyFalse are the conditions that are True while something happens or is wrong.
var usuallyFalse = map[string]bool{conditions.Progressing: true, conditions.Degraded: true, conditions.Stalled: true,
	conditions.Paused: true}

// span is a duration for people: two digits say enough.
func span(d time.Duration) string {
	for _, unit := range []struct {
		name  string
		size  time.Duration
		below time.Duration
	}{{"s", time.Second, 2 * time.Minute}, {"min", time.Minute, 2 * time.Hour}, {"h", time.Hour, 48 * time.Hour}} {
		if d < unit.below {
			return fmt.Sprintf("%d %s", max(0, d/unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}
