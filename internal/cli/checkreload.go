package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/install/check"
	"skiff/internal/operators/reload"
	"skiff/internal/runtime/kube"
)

// checkReport is the report of `skiff check` as JSON.
type checkReport struct {
	check.Report
	Reload *reload.Survey `json:"reload,omitempty"`
}

// addReload adds reload to the controllers for --reloader-annotations. Where no controllers are named, reload is all
// that is checked: a user of Reloader needs no definitions.
func (f *checkFlags) addReload(named bool) {
	switch {
	case !f.reloader || slices.Contains(f.controllers, reload.Name):
	case named:
		f.controllers = append(f.controllers, reload.Name)
	default:
		f.controllers = []string{reload.Name}
	}
}

// survey looks at the annotations of workloads, where reload is checked and the survey is printed; else nil. An
// annotation that does not count makes the report not OK.
func (f *checkFlags) survey(ctx context.Context, c *kube.Client, r *check.Report) (*reload.Survey, error) {
	if !slices.Contains(f.controllers, reload.Name) || f.output == "yaml" {
		return nil, nil
	}
	namespaces := sorted(f.namespaces)
	if r.Selection != nil {
		if namespaces = r.Selection.Namespaces; len(namespaces) == 0 {
			return nil, nil
		}
	}
	s, err := reload.Look(ctx, c, namespaces, f.reloader)
	if err != nil {
		return nil, fmt.Errorf("look at the annotations about reloads: %w", err)
	}
	r.OK = r.OK && s.OK()
	return s, nil
}

const (
	// maxSurveyLines bounds the workloads, ConfigMaps and Secrets in the text, which -o json has in full.
	maxSurveyLines = 500
	// maxEntries bounds the sources in the line of a workload.
	maxEntries = 20
)

// surveyText is a survey as lines of the report; nil: there are none.
func surveyText(s *reload.Survey) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	line := func(ok bool, format string, args ...any) { b.WriteString(checkLine(ok, format, args...)) }
	read := ""
	if len(s.NotRead) > 0 {
		read = "that could be read "
	}
	line(true, "reload      %d of %d workloads %srestart when ConfigMaps or Secrets change", s.Restarts, s.Looked,
		read)
	if s.Wrong > 0 {
		line(false, "reload      %d annotations or entries of them do not count as they are", s.Wrong)
	}
	for _, n := range s.NotRead {
		where := "all namespaces"
		if n.Namespace != "" {
			where = "namespace " + n.Namespace
		}
		line(false, "reload      %s in %s: %s", n.Resource, where, n.Detail)
	}
	all := slices.Concat(s.Workloads, s.Sources)
	slices.SortStableFunc(all, func(a, b reload.Surveyed) int {
		if wrong := !a.OK(); len(all) > maxSurveyLines && wrong == b.OK() { // not all are printed: wrong ones first
			return map[bool]int{true: -1, false: 1}[wrong]
		}
		return strings.Compare(a.Namespace, b.Namespace)
	})
	before := ""
	for _, o := range all[:min(len(all), maxSurveyLines)] {
		if o.Namespace != before {
			before = o.Namespace
			line(true, "reload      in namespace %s:", o.Namespace)
		}
		surveyLines(line, &o)
	}
	if more := len(all) - maxSurveyLines; more > 0 || s.Omitted > 0 {
		line(true, "reload      and %d more, of which -o json has %d", max(more, 0)+s.Omitted, max(more, 0))
	}
	return b.String()
}

// surveyLines are the lines of a workload, ConfigMap or Secret.
func surveyLines(line func(ok bool, format string, args ...any), o *reload.Surveyed) {
	text := strings.ToLower(o.Kind) + "/" + o.Name
	switch {
	case len(o.Entries) > 0:
		text += ": " + entriesText(o.Entries)
	case o.Opted:
		text += ": nothing"
	}
	line(o.OK(), "              %s", text)
	for _, f := range o.Findings {
		where := f.Annotation
		if f.Template {
			where += " of the pod template"
		}
		if where != "" {
			where += ": "
		}
		meant := ""
		if f.Meant != "" {
			meant = "; did you mean " + f.Meant + "?"
		}
		line(!f.Wrong, "                %s%s%s", where, f.Text, meant)
	}
	if o.More > 0 {
		line(o.OK(), "                and %d more", o.More)
	}
}

// entriesText is what a workload restarts for, with the annotations that say so.
func entriesText(entries []reload.SurveyedEntry) string {
	var names, from []string
	for _, e := range entries {
		name := e.Entry
		if e.Missing {
			name += " (missing)"
		}
		names, from = append(names, name), append(from, e.From...)
	}
	text := strings.Join(names[:min(len(names), maxEntries)], ", ")
	if more := len(names) - maxEntries; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ", by " + strings.Join(sorted(from), ", ")
}
