package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// post answers the POST of what is not stored: a review, or what a subresource asks for.
func (s *Server) post(r *request) error {
	o, err := readObject(r)
	if err != nil {
		return err
	}
	if r.kind.Kind == "Binding" { // as a subresource of the pod that the body names
		r.kind, r.sub, r.name = s.registry.find("", "v1", "pods"), "binding", obj.String(o, "metadata", "name")
		if r.name == "" {
			return httpd.BadRequest("Name parameter required.")
		}
	}
	if o, err = s.admitPosted(r, o); err != nil {
		return err
	}
	switch r.sub {
	case "binding":
		err = s.bind(r, o)
	case "eviction":
		err = s.evict(r, o)
	case "token":
		err = s.createToken(r, o)
	default:
		o, err = s.review(r, o)
	}
	switch {
	case err != nil:
		return err
	case r.sub == "binding" || r.sub == "eviction": // which leave no object of their own
		forms.WriteStatus(r.writer, http.StatusCreated, r.accept, map[string]any{"metadata": map[string]any{},
			"status": "Success", "code": int64(http.StatusCreated)})
	default:
		forms.Write(r.writer, http.StatusCreated, r.accept, r.sent.Resource, o)
	}
	return nil
}

// namesPod refuses a Binding or Eviction of another pod than that of the URL.
func (r *request) namesPod(o map[string]any) error {
	if obj.String(o, "metadata", "name") != r.name {
		return httpd.BadRequest("name in URL does not match name in %s object", r.sent.Kind)
	}
	return nil
}

// review answers a review, such as "may I do this?".
func (s *Server) review(r *request, o map[string]any) (map[string]any, error) {
	meta := obj.Map(o, "metadata")
	if meta == nil {
		meta = map[string]any{}
		o["metadata"] = meta
	}
	schema.ObjectMeta().Drop(meta)
	if err := r.setNamespace(meta); err != nil {
		return nil, err
	}
	var causes []kinds.Cause
	if r.kind.Validate != nil {
		causes = r.kind.Validate(o, nil)
	}
	// without the kind, as on the real server
	status, err := r.kind.Review(r.user), httpd.Invalid(kube.StatusDetails{Group: r.kind.Group}, causes...)
	switch {
	case err != nil:
	case r.kind.Group == "authorization.k8s.io" && s.opts.RBAC:
		status, err = s.reviewByRoles(r, o)
	case r.kind.Plural == "tokenreviews":
		status, err = s.authn.Review(o, clock(r.Request))
	}
	if err != nil {
		return nil, err
	}
	switch {
	case r.kind.Plural == "selfsubjectrulesreviews": // the real server answers without the question
		o = map[string]any{"metadata": map[string]any{}, "spec": map[string]any{}}
	case r.kind.Plural == "selfsubjectreviews":
		o["metadata"] = map[string]any{"creationTimestamp": timestamp(clock(r.Request))}
	default:
		recordOwner(r, managerOf(r), o, nil)
	}
	o["status"] = status
	return o, nil
}

// createToken answers POST serviceaccounts/NAME/token.
func (s *Server) createToken(r *request, o map[string]any) error {
	for field, want := range map[string]string{"name": r.name, "namespace": r.namespace} {
		if have := obj.String(o, "metadata", field); have != "" && have != want {
			return httpd.Invalid(httpd.AboutKind(r.sent.Resource, r.name), obj.Invalid("metadata."+field, have,
				"must match the service account "+field+" if specified"))
		}
	}
	account := s.store.Get("serviceaccounts", store.Key(r.key()))
	if account == nil {
		return httpd.NotFound(r.kind.Resource, r.name)
	}
	return s.authn.Issue(o, r.key(), obj.String(account.Value(), "metadata", "uid"), clock(r.Request))
}

// bind answers POST pods/NAME/binding, by which a scheduler assigns a pod to a node, once.
func (s *Server) bind(r *request, binding map[string]any) error {
	node, kind := obj.String(binding, "target", "name"), obj.String(binding, "target", "kind")
	if err := r.namesPod(binding); err != nil {
		return err
	}
	switch { // in the real server's order and wording
	case kind != "" && kind != "Node":
		return httpd.PlainError("target.kind: Unsupported value: %q: supported values: \"Node\", \"<empty>\"", kind)
	case node == "":
		return httpd.PlainError("target.name: Required value")
	}
	return s.store.Update(func(tx *store.Tx) error {
		cur := tx.Get(r.kind.TableName(), store.Key(r.key()))
		if cur == nil {
			return httpd.NotFound(r.kind.Resource, r.name)
		}
		if err := sameUID(r.kind, obj.Map(binding, "metadata"), obj.Map(cur.Value(), "metadata")); err != nil {
			return err
		}
		refused := func(why string) error {
			return httpd.Conflict(kube.StatusDetails{Name: r.name, Kind: "pods/binding"}, "pod "+r.name+" is "+why)
		}
		if cur.Deleting {
			return refused("being deleted, cannot be assigned to a host")
		}
		if on := obj.String(cur.Value(), "spec", "nodeName"); on != "" {
			return refused(fmt.Sprintf("already assigned to node %q", on))
		}
		if r.dryRun() {
			return nil
		}
		next := obj.Clone(cur.Value()) // a binding changes neither the generation nor managedFields
		obj.Set(next, node, "spec", "nodeName")
		for name, value := range obj.Map(binding, "metadata", "annotations") {
			obj.Set(next, value, "metadata", "annotations", name)
		}
		conditions := slices.DeleteFunc(obj.Slice(next, "status", "conditions"), func(c any) bool {
			return obj.String(c.(map[string]any), "type") == "PodScheduled"
		})
		scheduled := map[string]any{"type": "PodScheduled", "status": "True", "lastProbeTime": nil,
			"lastTransitionTime": timestamp(clock(r.Request))}
		obj.Set(next, append(conditions, scheduled), "status", "conditions")
		tx.Put(r.kind.TableName(), cur.Key, next, cur.Shape)
		return nil
	})
}

