package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/events"
)

// indexKey is the annotation and label of an indexed Job's pods.
const indexKey = "batch.kubernetes.io/job-completion-index"

// jobStatus is the part of a Job's status that the controller goes by.
type jobStatus struct {
	StartTime      string     `json:"startTime"`
	CompletionTime string     `json:"completionTime"`
	Succeeded      int        `json:"succeeded"`
	Failed         int        `json:"failed"`
	Conditions     conditions `json:"conditions"`
}

// tally counts the pods of a Job by state. Indexes are "" unless the Job is indexed.
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

// planJob runs pods until enough have succeeded, or too many have failed.
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
	end, reason, why := t.outcome(w)
	if began, err := time.Parse(time.RFC3339, start); end != "Failed" && err == nil &&
		w.Spec.ActiveDeadlineSeconds != nil {
		p.again = began.Add(time.Duration(*w.Spec.ActiveDeadlineSeconds) * time.Second).Sub(in.now)
		if p.again <= 0 {
			end, reason, why = "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
		}
	}
	if end != "" || w.Spec.Suspend {
		p.remove = t.active
	} else {
		p.runJob(w, t)
	}
	p.finish(w, was, in.now, end, reason, why)
	maps.Copy(p.status, object{"active": orNull(len(t.active) + len(p.create) - len(p.remove)),
		"ready": int64(t.ready), "succeeded": orNull(t.succeeded), "failed": orNull(t.failed), "terminating": int64(0),
		"uncountedTerminatedPods": object{}})
	if start != "" {
		p.status["startTime"] = start
	}
	return p
}

// outcome returns the condition that ends the Job, with reason and message; "" while the Job goes on.
func (t tally) outcome(w *workload) (end, reason, why string) {
	complete := t.succeeded > 0 && len(t.active) == 0
	if w.Spec.Completions != nil {
		complete = t.succeeded >= *w.Spec.Completions
	}
	met := slices.IndexFunc(w.Spec.SuccessPolicy.Rules, t.meets)
	switch {
	case t.failed > valueOr(w.Spec.BackoffLimit, 6):
		return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
	case met >= 0:
		return "Complete", "SuccessPolicy", fmt.Sprint("Matched rules at index ", met)
	case complete:
		return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
	}
	return "", "", ""
}

// successRule is a rule of the policy by which an indexed Job has succeeded before all indexes have.
type successRule struct {
	SucceededIndexes *string `json:"succeededIndexes"` // such as "0,2-4"; nil: any
	SucceededCount   *int    `json:"succeededCount"`   // nil: all of those
}

// meets reports whether enough of the indexes of a rule have succeeded.
func (t tally) meets(rule successRule) bool {
	done, want := len(t.done), 0
	if rule.SucceededIndexes != nil {
		done = 0
		for part := range strings.SplitSeq(*rule.SucceededIndexes, ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil {
				return false // never: the API server refuses such a rule
			}
			want += to - from + 1
			for index := range t.done {
				if n, err := strconv.Atoi(index); err == nil && from <= n && n <= to {
					done++
				}
			}
		}
	}
	return done >= valueOr(rule.SucceededCount, want)
}

// runJob starts as many pods as may run and are still needed, and stops surplus pods.
func (p *plan) runJob(w *workload, t tally) {
	most := valueOr(w.Spec.Parallelism, 1)
	switch {
	case w.Spec.Completions != nil:
		most = min(most, *w.Spec.Completions-t.succeeded)
	case t.succeeded > 0:
		most = min(most, len(t.active)) // a pod has found the work queue empty: no more are started
	}
	indexed := w.Spec.CompletionMode == "Indexed"
	for i := 0; len(t.active)+len(p.create) < most && p.room(w) > 0; i++ {
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

// finish sets the conditions of a Job that is complete, failed, suspended or resumed, and the Event.
func (p *plan) finish(w *workload, was jobStatus, now time.Time, end, reason, why string) {
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
	case end == "Failed":
		set("True", reason, why, "FailureTarget", end)
		p.event = &notice{events.Warning, reason, why}
	case end == "Complete":
		set("True", reason, why, "SuccessCriteriaMet", end)
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

// expire deletes an ended Job when the time to live is over.
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
