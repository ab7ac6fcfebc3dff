package kinds

import (
	"fmt"
	"strings"
	"time"

	"skiff/internal/cron"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

func batchV1(plural, kind string) kube.Resource {
	return kube.Resource{Group: "batch", Version: "v1", Plural: plural, Kind: kind}
}

func batch() []*Kind {
	all := []string{"all"}
	return []*Kind{
		{Resource: batchV1("cronjobs", "CronJob"), ShortNames: []string{"cj"}, Categories: all, Status: true,
			NewStatus: constant(Object{}), Generation: specChanged, Defaults: cronJobDefaults, Validate: cronJobRules,
			Columns: cronJobColumns},
		{Resource: batchV1("jobs", "Job"), Categories: all, Status: true, NewStatus: constant(Object{}),
			Generation: specChanged, Defaults: jobDefaults, Prepare: prepareJob, Validate: jobRules,
			OrphanWarning: "child pods are preserved by default when jobs are deleted; set " +
				"propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
			Fields:  map[string]func(Object) string{"status.successful": numberAt("status", "succeeded")},
			Columns: jobColumns},
	}
}

func jobDefaults(o Object) {
	spec := specOf(o)
	if spec["completions"] == nil && spec["parallelism"] == nil {
		spec["completions"] = int64(1)
	}
	obj.Default(spec, int64(1), "parallelism")
	if spec["backoffLimitPerIndex"] == nil {
		obj.Default(spec, int64(6), "backoffLimit")
	} else {
		obj.Default(spec, int64(1<<31-1), "backoffLimit")
	}
	obj.Default(spec, "NonIndexed", "completionMode")
	obj.Default(spec, false, "suspend")
	if obj.Get(spec, "podReplacementPolicy") == nil {
		policy := "TerminatingOrFailed"
		if obj.Map(spec, "podFailurePolicy") != nil {
			policy = "Failed"
		}
		spec["podReplacementPolicy"] = policy
	}
	obj.Default(spec, false, "manualSelector")
	templateDefaults(spec)
}

// jobLabels are the labels of a Job's pods, under their old and their new names, and the fields of metadata with the
// values.
var jobLabels = map[string]string{"controller-uid": "uid", "batch.kubernetes.io/controller-uid": "uid",
	"job-name": "name", "batch.kubernetes.io/job-name": "name"}

// prepareJob sets the selector of a new Job, and gives a Job without labels those of its template.
func prepareJob(next, cur Object) {
	if cur == nil && !obj.Bool(next, "spec", "manualSelector") {
		for label, field := range jobLabels {
			obj.Set(next, obj.String(next, "metadata", field), "spec", "template", "metadata", "labels", label)
		}
		const label = "batch.kubernetes.io/controller-uid"
		obj.Set(next, obj.String(next, "metadata", "uid"), "spec", "selector", "matchLabels", label)
	}
	if labels := obj.Map(next, "spec", "template", "metadata", "labels"); len(labels) > 0 &&
		len(obj.Map(next, "metadata", "labels")) == 0 {
		obj.Set(next, obj.Clone(labels), "metadata", "labels")
	}
}

func jobRules(next, cur Object) []Cause {
	spec := obj.Map(next, "spec")
	out := jobSpecRules(spec, "spec")
	if out = append(out, selectsTemplate(spec)...); cur == nil {
		if !obj.Bool(spec, "manualSelector") && len(obj.Map(spec, "selector", "matchLabels")) > 1 {
			out = append(out, Invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
		}
		return out
	}
	was := obj.Map(cur, "spec")
	for _, f := range []string{"completions", "selector", "template", "completionMode"} {
		if !patch.Equal(spec[f], was[f]) && !(f == "completions" && obj.String(spec, "completionMode") == "Indexed") {
			out = append(out, Invalid("spec."+f, spec[f], "field is immutable"))
		}
	}
	return out
}

var jobChecks = []check{
	must("parallelism", notNegative), must("completions", notNegative), must("activeDeadlineSeconds", notNegative),
	must("backoffLimit", notNegative), must("ttlSecondsAfterFinished", notNegative),
	must("completionMode", among("NonIndexed", "Indexed")),
	must("template.spec.restartPolicy", func(at string, v any) []Cause {
		if v == nil || v == "" || v == "Always" {
			return []Cause{Required(at, `valid values: "OnFailure", "Never"`)}
		}
		return among("OnFailure", "Never")(at, v)
	}),
}

// maxIndexed is the most pods of an indexed Job that run at a time.
const maxIndexed = 100_000

func jobSpecRules(spec Object, at string) []Cause {
	out := runChecks(spec, at, jobChecks)
	n, _ := obj.Int(spec, "parallelism")
	switch indexed := obj.String(spec, "completionMode") == "Indexed"; {
	case indexed && spec["completions"] == nil:
		out = append(out, Required(at+".completions", "when completion mode is Indexed"))
	case indexed && n > maxIndexed:
		out = append(out, Invalid(at+".parallelism", n,
			fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", maxIndexed)))
	case !indexed && spec["backoffLimitPerIndex"] != nil:
		out = append(out, Invalid(at+".backoffLimitPerIndex", spec["backoffLimitPerIndex"],
			"requires indexed completion mode"))
	}
	return append(out, podSpecRules(obj.Map(spec, "template", "spec"), at+".template.spec")...)
}

func cronJobDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, "Allow", "concurrencyPolicy")
	obj.Default(spec, false, "suspend")
	obj.Default(spec, int64(3), "successfulJobsHistoryLimit")
	obj.Default(spec, int64(1), "failedJobsHistoryLimit")
	obj.Default(spec, Object{}, "jobTemplate")
	templateDefaults(specOf(obj.Map(spec, "jobTemplate")))
}

// maxCronName is the longest name of a CronJob: its Jobs are called after it.
const maxCronName = 52

var cronJobChecks = []check{
	must("metadata.name", valid(func(name string) string {
		if len(name) > maxCronName {
			return fmt.Sprintf("must be no more than %d characters", maxCronName)
		}
		return ""
	})),
	must("spec.schedule", present(""), valid(func(schedule string) string {
		if strings.Contains(schedule, "TZ") {
			return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
		}
		if _, err := cron.Parse(schedule); err != nil {
			return err.Error()
		}
		return ""
	})),
	must("spec.timeZone", valid(func(zone string) string {
		if _, err := time.LoadLocation(zone); err != nil {
			return "unknown time zone " + zone
		}
		return ""
	})),
	must("spec.startingDeadlineSeconds", notNegative),
	must("spec.successfulJobsHistoryLimit", notNegative), must("spec.failedJobsHistoryLimit", notNegative),
	must("spec.concurrencyPolicy", among("Allow", "Forbid", "Replace")),
}

func cronJobRules(next, _ Object) []Cause {
	return append(runChecks(next, "", cronJobChecks),
		jobSpecRules(obj.Map(next, "spec", "jobTemplate", "spec"), "spec.jobTemplate.spec")...)
}

// duration returns how long a Job has run so far, or ran.
func duration(o Object, now time.Time) any {
	start, err := time.Parse(time.RFC3339, obj.String(o, "status", "startTime"))
	if err != nil {
		return ""
	}
	if end, err := time.Parse(time.RFC3339, obj.String(o, "status", "completionTime")); err == nil {
		now = end
	}
	return HumanDuration(now.Sub(start))
}
