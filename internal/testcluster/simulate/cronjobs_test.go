package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// cronJobBody is a CronJob whose Jobs take a few seconds, or do not end before an hour.
func cronJobBody(name string, long bool, spec map[string]any) map[string]any {
	template := podTemplate(name, "c:1")
	if long {
		template = podTemplate(name, "c:"+BrokenTag)
	}
	template["spec"].(map[string]any)["restartPolicy"] = "Never"
	spec["jobTemplate"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"of": name}},
		"spec": map[string]any{"template": template}}
	return map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"name": name},
		"spec": spec}
}

// jobAt is the name of the Job that a CronJob starts in a minute of the virtual day.
func jobAt(name string, minutes int) string {
	return fmt.Sprintf("%s-%d", name, time.Date(2000, 1, 1, 0, minutes, 0, 0, time.UTC).Unix()/60)
}

func TestACronJobStartsJobsBySchedule(t *testing.T) {
	simulated(t, func(b *bench) { // it is 5 s after midnight
		b.create(cronJobResource, "default", cronJobBody("tick", false, map[string]any{"schedule": "*/2 * * * *",
			"successfulJobsHistoryLimit": 2}))
		b.rest(time.Minute)
		b.wantNames(jobResource)
		b.rest(56 * time.Second) // one second after the second minute
		b.wantNames(jobResource, jobAt("tick", 2))
		cj, job := b.get(cronJobResource, "tick"), b.get(jobResource, jobAt("tick", 2))
		if str(cj, "status", "active", 0, "uid") != str(job, "metadata", "uid") ||
			str(cj, "status", "lastScheduleTime") != "2000-01-01T00:02:00Z" ||
			str(job, "metadata", "labels", "of") != "tick" ||
			str(job, "metadata", "annotations", "batch.kubernetes.io/cronjob-scheduled-timestamp") !=
				"2000-01-01T00:02:00Z" || str(job, "metadata", "ownerReferences", 0, "name") != "tick" {
			b.Errorf("status %v, job %v", at(cj, "status"), at(job, "metadata"))
		}
		b.rest(8 * time.Minute)
		// Those before are beyond the limit.
		b.wantNames(jobResource, jobAt("tick", 6), jobAt("tick", 8), jobAt("tick", 10))
		s := at(b.get(cronJobResource, "tick"), "status")
		if at(s, "active", 0) == nil || !strings.HasPrefix(str(s, "lastSuccessfulTime"), "2000-01-01T00:08:0") {
			b.Errorf("the status is %v", s)
		}
		b.patch(cronJobResource, "tick", map[string]any{"spec": map[string]any{"suspend": true}})
		b.rest(10 * time.Minute)
		b.wantNames(jobResource, jobAt("tick", 8), jobAt("tick", 10))
		if have := b.reasons("CronJob", "tick"); !slices.Equal(have,
			[]string{"SawCompletedJob", "SuccessfulCreate", "SuccessfulDelete"}) {
			b.Errorf("the Events are %q", have)
		}
		b.delete(cronJobResource, "tick", kube.Background)
		b.rest(time.Minute)
		b.wantNames(jobResource)
	})
}

func TestACronJobObeysItsConcurrencyPolicyDeadlineAndTimeZone(t *testing.T) {
	simulated(t, func(b *bench) {
		for _, policy := range []string{"Allow", "Forbid", "Replace"} {
			b.create(cronJobResource, "default", cronJobBody(strings.ToLower(policy), true, map[string]any{
				"schedule": "* * * * *", "concurrencyPolicy": policy}))
		}
		b.create(cronJobResource, "default", cronJobBody("hurry", false, map[string]any{"schedule": "* * * * *",
			"startingDeadlineSeconds": 20, "suspend": true}))
		b.create(cronJobResource, "default", cronJobBody("zoned", false, map[string]any{"schedule": "2 5 * * *",
			"timeZone": "Asia/Karachi"})) // five hours before
		b.rest(150 * time.Second)
		b.wantNames(jobResource, jobAt("allow", 1), jobAt("allow", 2), jobAt("forbid", 1), jobAt("replace", 2),
			jobAt("zoned", 2))
		b.patch(cronJobResource, "hurry", map[string]any{"spec": map[string]any{"suspend": false}})
		b.rest(time.Second)
		if b.get(jobResource, jobAt("hurry", 2)) != nil {
			b.Error("a job was started 35 seconds after its time, with a deadline of 20")
		}
		if have := b.reasons("CronJob", "forbid"); !slices.Contains(have, "JobAlreadyActive") {
			b.Errorf("the Events are %q", have)
		}
		b.delete(jobResource, jobAt("forbid", 1), kube.Background)
		b.rest(time.Second)
		if b.get(jobResource, jobAt("forbid", 2)) == nil {
			b.Error("the job that had to wait was not started when the one before it was gone")
		}
		if have := b.reasons("CronJob", "forbid"); !slices.Contains(have, "MissingJob") {
			b.Errorf("the Events are %q", have)
		}
	})
}
