package fakeapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

// The finalizers that a DELETE sets for the garbage collector (package simulate).
const (
	finalizerForeground = "foregroundDeletion"
	finalizerOrphan     = "orphan"
)

// deleteOptions are the options in the body or the query of a DELETE.
type deleteOptions struct {
	uid, version string
	policy       string
	grace        *int64
	dryRun       bool
	dryRuns      []string // as sent
	accepted     bool     // orphanDependents=false: 202 instead of 200 while the object is still there
}

var deleteOptionsKind = kube.Resource{Version: "v1", Kind: "DeleteOptions"}

// readDeleteOptions reads and checks the options of a DELETE.
func readDeleteOptions(r *request) (deleteOptions, error) {
	o, err := parseDeleteOptions(r)
	if err == nil {
		err = o.check()
	}
	return o, err
}

func parseDeleteOptions(r *request) (deleteOptions, error) {
	o := deleteOptions{policy: r.query.Get("propagationPolicy"), dryRun: r.dryRun(), dryRuns: r.query["dryRun"]}
	if g := r.query.Get("gracePeriodSeconds"); g != "" {
		n, err := strconv.ParseInt(g, 10, 64)
		if err != nil {
			return o, answer.BadRequest("%v", err)
		}
		o.grace = &n
	}
	body, err := answer.ReadBody(r.Request)
	if err != nil || len(body) == 0 {
		return o, err
	}
	v, _, err := readValue(r.Request, body, deleteOptionsKind)
	if kube.AsStatus(err) != nil {
		return o, err
	}
	in, ok := v.(map[string]any)
	if err != nil || !ok {
		return o, answer.BadRequest("couldn't get version/kind; json parse error: the body is no DeleteOptions")
	}
	o.read(in)
	return o, nil
}

// read reads the options of a body.
func (o *deleteOptions) read(in map[string]any) {
	o.uid, o.version = obj.String(in, "preconditions", "uid"), obj.String(in, "preconditions", "resourceVersion")
	if p := obj.String(in, "propagationPolicy"); p != "" {
		o.policy = p
	}
	if n, ok := obj.Int(in, "gracePeriodSeconds"); ok {
		o.grace = &n
	}
	if orphan, ok := in["orphanDependents"].(bool); ok {
		o.policy, o.accepted = string(kube.Background), !orphan
		if orphan {
			o.policy = string(kube.Orphan)
		}
	}
	o.dryRuns = append(slices.Clone(o.dryRuns), obj.Texts(in, "dryRun")...)
	o.dryRun = o.dryRun || slices.Contains(o.dryRuns, "All")
}

func (o deleteOptions) check() error {
	for _, v := range o.dryRuns {
		if v != "All" {
			return answer.Invalid(kube.StatusDetails{Group: "meta.k8s.io", Kind: "DeleteOptions"},
				[]kinds.Cause{kinds.NotSupported("dryRun", anys(o.dryRuns), "All")})
		}
	}
	switch kube.Propagation(o.policy) {
	case "", kube.Background, kube.Foreground, kube.Orphan:
		return nil
	}
	return answer.Invalid(kube.StatusDetails{Group: "meta.k8s.io", Kind: "DeleteOptions"},
		[]kinds.Cause{kinds.NotSupported("propagationPolicy", o.policy, "Foreground", "Background", "Orphan", "nil")})
}

func (s *Server) delete(w http.ResponseWriter, r *request) error {
	a, err := negotiate(r)
	if err != nil {
		return err
	}
	o, err := readDeleteOptions(r)
	if err != nil {
		return err
	}
	if o.policy == "" && r.kind.OrphanWarning != "" {
		o.policy = string(kube.Orphan)
		answer.Warn(w, r.kind.OrphanWarning)
	}
	var last *store.Object
	var gone bool
	err = s.store.Update(func(tx *store.Tx) error {
		cur := tx.Get(r.kind.TableName(), store.Key(r.key()))
		if cur == nil {
			return answer.NotFound(r.kind.Resource, r.name)
		}
		last, gone, err = s.remove(tx, r.kind, cur, o)
		return err
	})
	if err != nil {
		return err
	}
	s.wakeHousekeeper()
	if !gone || r.kind.DeleteReturns {
		code := http.StatusOK
		if !gone && o.accepted {
			code = http.StatusAccepted
		}
		return s.respond(w, r, a, code, last)
	}
	answer.JSON(w, http.StatusOK, deletedStatus(r.kind, last))
	return nil
}

func deletedStatus(k *kinds.Kind, last *store.Object) map[string]any {
	d := answer.About(k.Resource, last.Name)
	d.UID = obj.String(last.Value(), "metadata", "uid")
	return map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success",
		"details": answer.DetailsObject(d)}
}

