package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// cronJob creates a CronJob. Its Jobs take a few seconds, or with the BrokenTag do not end.
func (b *bench) cronJob(name, image, spec string) {
	b.Helper()
	o := b.parse("{spec: " + spec + "}")
	member(o, "spec")["jobTemplate"] = b.parse(fmt.Sprintf(`{metadata: {labels: {of: %s}}, spec: {template: {spec: {
		restartPolicy: Never, containers: [{name: main, image: %q}]}}}}`, name, image))
	b.createObject(cronJobResource, name, o)
}

// jobAt is the name of the Job that a CronJob starts in a minute of the virtual day.
func jobAt(name string, minutes int) string {
	return fmt.Sprintf("%s-%d", name, time.Date(2000, 1, 1, 0, minutes, 0, 0, time.UTC).Unix()/60)
}

func TestACronJobStartsJobsBySchedule(t *testing.T) {
	simulated(t, func(b *bench) { // it is 5 s after midnight
		b.cronJob("tick", "c:1", `{schedule: "*/2 * * * *", successfulJobsHistoryLimit: 2}`)
		b.rest(time.Minute)
		b.wantNames(jobResource)
		b.rest(56 * time.Second) // one second after the second minute
		b.wantNames(jobResource, jobAt("tick", 2))
		b.want(cronJobResource, "tick", "status lastScheduleTime = 2000-01-01T00:02:00Z",
			"status active 0 uid = "+str(b.get(jobResource, jobAt("tick", 2)), "metadata uid"))
		b.want(jobResource, jobAt("tick", 2), "metadata labels of = tick", "metadata ownerReferences 0 name = tick",
			"metadata annotations batch.kubernetes.io/cronjob-scheduled-timestamp = 2000-01-01T00:02:00Z")
		b.rest(8 * time.Minute)
		// Those before are beyond the limit.
		b.wantNames(jobResource, jobAt("tick", 6), jobAt("tick", 8), jobAt("tick", 10))
		s := at(b.get(cronJobResource, "tick"), "status")
		if at(s, "active 0") == nil || !strings.HasPrefix(str(s, "lastSuccessfulTime"), "2000-01-01T00:08:0") {
			b.Errorf("the status is %v", s)
		}
		b.patch(cronJobResource, "tick", "{spec: {suspend: true}}")
		b.rest(10 * time.Minute)
		b.wantNames(jobResource, jobAt("tick", 8), jobAt("tick", 10))
		b.wantEvents("CronJob", "tick", "SawCompletedJob", "SuccessfulCreate", "SuccessfulDelete")
		b.delete(cronJobResource, "tick", kube.Background)
		b.rest(time.Minute)
		b.wantNames(jobResource)
	})
}

func TestACronJobObeysItsConcurrencyPolicyDeadlineAndTimeZone(t *testing.T) {
	simulated(t, func(b *bench) {
		for _, policy := range []string{"Allow", "Forbid", "Replace"} {
			b.cronJob(strings.ToLower(policy), "c:"+BrokenTag,
				`{schedule: "* * * * *", concurrencyPolicy: `+policy+"}")
		}
		b.cronJob("hurry", "c:1", `{schedule: "* * * * *", startingDeadlineSeconds: 20, suspend: true}`)
		b.cronJob("zoned", "c:1", "{schedule: 2 5 * * *, timeZone: Asia/Karachi}") // five hours before
		b.rest(150 * time.Second)
		b.wantNames(jobResource, jobAt("allow", 1), jobAt("allow", 2), jobAt("forbid", 1), jobAt("replace", 2),
			jobAt("zoned", 2))
		b.patch(cronJobResource, "hurry", "{spec: {suspend: false}}")
		b.rest(time.Second)
		if b.get(jobResource, jobAt("hurry", 2)) != nil {
			b.Error("a job was started 35 seconds after its time, with a deadline of 20")
		}
		b.wantEvents("CronJob", "forbid", "JobAlreadyActive", "SuccessfulCreate")
		b.delete(jobResource, jobAt("forbid", 1), kube.Background)
		b.rest(time.Second)
		if b.get(jobResource, jobAt("forbid", 2)) == nil {
			b.Error("the job that had to wait was not started when the one before it was gone")
		}
		b.wantEvents("CronJob", "forbid", "JobAlreadyActive", "MissingJob", "SuccessfulCreate")
	})
}
