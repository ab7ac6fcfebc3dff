package apiserver

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// applyScale answers server-side apply of a Scale: it is one of the parent that has only the replicas.
func (s *Server) applyScale(r *request, scale map[string]any) error {
	if err := r.setNamespace(obj.Shallow(obj.Map(scale, "metadata"))); err != nil {
		return err
	}
	if obj.String(scale, "apiVersion") != r.sent.APIVersion() || obj.String(scale, "kind") != r.sent.Kind {
		return httpd.BadRequest("invalid object type: %v, Kind=%v", scale["apiVersion"], scale["kind"])
	}
	if err := checkFieldTypes(r.sent, scale); err != nil {
		return undecodable(r.sent, err)
	}
	if o := s.store.Get(r.kind.TableName(), store.Key(r.key())); o != nil {
		if _, err := withScale(r.kind, o.Value(), scale); err != nil {
			return err
		}
	}
	if r.kind.Custom { // a limitation of the real server
		return httpd.PlainError("failed to convert new object (/%s; %s, Kind=Scale) to proper version: request to "+
			"convert CR to an invalid group/version: %s", r.name, r.sent.APIVersion(), r.sent.APIVersion())
	}
	parent := map[string]any{"apiVersion": r.kind.APIVersion(), "kind": r.kind.Kind,
		"metadata": map[string]any{"name": cmp.Or(obj.String(scale, "metadata", "name"), r.name)}}
	if n := obj.Get(scale, "spec", "replicas"); n != nil {
		obj.Set(parent, n, r.kind.Scale.Spec...)
	}
	err := s.applyConfig(r, parent, nil)
	if status := kube.AsStatus(err); status != nil && status.Reason == kube.ReasonConflict {
		own, scales := "using "+r.kind.APIVersion(), "using "+r.sent.APIVersion()
		status.Message = strings.ReplaceAll(status.Message, own, scales)
		for i, c := range status.Details.Causes {
			status.Details.Causes[i].Message = strings.ReplaceAll(c.Message, own, scales)
		}
	}
	return err
}

// withScale returns the parent with the replicas and the resourceVersion of a Scale.
func withScale(k *kinds.Kind, cur, scale map[string]any) (map[string]any, error) {
	n, _ := obj.Int(scale, "spec", "replicas")
	if n < 0 && !k.Custom {
		return nil, httpd.Invalid(httpd.AboutKind(kinds.ScaleKind, obj.String(cur, "metadata", "name")),
			obj.Invalid("spec.replicas", n, "must be greater than or equal to 0"))
	}
	next := obj.Clone(cur)
	obj.Set(next, n, k.Scale.Spec...)
	for _, f := range []string{"resourceVersion", "uid"} {
		if v := obj.String(scale, "metadata", f); v != "" {
			obj.Set(next, v, "metadata", f)
		}
	}
	return next, nil
}

func scaleOf(k *kinds.Kind, o map[string]any) (map[string]any, error) {
	want, ok := obj.Int(o, k.Scale.Spec...)
	if !ok && k.Custom {
		return nil, httpd.InternalError("the spec replicas field %q does not exist",
			"."+strings.Join(k.Scale.Spec, "."))
	}
	observed, _ := obj.Int(o, k.Scale.Status...)
	status := map[string]any{"replicas": observed}
	if len(k.Scale.Selector) > 0 {
		switch sel := obj.Get(o, k.Scale.Selector...).(type) {
		case string:
			status["selector"] = sel
		case map[string]any:
			status["selector"] = kinds.FormatSelector(sel)
			if k.Scale.Plain {
				status["selector"] = kinds.FormatSelector(map[string]any{"matchLabels": sel})
			}
		}
	}
	meta := map[string]any{}
	for _, f := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		if v := obj.String(o, "metadata", f); v != "" {
			meta[f] = v
		}
	}
	spec := map[string]any{}
	if want != 0 || k.Custom {
		spec["replicas"] = want
	}
	return map[string]any{"kind": kinds.ScaleKind.Kind, "apiVersion": kinds.ScaleKind.APIVersion(), "metadata": meta,
		"spec": spec, "status": status}, nil
}

// scaleCauses checks the types of the fields of the scale subresource, with or without a schema (ValidateScaleSpec and
// ValidateScaleStatus in apiextensions-apiserver).
func scaleCauses(o map[string]any, sc *kinds.Scale) []kinds.Cause {
	var out []kinds.Cause
	mistyped := func(path []string, zero any, want string) {
		v, at := obj.Get(o, path...), "."+strings.Join(path, ".")
		out = append(out, obj.Invalid(at, zero, fmt.Sprintf("%s accessor error: %v is of the type %T, expected %s",
			at, v, v, want)))
	}
	for _, path := range [][]string{sc.Spec, sc.Status} {
		n, whole := obj.Get(o, path...).(int64) // the real server does not accept 3.0 either
		switch {
		case obj.Get(o, path...) == nil:
		case !whole:
			mistyped(path, 0, "int64")
		case n < 0:
			out = append(out, obj.Invalid("."+strings.Join(path, "."), n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			out = append(out, obj.Invalid("."+strings.Join(path, "."), n,
				fmt.Sprintf("should be less than or equal to %d", math.MaxInt32)))
		}
	}
	if len(sc.Selector) > 0 {
		if v := obj.Get(o, sc.Selector...); v != nil && schema.JSONType(v) != "string" {
			mistyped(sc.Selector, "", "string")
		}
	}
	return out
}

// noLog is the log of a pod that has none: nothing runs that could write one.
const noLog = "Nothing runs in this pod of skiff-dev. Its log is what its annotation " + kinds.LogAnnotation +
	" says, which is not set.\n"

// log answers GET pods/NAME/log with the text of an annotation, or else with noLog.
func (s *Server) log(r *request) error {
	o := s.store.Get(r.kind.TableName(), store.Key(r.key()))
	if o == nil {
		return httpd.NotFound(r.kind.Resource, r.name)
	}
	text, ok, why := kinds.Log(o.Value(), r.query.Get("container"))
	switch {
	case why != "":
		return httpd.BadRequest("%s", why)
	case !ok:
		text = noLog
	}
	if tail := r.query.Get("tailLines"); tail != "" {
		n, err := strconv.ParseUint(tail, 10, 31)
		if err != nil {
			return httpd.BadRequest("tailLines: %q is no number of lines", tail)
		}
		lines := strings.SplitAfter(text, "\n")
		lines = lines[:max(0, len(lines)-1)] // what follows the last newline is nothing
		text = strings.Join(lines[max(0, len(lines)-int(n)):], "")
	}
	if limit := r.query.Get("limitBytes"); limit != "" {
		n, err := strconv.ParseUint(limit, 10, 31)
		if err != nil || n == 0 {
			return httpd.BadRequest("limitBytes: %q is no number of bytes", limit)
		}
		text = text[:min(len(text), int(n))]
	}
	r.writer.Header().Set("Content-Type", "text/plain")
	httpd.Bytes(r.writer, http.StatusOK, []byte(text))
	return nil
}