// evict answers POST pods/NAME/eviction, which deletes a pod if its PodDisruptionBudget allows that.
func (s *Server) evict(r *request, eviction map[string]any) error {
	o := deleteOptions{dryRun: r.dryRun(), ahead: faults.Ahead(r.Context())}
	if options := obj.Map(eviction, "deleteOptions"); options != nil {
		o.read(options)
	}
	if err := cmp.Or(r.namesPod(eviction), o.check()); err != nil {
		return err
	}
	defer s.wakeHousekeeper()
	var last *store.Object
	var gone bool
	err := s.store.Update(func(tx *store.Tx) error {
		pod := tx.Get(r.kind.TableName(), store.Key(r.key()))
		if pod == nil {
			return httpd.NotFound(r.kind.Resource, r.name)
		}
		budget, err := budgetFor(tx, pod)
		if err != nil {
			return err
		}
		if err := deletable(r.kind, pod, o); err != nil {
			return err
		}
		if !o.dryRun && !kinds.Holds(pod.Value(), "DisruptionTarget") {
			next := obj.Clone(pod.Value())
			setCondition(next, "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
			kinds.Condition(next, "DisruptionTarget")["lastProbeTime"] = nil
			pod, o.version = tx.Put(r.kind.TableName(), pod.Key, next, pod.Shape), ""
		}
		if last, gone, err = s.remove(tx, r.kind, pod, o); err != nil {
			return err
		}
		if budget != nil && !o.dryRun {
			s.recordEviction(tx, budget, pod.Name)
		}
		return nil
	})
	if err == nil {
		s.finishRemoval(r.Context(), r.kind, last, gone)
	}
	return err
}

var budgets = kube.Resource{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets",
	Kind: "PodDisruptionBudget"}

// budgetFor returns the budget in which the eviction of a pod counts, nil for none. The error is the answer of a
// budget that does not allow it.
func budgetFor(tx *store.Tx, pod *store.Object) (*store.Object, error) {
	if kinds.Unguarded(pod.Value()) {
		return nil, nil
	}
	guards := slices.DeleteFunc(tx.List(budgets.GroupResource(), pod.Namespace),
		func(o *store.Object) bool { return !kinds.Guards(o.Value(), pod.Value()) })
	if len(guards) == 0 {
		return nil, nil
	}
	if len(guards) > 1 {
		return nil, httpd.PlainError("This pod has more than one PodDisruptionBudget, which the eviction " +
			"subresource does not support.")
	}
	budget := guards[0]
	e := kinds.Evict(budget.Value(), pod.Value())
	switch {
	case e.Forbidden:
		return nil, httpd.Forbidden("policy", "poddisruptionbudget", budget.Name, e.Refused)
	case e.Refused != "":
		return nil, httpd.Failure(http.StatusTooManyRequests, "TooManyRequests",
			"Cannot evict pod as it would violate the pod's disruption budget.",
			kube.StatusDetails{RetryAfterSeconds: int(e.Later), Causes: []kube.StatusCause{{
				Reason: "DisruptionBudget", Message: e.Refused}}})
	case !e.Counts:
		return nil, nil
	}
	return budget, nil
}

// recordEviction notes an eviction in the status of its budget, so that the next one counts it before the controller
// of the budget has seen it.
func (s *Server) recordEviction(tx *store.Tx, budget *store.Object, pod string) {
	s.statusOf(budgets).change(tx, "kube-apiserver", budget, func(next map[string]any) {
		left, _ := obj.Int(next, "status", "disruptionsAllowed")
		obj.Set(next, left-1, "status", "disruptionsAllowed")
		obj.Set(next, now(), "status", "disruptedPods", pod)
		if left == 1 {
			generation, _ := obj.Int(next, "metadata", "generation")
			setCondition(next, "DisruptionAllowed", "False", "InsufficientPods", "")
			kinds.Condition(next, "DisruptionAllowed")["observedGeneration"] = generation
		}
	})
}
