package fakeapi

import (
	"slices"
	"strconv"
	"time"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/cause"
	"skiff/internal/fakeapi/faults"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
)

// deleteOptions are the options in the body or the query of a DELETE.
type deleteOptions struct {
	uid, version string
	policy       string
	grace        *int64
	dryRun       bool
	dryRuns      []string      // as sent
	both         bool          // the policy and orphanDependents are set, which is refused
	accepted     bool          // orphanDependents=false: 202 instead of 200 while the object is still there
	ahead        time.Duration // how far the server's clock is ahead
}

var deleteOptionsKind = kube.Resource{Version: "v1", Kind: "DeleteOptions"}

// readDeleteOptions reads and checks the options of a DELETE.
func readDeleteOptions(r *request) (deleteOptions, error) {
	o := deleteOptions{policy: r.query.Get("propagationPolicy"), dryRun: r.dryRun(), dryRuns: r.query["dryRun"],
		ahead: faults.Ahead(r.Context())}
	if g := r.query.Get("gracePeriodSeconds"); g != "" {
		n, err := strconv.ParseInt(g, 10, 64)
		if err != nil {
			return o, answer.BadRequest("%v", err)
		}
		o.grace = &n
	}
	body, err := answer.ReadBody(r.Request)
	if err != nil {
		return o, err
	}
	if len(body) > 0 {
		o = deleteOptions{ahead: o.ahead} // with a body the query does not count
		v, _, err := forms.ReadValue(r.Request, body, deleteOptionsKind)
		if kube.AsStatus(err) != nil {
			return o, err
		}
		in, ok := v.(map[string]any)
		if err != nil || !ok {
			return o, answer.BadRequest("couldn't get version/kind; json parse error: the body is no DeleteOptions")
		}
		o.read(in)
	}
	if err := o.check(); err != nil {
		return o, err
	}
	if o.policy == "" && (r.kind.OrphanWarning != "" || r.kind.TableName() == "replicationcontrollers") {
		o.policy = string(kube.Orphan)
		if r.kind.OrphanWarning != "" {
			answer.Warn(r.writer, r.kind.OrphanWarning)
		}
	}
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
	orphan, ok := in["orphanDependents"].(bool)
	if o.both = ok && o.policy != ""; ok && !o.both {
		o.policy, o.accepted = string(kube.Background), !orphan
		if orphan {
			o.policy = string(kube.Orphan)
		}
	}
	o.dryRuns = append(slices.Clone(o.dryRuns), obj.Texts(in, "dryRun")...)
	o.dryRun = o.dryRun || slices.Contains(o.dryRuns, "All")
}

// object returns the options as an object.
func (o deleteOptions) object() map[string]any {
	out := map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
	if o.policy != "" {
		out["propagationPolicy"] = o.policy
	}
	if o.grace != nil {
		out["gracePeriodSeconds"] = *o.grace
	}
	if len(o.dryRuns) > 0 {
		out["dryRun"] = obj.Anys(o.dryRuns)
	}
	for field, v := range map[string]string{"uid": o.uid, "resourceVersion": o.version} {
		if v != "" {
			obj.Set(out, v, "preconditions", field)
		}
	}
	return out
}

func (o deleteOptions) check() error {
	var causes []kinds.Cause
	if o.both {
		causes = append(causes, cause.Invalid("propagationPolicy", o.policy,
			"orphanDependents and deletionPropagation cannot be both set"))
	}
	switch kube.Propagation(o.policy) {
	case "", kube.Background, kube.Foreground, kube.Orphan:
	default:
		causes = append(causes, cause.NotSupported("propagationPolicy", o.policy, "Foreground", "Background", "Orphan",
			"nil"))
	}
	if slices.ContainsFunc(o.dryRuns, func(v string) bool { return v != "All" }) {
		causes = append(causes, cause.NotSupported("dryRun", obj.Anys(o.dryRuns), "All"))
	}
	return answer.InvalidOptions("DeleteOptions", causes...)
}
