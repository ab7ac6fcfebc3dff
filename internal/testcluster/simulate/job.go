package simulate

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"skiff/internal/runtime/events"
)

// indexKey is the annotation and label of an indexed Job's pods.
const indexKey = "batch.kubernetes.io/job-completion-index"

// jobStatus is the part of a Job's status that its controller goes by.
type jobStatus struct {
	StartTime      string     `json:"startTime"`
	CompletionTime string     `json:"completionTime"`
	Succeeded      int        `json:"succeeded"`
	Failed         int        `json:"failed"`
	Conditions     conditions `json:"conditions"`
}

// tally is what has become of the pods of a Job. Indexes are "" unless the Job is indexed.
type tally struct {
	active                   []*setPod
	done, running            map[string]bool // indexes
	succeeded, failed, ready int
}

func count(pods []*setPod, was jobStatus, indexed bool) tally {
	t := tally{done: map[string]bool{}, running: map[string]bool{}}
	for _, pod := range pods {
		index, _ := pod.Annotations.Get(indexKey)
		switch {
		case pod.Status.Phase == "Succeeded" && !(indexed && t.done[index]):
			t.done[index] = true
			t.succeeded++
		case pod.Status.Phase == "Failed":
			t.failed++
		case pod.active():
			t.running[index] = true
			t.active = append(t.active, pod)
			if pod.ready() {
				t.ready++
			}
		}
	}
	t.succeeded, t.failed = max(t.succeeded, was.Succeeded), max(t.failed, was.Failed) // some pods may be gone
	return t
}

// planJob runs pods until enough of them have succeeded, or too many have failed.
func planJob(w *workload, pods []*setPod, in facts) (p plan) {
	var was jobStatus
	p.err = readStatus(jobResource, w, w.Status, &was)
	if was.Conditions.hold("Complete") || was.Conditions.hold("Failed") {
		p.expire(w, was, in.now)
		return p
	}
	t := count(pods, was, w.Spec.CompletionMode == "Indexed")
	start := was.StartTime
	if start == "" && !w.Spec.Suspend {
		start = wireTime(in.now)
	}
	complete := t.succeeded > 0 && len(t.active) == 0
	if w.Spec.Completions != nil {
		complete = t.succeeded >= *w.Spec.Completions
	}
	failure, why := "", ""
	if t.failed > valueOr(w.Spec.BackoffLimit, 6) {
		failure, why = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
	} else if began, err := time.Parse(time.RFC3339, start); err == nil && w.Spec.ActiveDeadlineSeconds != nil {
		p.again = began.Add(time.Duration(*w.Spec.ActiveDeadlineSeconds) * time.Second).Sub(in.now)
		if p.again <= 0 {
			failure, why = "DeadlineExceeded", "Job was active longer than specified deadline"
		}
	}
	if complete || failure != "" || w.Spec.Suspend {
		p.remove = t.active
	} else {
		p.runJob(w, t)
	}
	p.finish(w, was, in.now, complete, failure, why)
	maps.Copy(p.status, object{"active": orNull(len(t.active) + len(p.create) - len(p.remove)),
		"ready": int64(t.ready), "succeeded": orNull(t.succeeded), "failed": orNull(t.failed), "terminating": int64(0),
		"uncountedTerminatedPods": object{}})
	if start != "" {
		p.status["startTime"] = start
	}
	return p
}

// runJob starts as many pods as may run and are still needed, and stops those that are too many.
func (p *plan) runJob(w *workload, t tally) {
	most := valueOr(w.Spec.Parallelism, 1)
	switch {
	case w.Spec.Completions != nil:
		most = min(most, *w.Spec.Completions-t.succeeded)
	case t.succeeded > 0:
		most = min(most, len(t.active)) // one has found the work queue empty, so that no more are started
	}
	indexed := w.Spec.CompletionMode == "Indexed"
	for i := 0; len(t.active)+len(p.create) < most; i++ {
		if index := strconv.Itoa(i); indexed && (t.done[index] || t.running[index]) {
			continue
		}
		if meta, spec := p.pod(w, w.Spec.Template); indexed {
			meta["generateName"] = fmt.Sprintf("%s-%d-", w.Name, i)
			member(meta, "labels")[indexKey], member(meta, "annotations")[indexKey] = strconv.Itoa(i), strconv.Itoa(i)
			spec["hostname"] = fmt.Sprintf("%s-%d", w.Name, i)
		}
	}
	p.remove = t.active[min(len(t.active), max(most, 0)):]
}

// finish sets the conditions of a Job that is complete or has failed, and the Event about it.
func (p *plan) finish(w *workload, was jobStatus, now time.Time, complete bool, failure, why string) {
	p.status = object{}
	set := func(status, reason, message string, kinds ...string) {
		var list []any
		for _, kind := range kinds {
			c := was.Conditions.next(kind, status, reason, message)
			c["lastProbeTime"] = c["lastTransitionTime"]
			list = append(list, c)
		}
		p.status["conditions"] = list
	}
	switch {
	case failure != "":
		set("True", failure, why, "FailureTarget", "Failed")
		p.event = &notice{events.Warning, failure, why}
	case complete:
		set("True", "CompletionsReached", "Reached expected number of succeeded pods", "SuccessCriteriaMet",
			"Complete")
		p.status["completionTime"] = wireTime(now)
		p.event = &notice{events.Normal, "Completed", "Job completed"}
	case w.Spec.Suspend && !was.Conditions.hold("Suspended"):
		set("True", "JobSuspended", "Job suspended", "Suspended")
		p.event = &notice{events.Normal, "Suspended", "Job suspended"}
	case !w.Spec.Suspend && was.Conditions.hold("Suspended"):
		set("False", "JobResumed", "Job resumed", "Suspended")
		p.event = &notice{events.Normal, "Resumed", "Job resumed"}
	}
}

// expire deletes a Job that has ended when its time to live is over.
func (p *plan) expire(w *workload, was jobStatus, now time.Time) {
	if w.Spec.TTLSecondsAfterFinished == nil {
		return
	}
	ended := was.CompletionTime
	if ended == "" {
		ended, _ = was.Conditions[len(was.Conditions)-1]["lastTransitionTime"].(string)
	}
	if at, err := time.Parse(time.RFC3339, ended); err == nil {
		p.again = at.Add(time.Duration(*w.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now)
		p.over = p.again <= 0
	}
}
