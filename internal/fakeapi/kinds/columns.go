package kinds

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
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
		k.Columns = slices.Clone(k.Columns)
		for i, c := range k.Columns {
			k.Columns[i].Description = cmp.Or(texts[k.Kind+"/"+c.Name], texts[c.Name])
		}
	}
}

func text(name string, cell func(Object) any) Column {
	return Column{Name: name, Type: "string", Cell: func(o Object, _ time.Time) any { return cell(o) }}
}

func integer(name string, path ...string) Column {
	return Column{Name: name, Type: "integer", Cell: func(o Object, _ time.Time) any {
		n, _ := obj.Int(o, path...)
		return n
	}}
}

func wide(c Column) Column {
	c.Priority = 1
	return c
}

func field(path ...string) func(Object) any {
	return func(o Object) any { return obj.String(o, path...) }
}

// orNone is field with a text for an empty value.
func orNone(none string, path ...string) func(Object) any {
	return func(o Object) any { return cmp.Or(obj.String(o, path...), none) }
}

func number(path ...string) func(Object) any {
	return func(o Object) any {
		n, _ := obj.Int(o, path...)
		return n
	}
}

func numberAt(path ...string) func(Object) string {
	return func(o Object) string {
		n, _ := obj.Int(o, path...)
		return strconv.FormatInt(n, 10)
	}
}

var ageColumn = Column{Name: "Age", Type: "string", Cell: func(o Object, now time.Time) any {
	return Since(obj.String(o, "metadata", "creationTimestamp"), now)
}}

var (
	ageOnly       = []Column{ageColumn}
	createdAtOnly = []Column{{Name: "Created At", Type: "date", Cell: func(o Object, _ time.Time) any {
		return obj.String(o, "metadata", "creationTimestamp")
	}}}
)

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

func sortedKeys(m Object) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// joined returns one field of all objects in the list at path, such as container names.
func joined(member string, path ...string) func(Object) any {
	return func(o Object) any {
		var out []string
		for _, item := range obj.Maps(o, path...) {
			out = append(out, obj.String(item, member))
		}
		return strings.Join(out, ",")
	}
}

func selectorCell(o Object) any {
	return cmp.Or(FormatSelector(obj.Map(o, "spec", "selector")), "<none>")
}

func pairs(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return cmp.Or(strings.Join(out, ","), "<none>")
}
