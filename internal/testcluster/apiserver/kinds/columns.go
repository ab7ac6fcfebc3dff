package kinds

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
)

// The printer columns are those of the real server (pkg/printers/internalversion).

//go:embed descriptions.txt
var descriptions string

// describe adds their descriptions to the columns of the kinds. They are shortened, and kubectl does not print them.
func describe(all []*Kind) {
	texts := map[string]string{}
	for line := range strings.Lines(descriptions) {
		column, description, _ := strings.Cut(strings.TrimSpace(line), ": ")
		texts[column] = description
	}
	for _, k := range all {
		for i, c := range k.Columns {
			k.Columns[i].Description = cmp.Or(texts[k.Kind+"/"+c.Name], texts[c.Name])
		}
	}
}

// Since formats the time since a timestamp as kubectl's AGE.
func Since(timestamp string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return "<unknown>"
	}
	return HumanDuration(now.Sub(t))
}

// durationForm is how durations are written that are shorter than below: in one unit, and if rest is set what is left
// in a smaller one.
type durationForm struct {
	below, unit, rest time.Duration
	name, restName    string
}

var durations = []durationForm{
	{120 * time.Second, time.Second, 0, "s", ""},
	{10 * time.Minute, time.Minute, time.Second, "m", "s"},
	{3 * time.Hour, time.Minute, 0, "m", ""},
	{8 * time.Hour, time.Hour, time.Minute, "h", "m"},
	{48 * time.Hour, time.Hour, 0, "h", ""},
	{8 * day, day, time.Hour, "d", "h"},
	{2 * year, day, 0, "d", ""},
	{8 * year, year, day, "y", "d"},
	{math.MaxInt64, year, 0, "y", ""},
}

const day, year = 24 * time.Hour, 365 * day

// HumanDuration formats a duration in at most two units, as apimachinery's duration package does.
func HumanDuration(d time.Duration) string {
	switch d = d.Truncate(time.Second); {
	case d < -time.Second:
		return "<invalid>"
	case d < 0:
		return "0s"
	}
	form := durations[slices.IndexFunc(durations, func(f durationForm) bool { return d < f.below })]
	text := fmt.Sprintf("%d%s", d/form.unit, form.name)
	if form.rest > 0 && d%form.unit >= form.rest {
		text += fmt.Sprintf("%d%s", d%form.unit/form.rest, form.restName)
	}
	return text
}

// FormatSelector formats a LabelSelector in the syntax of kubectl -l.
func FormatSelector(sel Object) string {
	var out []string
	for _, k := range obj.Keys(obj.Map(sel, "matchLabels")) {
		out = append(out, k+"="+obj.String(sel, "matchLabels", k))
	}
	for _, e := range obj.Maps(sel, "matchExpressions") {
		key, values := obj.String(e, "key"), []string{}
		for _, v := range obj.Slice(e, "values") {
			if s, ok := v.(string); ok {
				values = append(values, s)
			}
		}
		switch op := obj.String(e, "operator"); op {
		case "Exists":
			out = append(out, key)
		case "DoesNotExist":
			out = append(out, "!"+key)
		default:
			out = append(out, key+" "+strings.ToLower(op)+" ("+strings.Join(values, ",")+")")
		}
	}
	return strings.Join(out, ",")
}
