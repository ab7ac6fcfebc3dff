package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/jsonpatch"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// patch answers PATCH. Without a resourceVersion in the result it never conflicts, because it applies to the newest
// object.
func (s *Server) patch(r *request) error {
	mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		mt = r.Header.Get("Content-Type")
	}
	t := kube.PatchType(mt)
	switch known := []kube.PatchType{kube.ApplyPatch, kube.JSONPatch, kube.MergePatch, kube.StrategicMergePatch}; {
	case slices.Contains(known, t) && (t != kube.StrategicMergePatch || !r.kind.Custom):
	case r.kind.Custom:
		return httpd.UnsupportedMediaType("the body of the request was in an unknown format - accepted media types "+
			"include: %s, %s, %s", kube.JSONPatch, kube.MergePatch, kube.ApplyPatch)
	default:
		return httpd.UnsupportedMediaType("415: Unsupported Media Type")
	}
	body, err := r.readBody()
	if err := cmp.Or(err, checkOptions(r, t == kube.ApplyPatch)); err != nil {
		return err
	}
	if t == kube.ApplyPatch {
		return s.apply(r, body)
	}
	return s.plainPatch(r, t, body)
}

// plainPatch applies a JSON, merge or strategic merge patch.
func (s *Server) plainPatch(r *request, t kube.PatchType, body []byte) error {
	p, duplicates, err := obj.Decode(body)
	_, isObject := p.(map[string]any)
	_, isList := p.([]any)
	switch null := err == nil && p == nil; {
	case t == kube.JSONPatch && err == nil && !isList && !null:
		err = fmt.Errorf("json: cannot unmarshal %s into Go value of type []handlers.jsonPatchOp", schema.JSONType(p))
	case t == kube.JSONPatch && null:
		p = []any{}
	case t == kube.StrategicMergePatch && null:
		p, isObject = map[string]any{}, true
	}
	bad := err != nil || !isObject && t != kube.JSONPatch
	return s.answerWrite(&write{request: r,
		make: func(cur *store.Object) (map[string]any, error) {
			if cur == nil {
				return nil, httpd.NotFound(r.kind.Resource, r.name)
			}
			if bad {
				if t != kube.JSONPatch {
					err = goError(body, &map[string]any{}, err)
				}
				return nil, httpd.BadRequest("error decoding patch: %v", err)
			}
			live, err := r.live(cur)
			if err != nil {
				return nil, err
			}
			result, err := patched(r, t, live, r.body(p))
			if err != nil {
				return nil, err
			}
			next, err := s.patchResult(r, t, result, duplicates)
			switch {
			case err == nil:
				return r.stored(next, cur)
			case kube.AsStatus(err) != nil:
				return nil, err
			}
			// The message quotes the patch, or the patched object, followed by the error of Go's decoder.
			quoted := fmt.Sprint(p)
			if again, patchErr := patched(r, t, live, p); t != kube.StrategicMergePatch && patchErr == nil {
				quoted = string(httpd.Encode(again))
			}
			return nil, httpd.Invalid(kube.StatusDetails{}, obj.Invalid("patch", quoted, err.Error()))
		}})
}

// live returns a stored object as a patch sees it: the object, or its scale.
func (r *request) live(cur *store.Object) (map[string]any, error) {
	if r.sub == "scale" {
		return scaleOf(r.kind, cur.Value())
	}
	return forms.Served(r.kind, cur), nil
}

func patched(r *request, t kube.PatchType, live map[string]any, p any) (any, error) {
	switch t {
	case kube.JSONPatch:
		out, err := jsonpatch.Apply(forms.Decoded(obj.Clone(live)), p) // an operation may address a part of fieldsV1
		return out, patchError(err)
	case kube.StrategicMergePatch:
		out, err := patch.StrategicMerge(r.sent.Node, live, p.(map[string]any))
		return out, patchError(err)
	}
	return jsonpatch.Merge(live, p), nil
}

