package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/cron"
)

type cronStatus struct {
	Active             []object  `json:"active"`
	LastScheduleTime   time.Time `json:"lastScheduleTime"`
	LastSuccessfulTime time.Time `json:"lastSuccessfulTime"`
}

// cronJobs is the CronJob controller.
type cronJobs struct {
	controllerOf[*workload]
	jobs *cache.Store[*workload]
}

func newCronJobs(s *shared) runner {
	c := &cronJobs{newController[*workload](s, cronJobResource, "cronjob-controller"),
		mirrorOf[*workload](s, jobResource)}
	return c.forEach("cronjob", c.sync, controller.Owns(c.jobs, cronJobResource.Kind))
}

func (c *cronJobs) sync(ctx context.Context, cj *workload) (again time.Duration, err error) {
	var s cronStatus
	if err := readStatus(cronJobResource, cj, cj.Status, &s); err != nil {
		return 0, err
	}
	if err := c.followJobs(ctx, cj, &s); err != nil {
		return 0, err
	}
	if !cj.Deleting() && !cj.Spec.Suspend {
		if again, err = c.keepSchedule(ctx, cj, &s); err != nil {
			return 0, err
		}
	}
	status := object{"active": nil}
	if len(s.Active) > 0 {
		status["active"] = s.Active
	}
	for name, t := range map[string]time.Time{"lastScheduleTime": s.LastScheduleTime,
		"lastSuccessfulTime": s.LastSuccessfulTime} {
		if !t.IsZero() {
			status[name] = wireTime(t)
		}
	}
	return again, c.writeStatus(ctx, cj, true, cj.Status, status)
}

