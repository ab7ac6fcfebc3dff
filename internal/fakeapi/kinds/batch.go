package kinds

import (
	"slices"
	"strings"
	"time"

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
	if cur == nil {
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

func jobSpecRules(spec Object, at string) []Cause {
	var out []Cause
	for _, f := range []string{"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
		"ttlSecondsAfterFinished"} {
		if n, ok := obj.Int(spec, f); ok && n < 0 {
			out = append(out, Invalid(at+"."+f, n, "must be greater than or equal to 0"))
		}
	}
	if mode := obj.String(spec, "completionMode"); mode == "Indexed" && spec["completions"] == nil {
		out = append(out, Required(at+".completions", "when completion mode is Indexed"))
	}
	policy := obj.String(spec, "template", "spec", "restartPolicy")
	switch {
	case policy == "Always" || policy == "":
		out = append(out, Required(at+".template.spec.restartPolicy", `valid values: "OnFailure", "Never"`))
	case policy != "OnFailure" && policy != "Never":
		out = append(out, NotSupported(at+".template.spec.restartPolicy", policy, "OnFailure", "Never"))
	}
	return append(podSpecRules(obj.Map(spec, "template", "spec"), at+".template.spec"), out...)
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

func cronJobRules(next, _ Object) []Cause {
	var out []Cause
	spec := obj.Map(next, "spec")
	switch schedule := obj.String(spec, "schedule"); {
	case schedule == "":
		out = append(out, Required("spec.schedule", ""))
	case !strings.HasPrefix(schedule, "@") && len(strings.Fields(schedule)) != 5:
		out = append(out, Invalid("spec.schedule", schedule, "expected exactly 5 fields, found "+
			show(int64(len(strings.Fields(schedule))))+": ["+strings.Join(strings.Fields(schedule), " ")+"]"))
	}
	if p, allowed := obj.String(spec, "concurrencyPolicy"), []string{"Allow", "Forbid", "Replace"}; p != "" &&
		!slices.Contains(allowed, p) {
		out = append(out, NotSupported("spec.concurrencyPolicy", p, allowed...))
	}
	return append(jobSpecRules(obj.Map(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec"), out...)
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