// patchResult checks that the patched value is a valid version of the same object. The error is a Status, or has the
// words of Go's decoder.
func (s *Server) patchResult(r *request, t kube.PatchType, result any, duplicates []string) (map[string]any, error) {
	next, ok := result.(map[string]any)
	if !ok {
		return nil, httpd.BadRequest("the patch leaves no object")
	}
	sent := r.sent
	if t != kube.StrategicMergePatch { // which cannot change the kind
		var err error
		if sent, err = s.patchedKind(r, next); err != nil {
			return nil, err
		}
	}
	if err := checkFieldTypes(sent, forms.Untyped(next)); err != nil {
		return nil, err
	}
	complaints := complaintsOf(duplicates, prune(sent, next))
	if t == kube.JSONPatch {
		for i := range duplicates {
			complaints[i] = "json patch " + complaints[i]
		}
	}
	if err := report(r, complaints); err != nil {
		return nil, err
	}
	meta := obj.Map(next, "metadata")
	if name := obj.String(meta, "name"); name != r.name {
		return nil, r.otherName(name)
	}
	if ns := obj.String(meta, "namespace"); ns != r.namespace {
		return nil, httpd.BadRequest(otherNamespace)
	}
	if sent != r.sent {
		next = r.sent.ToServe(sent.ToStore(next))
	}
	return next, nil
}

// patchedKind returns the kind that a patch says its result is of: that of the request, or another version of it. The
// error is as that of patchResult.
func (s *Server) patchedKind(r *request, next map[string]any) (*kinds.Kind, error) {
	if _, err := typed(nil, next, nil); err != nil {
		return nil, err
	}
	if r.kind.Custom && r.sent == r.kind {
		return r.sent, checkPatchedType(r.kind, next)
	}
	kind, version := cmp.Or(obj.String(next, "kind"), r.sent.Kind), obj.String(next, "apiVersion")
	group, v, hasGroup := strings.Cut(version, "/")
	switch {
	case kind == r.sent.Kind && version == r.sent.APIVersion():
		return r.sent, nil
	case version == "": // which the real server takes for a type of its own, without fields
		return nil, r.noName()
	case strings.Contains(v, "/"):
		return nil, fmt.Errorf("unexpected GroupVersion string: %s", version)
	case !hasGroup:
		group, v = "", version
	}
	of := s.registry.ofKind(group, v, kind)
	switch {
	case of == nil || of.Custom:
		return nil, fmt.Errorf("no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"", kind,
			version)
	case of.TableName() == r.kind.TableName() && r.sub == "":
		return of, nil
	}
	internal, _, _ := strings.Cut(cmp.Or(r.sent.Group, "core"), ".")
	return nil, fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", v, kind, internal, r.sent.Kind)
}

// checkPatchedType refuses another kind or version of a patched custom resource.
func checkPatchedType(k *kinds.Kind, next map[string]any) error {
	kind, version := obj.String(next, "kind"), obj.String(next, "apiVersion")
	switch {
	case kind == "":
		//lint:ignore ST1005 these are the words of the real server
		return fmt.Errorf("Object 'Kind' is missing in '%s'", httpd.Encode(next))
	case version == "":
		return httpd.InternalError("Object 'apiVersion' is missing in 'object has no apiVersion field'")
	}
	var causes []kinds.Cause
	if kind != k.Kind {
		causes = append(causes, obj.Invalid("kind", kind, "must be "+k.Kind))
	}
	if version != k.APIVersion() {
		causes = append(causes, obj.Invalid("apiVersion", version, "must be "+k.APIVersion()))
	}
	group, _, _ := strings.Cut(version, "/")
	return httpd.Invalid(kube.StatusDetails{Name: obj.String(next, "metadata", "name"), Group: group, Kind: kind},
		causes...)
}

// patchError is the answer to a patch that cannot be applied, nil for nil.
func patchError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonpatch.ErrMalformedPatch):
		return httpd.BadRequest("error decoding patch: %v", err)
	case errors.Is(err, jsonpatch.ErrTooManyOps):
		return httpd.Failure(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge",
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d", jsonpatch.MaxOperations),
			httpd.NoDetails)
	case errors.Is(err, patch.ErrBadStrategicPatch):
		return httpd.BadRequest("%v", err)
	case errors.Is(err, patch.ErrStrategicMismatch):
		return httpd.PlainError("%v", err)
	}
	return httpd.Failure(http.StatusUnprocessableEntity, "Invalid",
		"the server rejected our request due to an error in our request", httpd.NoDetails)
}

// goError returns the error of Go's decoder for a body, which the real server answers with; other is used if Go's
// decoder accepts the body.
func goError(body []byte, into any, other error) error {
	if err := json.Unmarshal(body, into); err != nil {
		return err
	}
	return other
}