// remove deletes an object, or marks it as being deleted if it has finalizers or a grace period. It returns the last
// state, and whether the object is deleted.
func (s *Server) remove(tx *store.Tx, k *kinds.Kind, cur *store.Object,
	o deleteOptions) (last *store.Object, gone bool, err error) {
	meta := obj.Map(cur.Value(), "metadata")
	if uid := obj.String(meta, "uid"); o.uid != "" && o.uid != uid {
		return nil, false, answer.Conflict(answer.AboutKind(k.Resource, cur.Name),
			fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might "+
				"have been deleted and then recreated", o.uid, uid))
	}
	if v := obj.String(meta, "resourceVersion"); o.version != "" && o.version != v {
		return nil, false, answer.Conflict(answer.AboutKind(k.Resource, cur.Name),
			fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record "+
				"(%s). The object might have been modified", o.version, v))
	}
	if k.TableName() == "namespaces" && slices.Contains(permanent, cur.Name) {
		return nil, false, answer.Failure(http.StatusForbidden, "Forbidden",
			fmt.Sprintf("namespaces %q is forbidden: this namespace may not be deleted", cur.Name),
			answer.About(k.Resource, cur.Name))
	}
	next := obj.Clone(cur.Value())
	meta = obj.Map(next, "metadata")
	setPolicy(meta, o.policy)
	var grace int64
	if k.Graceful != nil {
		grace = k.Graceful(next, o.grace)
	}
	deleting := obj.String(meta, "deletionTimestamp") != ""
	held := grace > 0 || len(obj.Slice(meta, "finalizers")) > 0 || len(obj.Slice(next, "spec", "finalizers")) > 0
	if !held {
		if o.dryRun {
			return cur, true, nil
		}
		if k.Graceful != nil {
			markDeleted(meta, 0)
		}
		return tx.Delete(k.TableName(), cur.Key, next), true, nil
	}
	if left, _ := obj.Int(meta, "deletionGracePeriodSeconds"); !deleting || k.Graceful != nil && grace < left {
		markDeleted(meta, grace)
	}
	if k.TableName() == "namespaces" {
		obj.Set(next, "Terminating", "status", "phase")
		delete(meta, "deletionGracePeriodSeconds")
	}
	if obj.EqualExcept(next, cur.Value()) {
		return cur, false, nil
	}
	if o.dryRun {
		return store.NewObject(cur.Key, cur.Revision, next, cur.Shape), false, nil
	}
	return tx.Put(k.TableName(), cur.Key, next, cur.Shape), false, nil
}

// markDeleted sets the deletion timestamp, which increases the generation of kinds that have one.
func markDeleted(meta map[string]any, grace int64) {
	if n, ok := obj.Int(meta, "generation"); ok && obj.String(meta, "deletionTimestamp") == "" {
		meta["generation"] = n + 1
	}
	meta["deletionTimestamp"] = time.Now().Add(time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
	meta["deletionGracePeriodSeconds"] = grace
}

// setPolicy sets the finalizers for a propagation policy. Without a policy it keeps those of the object.
func setPolicy(meta map[string]any, policy string) {
	if policy == "" {
		return
	}
	var out []any
	for _, f := range obj.Slice(meta, "finalizers") {
		if f != finalizerForeground && f != finalizerOrphan {
			out = append(out, f)
		}
	}
	switch kube.Propagation(policy) {
	case kube.Foreground:
		out = append(out, finalizerForeground)
	case kube.Orphan:
		out = append(out, finalizerOrphan)
	}
	if meta["finalizers"] = out; len(out) == 0 {
		delete(meta, "finalizers")
	}
}

// deleteCollection deletes the selected objects one by one and answers with the list of them.
func (s *Server) deleteCollection(w http.ResponseWriter, r *request) error {
	sel, err := parseListOptions(r)
	if err != nil {
		return err
	}
	o, err := readDeleteOptions(r)
	if err != nil {
		return err
	}
	var met []*store.Object
	err = s.store.Update(func(tx *store.Tx) error {
		for _, cur := range tx.List(r.kind.TableName(), r.namespace) {
			if !sel.selects(cur) {
				continue
			}
			if _, _, err := s.remove(tx, r.kind, cur, o); err != nil {
				return err
			}
			met = append(met, cur)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.wakeHousekeeper()
	meta := map[string]any{"resourceVersion": strconv.FormatInt(s.store.Revision(), 10)}
	if r.kind.Custom {
		meta["continue"] = ""
	}
	return writeList(w, r.kind, accept{}, meta, met)
}
