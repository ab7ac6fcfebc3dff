package kinds

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"skiff/internal/fakeapi/obj"
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

// HumanDuration formats a duration in at most two units, as apimachinery's duration package does.
func HumanDuration(d time.Duration) string {
	seconds := int64(d / time.Second)
	switch {
	case seconds < -1:
		return "<invalid>"
	case seconds < 0:
		return "0s"
	case seconds < 120:
		return fmt.Sprintf("%ds", seconds)
	}
	minutes, hours := seconds/60, seconds/3600
	days := hours / 24
	years := days / 365
	two := func(n int64, unit string, rest int64, restUnit string) string {
		if rest == 0 {
			return fmt.Sprintf("%d%s", n, unit)
		}
		return fmt.Sprintf("%d%s%d%s", n, unit, rest, restUnit)
	}
	switch {
	case minutes < 10:
		return two(minutes, "m", seconds%60, "s")
	case minutes < 180:
		return fmt.Sprintf("%dm", minutes)
	case hours < 8:
		return two(hours, "h", minutes%60, "m")
	case hours < 48:
		return fmt.Sprintf("%dh", hours)
	case hours < 192:
		return two(days, "d", hours%24, "h")
	case days < 730:
		return fmt.Sprintf("%dd", days)
	case years < 8:
		return two(years, "y", days%365, "d")
	}
	return fmt.Sprintf("%dy", years)
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