// followJobs updates the jobs in the status, and deletes finished jobs beyond the limits.
func (c *cronJobs) followJobs(ctx context.Context, cj *workload, s *cronStatus) error {
	jobs, err := c.jobs.ByOwner(cj.Namespace, cj.UID)
	if err != nil {
		return err
	}
	slices.SortFunc(jobs, func(a, b *workload) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp), strings.Compare(a.Name, b.Name))
	})
	finished, exists := map[string][]*workload{}, map[any]bool{}
	for _, j := range jobs {
		var status jobStatus
		if err := readStatus(jobResource, j, j.Status, &status); err != nil {
			return err
		}
		exists[j.UID] = true
		at := slices.IndexFunc(s.Active, func(ref object) bool { return ref["uid"] == j.UID })
		how := "Complete"
		if status.Conditions.hold("Failed") {
			how = "Failed"
		} else if !status.Conditions.hold(how) {
			continue
		}
		finished[how] = append(finished[how], j)
		if at >= 0 {
			s.Active = slices.Delete(s.Active, at, at+1)
			c.record(cj, events.Normal, "SawCompletedJob",
				fmt.Sprintf("Saw completed job: %s, condition: %s", j.Name, how))
		}
		if done, err := time.Parse(time.RFC3339, status.CompletionTime); err == nil &&
			how == "Complete" && done.After(s.LastSuccessfulTime) {
			s.LastSuccessfulTime = done
		}
	}
	for _, ref := range slices.Clone(s.Active) {
		name, _ := ref["name"].(string)
		if exists[ref["uid"]] {
			continue
		}
		var job anyObject // the mirror may not have the job yet
		err := c.client.Get(ctx, jobResource, kube.Key{Namespace: cj.Namespace, Name: name}, &job)
		if kube.IsNotFound(err) {
			s.Active = slices.DeleteFunc(s.Active, func(r object) bool { return r["name"] == name })
			c.record(cj, events.Normal, "MissingJob", "Active job went missing: "+name)
		} else if err != nil {
			return err
		}
	}
	for how, limit := range map[string]int{"Complete": valueOr(cj.Spec.SuccessfulJobsHistoryLimit, 3),
		"Failed": valueOr(cj.Spec.FailedJobsHistoryLimit, 1)} {
		for _, j := range finished[how][:max(0, len(finished[how])-limit)] {
			if err := c.delete(ctx, cj, j.Name, j.UID); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepSchedule starts the Job of the last time of the schedule, if due, and returns the wait until the next time.
func (c *cronJobs) keepSchedule(ctx context.Context, cj *workload, s *cronStatus) (time.Duration, error) {
	schedule, err := cron.Parse(cj.Spec.Schedule)
	if err != nil {
		return 0, controller.Terminal(fmt.Errorf("read the schedule of cron job %s: %w", cj.Key(), err))
	}
	zone, err := time.LoadLocation(cj.Spec.TimeZone)
	if err != nil {
		c.record(cj, events.Warning, "UnknownTimeZone", fmt.Sprintf("invalid timeZone: %q: %v", cj.Spec.TimeZone, err))
		return 0, nil
	}
	now, since := time.Now().In(zone), cj.CreationTimestamp.In(zone)
	if !s.LastScheduleTime.IsZero() {
		since = s.LastScheduleTime.In(zone)
	}
	deadline := cj.Spec.StartingDeadlineSeconds
	if deadline != nil {
		if first := now.Add(-time.Duration(*deadline) * time.Second); first.After(since) {
			since = first
		}
	}
	due, missed := schedule.Latest(since, now)
	if missed > 100 {
		c.record(cj, events.Warning, "TooManyMissedTimes", "too many missed start times. Set or "+
			"decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if !due.IsZero() {
		if err := c.start(ctx, cj, s, due); err != nil {
			return 0, err
		}
		since = due
	}
	next := schedule.Next(since)
	if next.IsZero() {
		return 0, nil
	}
	return max(next.Sub(now), 0) + 100*time.Millisecond, nil // the real controller leaves room for clocks that differ
}

// start creates the Job of a time, as far as the policy allows. The time is part of the name, so that there is only a
// single Job.
func (c *cronJobs) start(ctx context.Context, cj *workload, s *cronStatus, due time.Time) error {
	name := fmt.Sprintf("%s-%d", cj.Name, due.Unix()/60)
	switch {
	case slices.ContainsFunc(s.Active, func(ref object) bool { return ref["name"] == name }):
		return nil
	case cj.Spec.ConcurrencyPolicy == "Forbid" && len(s.Active) > 0:
		c.record(cj, events.Normal, "JobAlreadyActive",
			"Not starting job because prior execution is running and concurrency policy is Forbid")
		return nil
	case cj.Spec.ConcurrencyPolicy == "Replace":
		for _, ref := range s.Active {
			name, _ := ref["name"].(string)
			uid, _ := ref["uid"].(string)
			if err := c.delete(ctx, cj, name, uid); err != nil {
				return err
			}
		}
		s.Active = nil
	}
	if ok, err := c.alive(ctx, cj); err != nil || !ok {
		return err
	}
	var template struct {
		Metadata struct{ Labels, Annotations object }
		Spec     object
	}
	if err := json.Unmarshal(cj.Spec.JobTemplate, &template); err != nil {
		return fmt.Errorf("read the job template of cron job %s: %w", cj.Key(), err)
	}
	annotations := object{"batch.kubernetes.io/cronjob-scheduled-timestamp": due.Format(time.RFC3339)}
	maps.Copy(annotations, template.Metadata.Annotations)
	var job anyObject
	err := c.createInto(ctx, jobResource, cj.Namespace, object{"spec": template.Spec,
		"metadata": object{"name": name, "labels": template.Metadata.Labels, "annotations": annotations,
			"ownerReferences": []any{controllerRef(cronJobResource, &cj.Meta)}}}, &job)
	exists := kube.IsAlreadyExists(err)
	if exists { // started before, and the mirror has an old status; or made by another user
		err = c.client.Get(ctx, jobResource, kube.Key{Namespace: cj.Namespace, Name: name}, &job)
	}
	if err != nil {
		c.record(cj, events.Warning, "FailedCreate", "Error creating job: "+refusal(err))
		return err
	}
	if job.ControllerUID() != cj.UID {
		return nil
	}
	if !exists {
		c.record(cj, events.Normal, "SuccessfulCreate", "Created job "+name)
	}
	s.Active = append(s.Active, object{"apiVersion": jobResource.APIVersion(), "kind": jobResource.Kind,
		"namespace": job.Namespace, "name": name, "uid": job.UID, "resourceVersion": job.ResourceVersion})
	s.LastScheduleTime = due
	return nil
}

func (c *cronJobs) delete(ctx context.Context, cj *workload, name, uid string) error {
	err := c.client.Delete(ctx, jobResource, kube.Key{Namespace: cj.Namespace, Name: name},
		kube.DeleteOptions{UID: uid, Propagation: kube.Background})
	if kube.IsNotFound(err) {
		return nil
	}
	if err == nil {
		c.record(cj, events.Normal, "SuccessfulDelete", "Deleted job "+name)
	}
	return err
}
