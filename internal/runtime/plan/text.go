package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// symbols are the beginnings of lines.
var symbols = map[Op]string{Create: "+", Change: "~", Delete: "-", Replace: "-+", Blocked: "!", Held: "="}

// colors are the codes of a terminal.
var colors = map[Op]string{Create: "32", Change: "33", Delete: "31", Replace: "31", Blocked: "35", Held: "36"}

// Text is a plan for people; with colors where color is set.
func (out *Plan) Text(color bool) string {
	var text strings.Builder
	lines := 0
	for i := range out.Owners {
		o := &out.Owners[i]
		text.WriteString(o.Name)
		if o.New {
			text.WriteString(" (new)")
		}
		text.WriteByte('\n')
		for j := range o.Lines {
			lines++
			text.WriteString(o.Lines[j].Text(o.key.Namespace, color))
		}
	}
	if lines == 0 {
		be := "are"
		if out.Objects == 1 {
			be = "is"
		}
		fmt.Fprintf(&text, "No changes: %s of %s %s as declared.\n", health.Count(out.Objects, "object", "objects"),
			health.Count(out.Controllers, "controller", "controllers"), be)
	}
	s := out.Summary()
	fmt.Fprintf(&text, "Plan: %d to create, %d to change, %d to delete, %d blocked.", s.Create, s.Change, s.Delete,
		s.Blocked)
	switch {
	case s.Pods == 1:
		text.WriteString(" 1 pod rolls.")
	case s.Pods > 1:
		fmt.Fprintf(&text, " %d pods roll.", s.Pods)
	}
	if s.Failed > 0 {
		fmt.Fprintf(&text, " %d of %s could not be planned.", s.Failed,
			health.Count(max(out.Objects, s.Failed), "object", "objects"))
	}
	text.WriteByte('\n')
	return text.String()
}

// Text is a line with its details, for people. Objects in the owner's namespace are named without the namespace.
func (l *Line) Text(namespace string, color bool) string {
	var text strings.Builder
	text.WriteString("  " + paint(symbols[l.Op], colors[l.Op], color) + " " + l.head(namespace) + "\n")
	for _, f := range l.Fields {
		text.WriteString("      " + f.text(l.Op == Create) + "\n")
	}
	if l.More > 0 {
		fmt.Fprintf(&text, "      %s (--full)\n", health.Count(l.More, "more field", "more fields"))
	}
	if l.Local != "" {
		text.WriteString("      compared here, without a dry run: " + l.Local + "\n")
	}
	if l.Problem != nil && l.Note != "" { // the consequence of the Problem
		text.WriteString("      " + l.Note + "\n")
	}
	if l.Problem != nil && l.Problem.Next != "" {
		text.WriteString("      next: " + kube.Text(l.Problem.Next) + "\n")
	}
	return text.String()
}

// head is the first line, without the symbol.
func (l *Line) head(namespace string) string {
	var parts []string
	if l.Resource.Kind != "" {
		name := l.Key.Name
		if l.Key.Namespace != namespace && l.Key.Namespace != "" {
			name = l.Key.String()
		}
		parts = append(parts, l.Resource.Kind+" "+kube.Text(name))
	}
	if l.Problem != nil {
		parts = append(parts, l.Problem.Whole())
	} else if l.Note != "" {
		parts = append(parts, l.Note)
	}
	return strings.Join(parts, ": ")
}

func (f *Field) text(isNew bool) string {
	text := kube.Text(f.Path) + ": "
	switch {
	case isNew || f.Before == nil:
		text += value(f.After)
		if !isNew {
			text += " (added)"
		}
	case f.After == nil:
		text += value(f.Before) + " -> (removed)"
	default:
		text += value(f.Before) + " -> " + value(f.After)
	}
	if f.Manager != "" {
		text += " (taken from " + kube.Text(f.Manager) + ")"
	}
	return text
}

// maxValue bounds the text of one value.
const maxValue = 400

// value is a value as JSON.
func value(v any) string {
	if special, ok := v.(fmt.Stringer); ok {
		return kube.Printable(special.String(), maxValue)
	}
	text, err := patch.Encode(v)
	if err != nil {
		text, _ = json.Marshal(v) // a list with hidden values
	}
	return kube.Printable(string(text), maxValue)
}

func paint(text, code string, color bool) string {
	if !color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
