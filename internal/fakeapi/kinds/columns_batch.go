package kinds

import (
	"cmp"
	"fmt"
	"time"

	"skiff/internal/fakeapi/obj"
)

var (
	jobColumns = []Column{text("Status", jobStatus), text("Completions", completions),
		{Name: "Duration", Type: "string", Cell: duration},
		ageColumn, containerNames, containerImages, selectorColumn}
	cronJobColumns = []Column{text("Schedule", field("spec", "schedule")),
		text("Timezone", orNone("<none>", "spec", "timeZone")),
		{Name: "Suspend", Type: "boolean",
			Cell: func(o Object, _ time.Time) any { return printed(obj.Bool(o, "spec", "suspend")) }},
		{Name: "Active", Type: "integer",
			Cell: func(o Object, _ time.Time) any { return int64(len(obj.Slice(o, "status", "active"))) }},
		{Name: "Last Schedule", Type: "string", Cell: lastSchedule}, ageColumn, wide(text("Containers",
			joined("name", "spec", "jobTemplate", "spec", "template", "spec", "containers"))),
		wide(text("Images", joined("image", "spec", "jobTemplate", "spec", "template", "spec", "containers"))),
		wide(text("Selector", func(o Object) any {
			return cmp.Or(FormatSelector(obj.Map(o, "spec", "jobTemplate", "spec", "selector")), "<none>")
		}))}
)

// printed formats a boolean as the real table printer does.
func printed(b bool) any {
	if b {
		return "True"
	}
	return "False"
}

func jobStatus(o Object) any {
	for _, kind := range []string{"Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"} {
		for _, c := range obj.Maps(o, "status", "conditions") {
			if obj.String(c, "type") == kind && obj.String(c, "status") == "True" {
				return kind
			}
		}
	}
	if obj.String(o, "metadata", "deletionTimestamp") != "" {
		return "Terminating"
	}
	return "Running"
}

func completions(o Object) any {
	have, _ := obj.Int(o, "status", "succeeded")
	if want, ok := obj.Int(o, "spec", "completions"); ok {
		return fmt.Sprintf("%d/%d", have, want)
	}
	if n, _ := obj.Int(o, "spec", "parallelism"); n > 1 {
		return fmt.Sprintf("%d/1 of %d", have, n)
	}
	return fmt.Sprintf("%d/1", have)
}

func lastSchedule(o Object, now time.Time) any {
	if at := obj.String(o, "status", "lastScheduleTime"); at != "" {
		return Since(at, now)
	}
	return "<none>"
}
