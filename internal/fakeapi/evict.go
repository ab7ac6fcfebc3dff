package fakeapi

import (
	"net/http"
	"strconv"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

var (
	evictionKind = kube.Resource{Group: "policy", Version: "v1", Kind: "Eviction"}
	budgets      = kube.Resource{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets",
		Kind: "PodDisruptionBudget"}
)

// evict answers POST pods/NAME/eviction, which deletes a pod if its PodDisruptionBudget allows that.
func (s *Server) evict(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return answer.MethodNotAllowed()
	}
	if err := checkDryRun(r); err != nil {
		return err
	}
	eviction, err := readPosted(r, evictionKind)
	if err != nil {
		return err
	}
	if eviction, err = s.admitPosted(r, eviction); err != nil {
		return err
	}
	o := deleteOptions{dryRun: r.dryRun()}
	if options := obj.Map(eviction, "deleteOptions"); options != nil {
		o.read(options)
	}
	if err := o.check(); err != nil {
		return err
	}
	err = s.store.Update(func(tx *store.Tx) error {
		pod := tx.Get(r.kind.TableName(), store.Key(r.key()))
		if pod == nil {
			return answer.NotFound(r.kind.Resource, r.name)
		}
		budget, counts, err := budgetAllows(tx, pod)
		if err != nil {
			return err
		}
		if _, _, err := s.remove(tx, r.kind, pod, o); err != nil {
			return err
		}
		if counts && !o.dryRun {
			s.recordEviction(tx, budget, pod.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.wakeHousekeeper()
	answer.Created(w)
	return nil
}

// budgetAllows returns the budget that guards a pod, nil for none, and whether the eviction counts in it. The error is
// the answer of a budget that does not allow it.
func budgetAllows(tx *store.Tx, pod *store.Object) (budget *store.Object, counts bool, err error) {
	if kinds.Unguarded(pod.Value()) {
		return nil, false, nil
	}
	for _, o := range tx.List(budgets.GroupResource(), pod.Namespace) {
		if !kinds.Guards(o.Value(), pod.Value()) {
			continue
		}
		if budget != nil {
			return nil, false, &kube.Status{Status: "Failure", Code: http.StatusInternalServerError, Message: "This " +
				"pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}
		}
		budget = o
	}
	if budget == nil {
		return nil, false, nil
	}
	e := kinds.Evict(budget.Value(), pod.Value())
	switch {
	case e.Forbidden:
		d := kube.StatusDetails{Name: budget.Name, Group: "policy", Kind: "poddisruptionbudget"}
		return nil, false, answer.Failure(http.StatusForbidden, "Forbidden",
			answer.Qualify(d)+" "+strconv.Quote(d.Name)+" is forbidden: "+e.Refused, d)
	case e.Refused != "":
		return nil, false, answer.Failure(http.StatusTooManyRequests, "TooManyRequests",
			"Cannot evict pod as it would violate the pod's disruption budget.",
			kube.StatusDetails{RetryAfterSeconds: int(e.Later), Causes: []kube.StatusCause{{
				Reason: "DisruptionBudget", Message: e.Refused}}})
	}
	return budget, e.Counts, nil
}

// recordEviction notes an eviction in the status of its budget, so that the next one counts it before the controller
// of the budget has seen it.
func (s *Server) recordEviction(tx *store.Tx, budget *store.Object, pod string) {
	next := obj.Clone(budget.Value())
	left, _ := obj.Int(next, "status", "disruptionsAllowed")
	obj.Set(next, left-1, "status", "disruptionsAllowed")
	obj.Set(next, now(), "status", "disruptedPods", pod)
	if left == 1 {
		generation, _ := obj.Int(next, "metadata", "generation")
		setCondition(next, "DisruptionAllowed", "False", "InsufficientPods", "")
		kinds.Condition(next, "DisruptionAllowed")["observedGeneration"] = generation
	}
	by := &request{kind: s.registry.find(budgets.Group, budgets.Version, budgets.Plural), sub: "status"}
	recordOwner(by, "kube-apiserver", next, budget.Value())
	tx.Put(budgets.GroupResource(), budget.Key, next, budget.Shape)
}

// log answers GET pods/NAME/log with the text of an annotation, as nothing runs that could write one.
func (s *Server) log(w http.ResponseWriter, r *request) error {
	if r.verb != "get" {
		return answer.MethodNotAllowed()
	}
	o := s.store.Get(r.kind.TableName(), store.Key(r.key()))
	if o == nil {
		return answer.NotFound(r.kind.Resource, r.name)
	}
	text, ok, why := kinds.Log(o.Value(), r.query.Get("container"))
	switch {
	case why != "":
		return answer.BadRequest("%s", why)
	case !ok:
		return answer.Failure(http.StatusNotImplemented, "NotImplemented",
			"nothing runs in this pod: skiff's embedded API server answers with the annotation "+kinds.LogAnnotation+
				" of the pod, if there is one", answer.NoDetails)
	}
	if tail := r.query.Get("tailLines"); tail != "" {
		n, err := strconv.ParseUint(tail, 10, 31)
		if err != nil {
			return answer.BadRequest("tailLines: %q is no number of lines", tail)
		}
		text = lastLines(text, int(n))
	}
	if limit := r.query.Get("limitBytes"); limit != "" {
		n, err := strconv.ParseUint(limit, 10, 31)
		if err != nil || n == 0 {
			return answer.BadRequest("limitBytes: %q is no number of bytes", limit)
		}
		text = text[:min(len(text), int(n))]
	}
	w.Header().Set("Content-Type", "text/plain")
	answer.Bytes(w, http.StatusOK, []byte(text))
	return nil
}

// lastLines returns the last n lines of a text whose lines end with a newline.
func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:max(0, len(lines)-1)] // what follows the last newline is nothing
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
