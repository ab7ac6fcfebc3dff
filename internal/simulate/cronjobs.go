package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/cron"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// cronJob is the part of a CronJob that its controller reads.
type cronJob struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               struct {
		Schedule                   string `json:"schedule"`
		TimeZone                   string `json:"timeZone"`
		ConcurrencyPolicy          string `json:"concurrencyPolicy"`
		Suspend                    bool   `json:"suspend"`
		StartingDeadlineSeconds    *int   `json:"startingDeadlineSeconds"`
		SuccessfulJobsHistoryLimit *int   `json:"successfulJobsHistoryLimit"`
		FailedJobsHistoryLimit     *int   `json:"failedJobsHistoryLimit"`
		JobTemplate                struct {
			Metadata kube.Raw `json:"metadata"`
			Spec     kube.Raw `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
	Status kube.Raw `json:"status"`
}

type cronStatus struct {
	LastScheduleTime time.Time `json:"lastScheduleTime"`
}

// cronJobs is the CronJob controller.
type cronJobs struct {
	client *kube.Client
	mirror *cache.Store[*cronJob]
	jobs   *cache.Store[*workload]
	record recordFunc
}

func newCronJobs(client *kube.Client, o Options) *controller.Controller {
	c := &cronJobs{client: client, mirror: cache.New[*cronJob](o.mirror(client, cronResource)),
		jobs: cache.New[*workload](o.mirror(client, jobResource)), record: o.recorder(client, "cronjob-controller")}
	return controller.New("simulate-cronjob", retryStale(c.reconcile), o.controller(), controller.For(c.mirror),
		controller.Owns(c.jobs, cronResource.Kind))
}

func (c *cronJobs) reconcile(ctx context.Context, k kube.Key) (controller.Outcome, error) {
	cj, ok, err := c.mirror.Get(k)
	if err != nil || !ok || cj.Deleting() {
		return controller.Done, err
	}
	jobs, err := c.jobs.ByOwner(k.Namespace, cj.UID)
	if err != nil {
		return controller.Done, err
	}
	schedule, err := cron.Parse(cj.Spec.Schedule)
	zone, zoneErr := time.LoadLocation(cj.Spec.TimeZone)
	if err := errors.Join(err, zoneErr); err != nil {
		return controller.Done, controller.Terminal(fmt.Errorf("read the schedule of cron job %s: %w", k, err))
	}
	var was cronStatus
	if len(cj.Status) > 0 {
		if err := json.Unmarshal(cj.Status, &was); err != nil {
			return controller.Done, fmt.Errorf("read status of cron job %s: %w", k, err)
		}
	}
	active, finished, status, err := sortJobs(jobs)
	if err != nil {
		return controller.Done, err
	}
	if !was.LastScheduleTime.IsZero() {
		status["lastScheduleTime"] = wireTime(was.LastScheduleTime)
	}
	now := time.Now().In(zone)
	due, next := lastDue(schedule, later(was.LastScheduleTime, cj.CreationTimestamp).In(zone), now)
	deadline := time.Duration(valueOr(cj.Spec.StartingDeadlineSeconds, 1<<31-1)) * time.Second
	late := now.Sub(due) > deadline || cj.Spec.ConcurrencyPolicy == "Forbid" && len(active) > 0
	if !due.IsZero() && !cj.Spec.Suspend && !late {
		if cj.Spec.ConcurrencyPolicy == "Replace" {
			if err := c.delete(ctx, active); err != nil {
				return controller.Done, err
			}
		}
		if err := c.start(ctx, cj, due); err != nil {
			return controller.Done, err
		}
		status["lastScheduleTime"] = wireTime(due)
	}
	for kind, limit := range map[string]int{"Complete": valueOr(cj.Spec.SuccessfulJobsHistoryLimit, 3),
		"Failed": valueOr(cj.Spec.FailedJobsHistoryLimit, 1)} {
		old := finished[kind]
		if err := c.delete(ctx, old[:max(0, len(old)-limit)]); err != nil {
			return controller.Done, err
		}
	}
	if err := writeStatus(ctx, c.client, cronResource, &cj.Meta, cj.Status, status); err != nil {
		return controller.Done, err
	}
	if cj.Spec.Suspend || next.IsZero() {
		return controller.Done, nil
	}
	return controller.After(next.Sub(now)), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// maxMissed is how many missed times are looked at, as by the real controller.
const maxMissed = 100

// lastDue returns the last time of a schedule after since and until now, zero if there is none, and the next one.
func lastDue(s cron.Schedule, since, now time.Time) (due, next time.Time) {
	next = s.Next(since)
	for n := 0; !next.IsZero() && !next.After(now); n++ {
		if due = next; n == maxMissed {
			since = now.Add(-time.Minute) // nobody wants all of them
			next = s.Next(since)
			continue
		}
		next = s.Next(next)
	}
	return due, next
}

// sortJobs returns the jobs that run, those that have finished by their conditions, oldest first, and the status.
func sortJobs(jobs []*workload) (active []*workload, finished map[string][]*workload, status map[string]any,
	err error) {
	slices.SortFunc(jobs, func(a, b *workload) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp), strings.Compare(a.Name, b.Name))
	})
	finished, status = map[string][]*workload{}, map[string]any{}
	var refs []any
	for _, j := range jobs {
		var s jobStatus
		if len(j.Status) > 0 {
			if err := json.Unmarshal(j.Status, &s); err != nil {
				return nil, nil, nil, fmt.Errorf("read status of job %s: %w", j.Key(), err)
			}
		}
		switch {
		case s.is("Complete"):
			finished["Complete"] = append(finished["Complete"], j)
			status["lastSuccessfulTime"] = s.CompletionTime
		case s.is("Failed"):
			finished["Failed"] = append(finished["Failed"], j)
		default:
			active = append(active, j)
			refs = append(refs, map[string]any{"apiVersion": jobResource.APIVersion(), "kind": jobResource.Kind,
				"namespace": j.Namespace, "name": j.Name, "uid": j.UID, "resourceVersion": j.ResourceVersion})
		}
	}
	if status["active"] = refs; refs == nil {
		status["active"] = nil
	}
	return active, finished, status, nil
}

// start creates the Job of a time. Its name is made of that time, so that there is one of each.
func (c *cronJobs) start(ctx context.Context, cj *cronJob, due time.Time) error {
	if ok, err := alive(ctx, c.client, cronResource, &cj.Meta); err != nil || !ok {
		return err
	}
	var meta struct{ Labels, Annotations map[string]any }
	if len(cj.Spec.JobTemplate.Metadata) > 0 {
		if err := json.Unmarshal(cj.Spec.JobTemplate.Metadata, &meta); err != nil {
			return fmt.Errorf("read the job template of cron job %s: %w", cj.Key(), err)
		}
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]any{}
	}
	meta.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] = due.Format(time.RFC3339)
	name := fmt.Sprintf("%s-%d", cj.Name, due.Unix()/60)
	err := c.client.Create(ctx, jobResource, cj.Namespace, map[string]any{"apiVersion": jobResource.APIVersion(),
		"kind": jobResource.Kind, "metadata": map[string]any{"name": name, "labels": meta.Labels,
			"annotations": meta.Annotations, "ownerReferences": []any{controllerRef(cronResource, &cj.Meta)}},
		"spec": cj.Spec.JobTemplate.Spec}, nil, kube.WriteOptions{FieldManager: manager})
	if kube.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		c.record(cronResource, cj, events.Normal, "SuccessfulCreate", "Created job "+name)
	}
	return err
}

func (c *cronJobs) delete(ctx context.Context, jobs []*workload) error {
	var errs []error
	for _, j := range jobs {
		errs = append(errs, c.client.Delete(ctx, jobResource, j.Key(),
			kube.DeleteOptions{UID: j.UID, Propagation: kube.Background}))
	}
	return errors.Join(errs...)
}
