package fakeapi

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/fields"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/jsonpatch"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// scaleKind is the kind of all scale subresources.
var scaleKind = kube.Resource{Group: "autoscaling", Version: "v1", Plural: "scale", Kind: "Scale"}

func (s *Server) serveScale(w http.ResponseWriter, r *request) error {
	switch r.verb {
	case "get":
		o := s.store.Get(r.kind.TableName(), store.Key(r.key()))
		if o == nil {
			return answer.NotFound(r.kind.Resource, r.name)
		}
		return s.answerScale(w, r, o)
	case "update", "patch":
		return s.changeScale(w, r)
	}
	return answer.MethodNotAllowed()
}

// changeScale changes the replicas of the parent object through its scale.
func (s *Server) changeScale(w http.ResponseWriter, r *request) error {
	if err := checkDryRun(r); err != nil {
		return err
	}
	body, err := answer.ReadBody(r.Request)
	if err != nil {
		return err
	}
	ct, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if r.verb == "patch" && kube.PatchType(ct) == kube.ApplyPatch {
		return s.applyScale(w, r, body)
	}
	var sent any
	if r.verb == "patch" {
		sent, err = patch.Decode(body)
	} else {
		sent, _, err = forms.ReadValue(r.Request, body, scaleKind)
	}
	if kube.AsStatus(err) != nil {
		return err
	}
	if err != nil {
		return answer.BadRequest("couldn't get version/kind; json parse error: %v", err)
	}
	parent := *r
	stored, _, err := s.change(&parent, origin{manager: managerOf(r)},
		func(_ *store.Tx, cur *store.Object) (map[string]any, error) {
			if cur == nil {
				return nil, answer.NotFound(r.kind.Resource, r.name)
			}
			scale, err := scaleOf(r.kind, cur.Value())
			if err != nil {
				return nil, err
			}
			next, err := scaled(r, kube.PatchType(ct), scale, parent.body(sent))
			if err != nil {
				return nil, err
			}
			out, err := withScale(r.kind, cur.Value(), next)
			if err != nil && r.verb == "patch" && kube.AsStatus(err) == nil {
				return nil, badPatch(string(answer.Encode(next)), err)
			}
			if err != nil {
				return nil, undecodable(&kinds.Kind{Resource: scaleKind}, err)
			}
			return out, nil
		})
	if err != nil {
		return err
	}
	return s.answerScale(w, r, stored)
}

func (s *Server) answerScale(w http.ResponseWriter, r *request, o *store.Object) error {
	o, err := s.convertedOne(r.Context(), r.kind, o)
	if err != nil {
		return err
	}
	scale, err := scaleOf(r.kind, o.Value())
	if err != nil {
		return err
	}
	answer.JSON(w, http.StatusOK, scale)
	return nil
}

// applyScale answers server-side apply of a Scale: it is one of the parent that has only the replicas.
func (s *Server) applyScale(w http.ResponseWriter, r *request, body []byte) error {
	v, _, err := obj.DecodeYAML(body)
	scale, ok := v.(map[string]any)
	if err != nil || !ok {
		return answer.BadRequest("error decoding YAML: %v", cmp.Or(err, errNoObject))
	}
	if err := r.setNamespace(obj.Shallow(obj.Map(scale, "metadata"))); err != nil {
		return err
	}
	if obj.String(scale, "apiVersion") != scaleKind.APIVersion() || obj.String(scale, "kind") != scaleKind.Kind {
		return answer.BadRequest("invalid object type: %v, Kind=%v", scale["apiVersion"], scale["kind"])
	}
	if o := s.store.Get(r.kind.TableName(), store.Key(r.key())); o != nil {
		if _, err := withScale(r.kind, o.Value(), scale); err != nil {
			return err
		}
	}
	if r.kind.Custom { // a limitation of the real server
		return answer.PlainError("failed to convert new object (/%s; %s, Kind=Scale) to proper version: request to "+
			"convert CR to an invalid group/version: %s", r.name, scaleKind.APIVersion(), scaleKind.APIVersion())
	}
	meta := map[string]any{"name": r.name}
	if sent := obj.String(scale, "metadata", "name"); sent != "" {
		meta["name"] = sent
	}
	parent := map[string]any{"apiVersion": r.kind.APIVersion(), "kind": r.kind.Kind, "metadata": meta}
	if n := obj.Get(scale, "spec", "replicas"); n != nil {
		obj.Set(parent, n, r.kind.Scale.Spec...)
	}
	stored, _, err := s.applyPatch(w, r, answer.Encode(parent))
	if status := kube.AsStatus(err); status != nil && status.Reason == kube.ReasonConflict {
		own, scales := "using "+r.kind.APIVersion(), "using "+scaleKind.APIVersion()
		status.Message = strings.ReplaceAll(status.Message, own, scales)
		for i, c := range status.Details.Causes {
			status.Details.Causes[i].Message = strings.ReplaceAll(c.Message, own, scales)
		}
	}
	if err != nil {
		return err
	}
	return s.answerScale(w, r, stored)
}

// scaled returns the Scale that the request results in.
func scaled(r *request, t kube.PatchType, scale map[string]any, sent any) (any, error) {
	switch {
	case r.verb == "update":
		return sent, nil
	case t == kube.JSONPatch:
		out, err := jsonpatch.Apply(scale, sent)
		if err != nil {
			return nil, jsonPatchError(err)
		}
		return out, nil
	case t == kube.MergePatch, t == kube.StrategicMergePatch: // a Scale has no lists, so that both are the same
		return jsonpatch.Merge(scale, sent), nil
	}
	return nil, unsupportedPatch(r)
}

// withScale returns the parent with the replicas and the resourceVersion of a Scale.
func withScale(k *kinds.Kind, cur map[string]any, scale any) (map[string]any, error) {
	m, ok := scale.(map[string]any)
	if !ok {
		return nil, answer.BadRequest("the object provided is unrecognized (must be of type Scale)")
	}
	n, ok := obj.Int(m, "spec", "replicas")
	if !ok && obj.Get(m, "spec", "replicas") != nil {
		return nil, fmt.Errorf("json: cannot unmarshal %s into Go struct field ScaleSpec.spec.replicas of type int32",
			fields.JSONType(obj.Get(m, "spec", "replicas")))
	}
	name := obj.String(cur, "metadata", "name")
	if n < 0 && !k.Custom {
		d := kube.StatusDetails{Name: name, Group: scaleKind.Group, Kind: scaleKind.Kind}
		return nil, answer.Invalid(d, []kinds.Cause{kinds.Invalid("spec.replicas", n,
			"must be greater than or equal to 0")})
	}
	next := obj.Clone(cur)
	obj.Set(next, n, k.Scale.Spec...)
	for _, f := range []string{"resourceVersion", "uid"} {
		if v := obj.String(m, "metadata", f); v != "" {
			obj.Set(next, v, "metadata", f)
		}
	}
	return next, nil
}

// scaleOf returns the Scale of an object.
func scaleOf(k *kinds.Kind, o map[string]any) (map[string]any, error) {
	want, ok := obj.Int(o, k.Scale.Spec...)
	if !ok && k.Custom {
		return nil, answer.InternalError("the spec replicas field %q does not exist",
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
	return map[string]any{"kind": scaleKind.Kind, "apiVersion": scaleKind.APIVersion(), "metadata": meta,
		"spec": spec, "status": status}, nil
}
