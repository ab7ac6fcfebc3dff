package apiserver

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// deleteOptions are the options in the body or the query of a DELETE.
type deleteOptions struct {
	uid, version string
	policy       string
	grace        *int64
	dryRun       bool
	dryRuns      []string      // as sent
	accepted     bool          // orphanDependents=false: 202 instead of 200 while the object is still there
	ahead        time.Duration // how far the server's clock is ahead
	causes       []kinds.Cause // what is wrong with them
}

var deleteOptionsKind = kube.Resource{Version: "v1", Kind: "DeleteOptions"}

func readDeleteOptions(r *request) (deleteOptions, error) {
	o := deleteOptions{ahead: faults.Ahead(r.Context())}
	in, err := deleteBody(r)
	if err != nil {
		return o, err
	}
	o.read(in)
	if err := o.check(); err != nil {
		return o, err
	}
	if o.policy == "" && (r.kind.OrphanWarning != "" || r.kind.TableName() == "replicationcontrollers") {
		o.policy = string(kube.Orphan)
		if r.kind.OrphanWarning != "" {
			httpd.Warn(r.writer, r.kind.OrphanWarning)
		}
	}
	return o, nil
}

// deleteBody returns the options in the body of a DELETE, or those in its query, which do not count with a body.
func deleteBody(r *request) (map[string]any, error) {
	body, err := r.readBody()
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return deleteQuery(r.query)
	}
	v, _, err := forms.ReadValue(r.Request, body, deleteOptionsKind)
	if kube.AsStatus(err) != nil {
		return nil, err
	}
	in, err := typed(body, v, err)
	if err != nil {
		return nil, httpd.BadRequest("%v", err)
	}
	kind, version := obj.String(in, "kind"), obj.String(in, "apiVersion")
	switch problem := schema.For("v1", "DeleteOptions").TypeError(in); {
	case strings.Count(version, "/") > 1:
		return nil, httpd.BadRequest("unexpected GroupVersion string: %s", version)
	case kind != "" && kind != "DeleteOptions":
		return nil, httpd.BadRequest("no kind %q is registered for version %q in scheme "+
			`"pkg/runtime/scheme.go:111"`, kind, cmp.Or(strings.TrimPrefix(version, "/"), "meta.k8s.io/v1"))
	case problem != "":
		return nil, httpd.BadRequest("%s", problem)
	}
	return in, nil
}

// deleteQuery returns the options in a query as they would be in a body.
func deleteQuery(q url.Values) (map[string]any, error) {
	out := map[string]any{"dryRun": obj.Anys(q["dryRun"])}
	if q.Has("propagationPolicy") {
		out["propagationPolicy"] = q.Get("propagationPolicy")
	}
	if q.Has("orphanDependents") {
		out["orphanDependents"] = boolParam(q.Get("orphanDependents"))
	}
	grace, err := number(q, "gracePeriodSeconds")
	if err != nil {
		return nil, httpd.BadRequest("%v", err)
	}
	if q.Has("gracePeriodSeconds") {
		out["gracePeriodSeconds"] = grace
	}
	return out, nil
}

// read reads the options of a body, and notes what is wrong with them.
func (o *deleteOptions) read(in map[string]any) {
	o.uid, o.version = obj.String(in, "preconditions", "uid"), obj.String(in, "preconditions", "resourceVersion")
	if n, ok := obj.Int(in, "gracePeriodSeconds"); ok {
		o.grace = &n
	}
	policy, given := in["propagationPolicy"].(string)
	orphan, old := in["orphanDependents"].(bool) // which the policy has replaced
	switch o.policy = policy; {
	case old && given:
		o.causes = append(o.causes, obj.Invalid("propagationPolicy", policy,
			"orphanDependents and deletionPropagation cannot be both set"))
	case old && orphan:
		o.policy = string(kube.Orphan)
	case old:
		o.policy, o.accepted = string(kube.Background), true
	}
	known := []kube.Propagation{kube.Foreground, kube.Background, kube.Orphan}
	if given && !slices.Contains(known, kube.Propagation(policy)) {
		o.causes = append(o.causes, obj.NotSupported("propagationPolicy", policy, append(known, "nil")...))
	}
	o.dryRuns = append(o.dryRuns, obj.Texts(in, "dryRun")...)
	o.dryRun = o.dryRun || slices.Contains(o.dryRuns, "All")
	if slices.ContainsFunc(o.dryRuns, func(v string) bool { return v != "All" }) {
		o.causes = append(o.causes, obj.NotSupported("dryRun", obj.Anys(o.dryRuns), "All"))
	}
}

func (o *deleteOptions) check() error { return httpd.InvalidOptions("DeleteOptions", o.causes...) }

func (o deleteOptions) object() map[string]any {
	out := obj.OmitEmpty(map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1",
		"propagationPolicy": o.policy, "dryRun": obj.Anys(o.dryRuns),
		"preconditions": obj.OmitEmpty(map[string]any{"uid": o.uid, "resourceVersion": o.version})})
	if o.grace != nil {
		out["gracePeriodSeconds"] = *o.grace
	}
	return out
}
