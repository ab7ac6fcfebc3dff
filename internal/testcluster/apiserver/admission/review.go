package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// reviews are what a webhook is asked for.
var reviews = reviewKind{Group: "admission.k8s.io", Kind: "AdmissionReview"}

// response is what a webhook says of a write.
type response struct {
	patch     []byte
	patchType string
	warnings  []string
	denied    *kube.Status // nil: it is allowed
}

// call asks a webhook about a write, which it sees as seen. The error is a callError, or the answer of the webhook if
// it does not allow the write.
func (w *Webhook) call(ctx context.Context, a, seen *Attributes, mutating bool) (*response, error) {
	if w.client.Err != nil {
		return nil, &callError{w.name, fmt.Errorf("could not get REST client: %w", w.client.Err)}
	}
	var r answerReview
	uid, err := w.client.Ask(ctx, question(a, seen), w.timeout, &r)
	if err != nil {
		return nil, &callError{w.name, fmt.Errorf("failed to call webhook: %w", err)}
	}
	out, err := r.check(w.name, w.client.Version, uid, mutating)
	if err != nil {
		return nil, &callError{w.name, fmt.Errorf("received invalid webhook response: %w", err)}
	}
	for _, text := range out.warnings {
		a.Warn(text)
	}
	if out.denied != nil {
		return nil, out.denied
	}
	return out, nil
}

// question is what a webhook is asked about a write: seen is what it gets to see, a what was requested.
func question(a, seen *Attributes) map[string]any {
	kind := func(r kube.Resource) map[string]any {
		return map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}
	}
	resource := func(r kube.Resource) map[string]any {
		return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Plural}
	}
	request := obj.OmitEmpty(map[string]any{"name": a.Name, "namespace": a.Namespace, "subResource": a.Subresource,
		"requestSubResource": a.Subresource})
	maps.Copy(request, map[string]any{"kind": kind(seen.Kind), "resource": resource(seen.Resource),
		"requestKind": kind(a.Kind), "requestResource": resource(a.Resource), "operation": a.Operation,
		"userInfo": kinds.UserInfo(a.User), "object": seen.Object, "oldObject": seen.OldObject,
		"dryRun": a.DryRun, "options": a.Options})
	return request
}

// answerReview is the AdmissionReview that a webhook answers with.
type answerReview struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Response   *AdmissionResponse `json:"response"`
}

// AdmissionResponse has this name for the errors of Go's decoder, which quote it.
type AdmissionResponse struct {
	UID       string       `json:"uid"`
	Allowed   bool         `json:"allowed"`
	Status    *kube.Status `json:"status"`
	Patch     []byte       `json:"patch"`
	PatchType *string      `json:"patchType"`
	Warnings  []string     `json:"warnings"`
}

// check returns what an answer says. The error is why it is none, in the words of the real server.
func (r *answerReview) check(name, version, uid string, mutating bool) (*response, error) {
	in := r.Response
	if in == nil {
		return nil, errors.New("webhook response was absent")
	}
	out := &response{patch: in.Patch, warnings: in.Warnings}
	if in.PatchType != nil {
		out.patchType = *in.PatchType
	}
	if version == "v1" {
		if err := r.checkV1(uid, mutating); err != nil {
			return nil, err
		}
	} else if out.patchType = "JSONPatch"; !mutating {
		out.patch = nil
	}
	if in.Allowed {
		return out, nil
	}
	denied := kube.Status{}
	if in.Status != nil {
		denied = *in.Status
	}
	if denied.Code = max(denied.Code, http.StatusBadRequest); denied.Code > 599 {
		denied.Code = http.StatusInternalServerError // no HTTP status has such a code
	}
	if denied.Status == "" || denied.Status == "Success" {
		denied.Status = "Failure"
	}
	by := fmt.Sprintf("admission webhook %q denied the request", name)
	switch {
	case denied.Message != "":
		denied.Message = by + ": " + denied.Message
	case denied.Reason != "":
		denied.Message = by + ": " + denied.Reason
	default:
		denied.Message = by + " without explanation"
	}
	out.denied = &denied
	return out, nil
}

// checkV1 holds an answer to what version v1 asks of it.
func (r *answerReview) checkV1(uid string, mutating bool) error {
	in := r.Response
	switch {
	case in.UID != uid:
		return fmt.Errorf("expected response.uid=%q, got %q", uid, in.UID)
	case reviews.Other(r.APIVersion, r.Kind) != nil:
		return reviews.Other(r.APIVersion, r.Kind)
	case !mutating && len(in.Patch) > 0:
		return errors.New("validating webhook may not return response.patch")
	case !mutating && in.PatchType != nil:
		return errors.New("validating webhook may not return response.patchType")
	case len(in.Patch) > 0 && in.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(in.Patch) == 0 && in.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case in.PatchType != nil && *in.PatchType == "":
		return fmt.Errorf("webhook returned invalid response.patchType of %q", *in.PatchType)
	}
	return nil
}

// conversionReviews are what a webhook is asked for.
var conversionReviews = reviewKind{Group: "apiextensions.k8s.io", Kind: "ConversionReview"}

// conversionTimeout is how long a webhook may take. The timeout is in the query, as with the real server.
const conversionTimeout = 30 * time.Second

// Converter has a webhook convert the objects of one definition.
type Converter struct {
	client *client
}

// NewConverter reads the webhook of a definition that was found valid.
func NewConverter(config map[string]any, n Network) *Converter {
	return &Converter{newClient(config, "clientConfig", "conversionReviewVersions", conversionReviews, n)}
}

// Close ends the idle connections to the webhook.
func (w *Converter) Close() { w.client.Close() }

// Convert returns objects of one kind, which have an apiVersion, in another version, in their order. It does not
// change them.
func (w *Converter) Convert(ctx context.Context, objects []map[string]any, to kube.Resource) ([]map[string]any,
	error) {
	if len(objects) == 0 {
		return nil, nil
	}
	from := fmt.Sprintf("%s, Kind=%s", obj.String(objects[0], "apiVersion"), to.Kind)
	converted, err := w.ask(ctx, objects, to)
	if err != nil {
		return nil, fmt.Errorf("conversion webhook for %s failed: %w", from, err)
	}
	if len(converted) != len(objects) {
		return nil, fmt.Errorf("conversion webhook for %s returned %d objects, expected %d", from, len(converted),
			len(objects))
	}
	for i := range converted {
		if err := checkConversion(objects[i], converted[i], to, i); err != nil {
			return nil, fmt.Errorf("conversion webhook for %s returned %w", from, err)
		}
	}
	return converted, nil
}

// ConversionResponse has this name for the errors of Go's decoder, which quote it.
type ConversionResponse struct {
	UID    string `json:"uid"`
	Result struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"result"`
	ConvertedObjects []kube.Raw `json:"convertedObjects"`
}

type conversionReview struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Response   *ConversionResponse `json:"response"`
}

func (w *Converter) ask(ctx context.Context, objects []map[string]any, to kube.Resource) ([]map[string]any, error) {
	list := obj.Each(objects, func(o map[string]any) any { return o })
	var r conversionReview
	uid, err := w.client.Ask(ctx, map[string]any{"desiredAPIVersion": to.APIVersion(), "objects": list},
		conversionTimeout, &r)
	if err != nil {
		return nil, err
	}
	return r.objects(w.client.Version, uid)
}

func (r *conversionReview) objects(version, uid string) ([]map[string]any, error) {
	switch in := r.Response; {
	case version == "v1" && conversionReviews.Other(r.APIVersion, r.Kind) != nil:
		return nil, conversionReviews.Other(r.APIVersion, r.Kind)
	case in == nil:
		return nil, errors.New("no response provided")
	case version == "v1" && in.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, in.UID)
	case in.Result.Status == "Success":
	case in.Result.Message != "":
		return nil, errors.New(in.Result.Message)
	default:
		return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", in.Result.Status)
	}
	var out []map[string]any
	for i, text := range r.Response.ConvertedObjects {
		v, _, err := obj.Decode(text)
		o, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, fmt.Errorf("object %d of the response is no object", i)
		}
		out = append(out, o)
	}
	return out, nil
}

// checkConversion holds a converted object to what a conversion may change, and gives it the metadata of the original,
// but for labels and annotations.
func checkConversion(original, converted map[string]any, to kube.Resource, i int) error {
	if v := obj.String(converted, "apiVersion"); v != to.APIVersion() {
		return fmt.Errorf("invalid object at index %d: invalid groupVersion (expected %s, received %s)", i,
			to.APIVersion(), groupVersion(v))
	}
	if kind := obj.String(converted, "kind"); kind != to.Kind {
		return fmt.Errorf("invalid object at index %d: invalid kind (expected %s, received %s)", i, to.Kind, kind)
	}
	for _, f := range [][2]string{{"name", "name"}, {"namespace", "namespace"}, {"uid", "UID"}} {
		is, want := obj.String(converted, "metadata", f[0]), obj.String(original, "metadata", f[0])
		if is != want {
			return fmt.Errorf("invalid object: must have the same %s: %s != %s", f[1], want, is)
		}
	}
	answered := obj.Map(converted, "metadata")
	if answered == nil {
		return errors.New("invalid metadata: missing metadata in converted object")
	}
	meta := obj.Clone(obj.Map(original, "metadata"))
	for _, field := range []string{"labels", "annotations"} {
		values, isMap := answered[field].(map[string]any)
		if answered[field] == nil {
			delete(meta, field)
			continue
		}
		if !isMap {
			return fmt.Errorf("invalid metadata: invalid metadata.%s of type %T in converted object", field,
				answered[field])
		}
		for k, v := range values {
			text, isText := v.(string)
			if !isText {
				return fmt.Errorf("invalid metadata: metadata.%s[%s] must be a string, but is %T in converted object",
					field, k, v)
			}
			why := obj.QualifiedName(k)
			if field == "labels" && len(why) == 0 && obj.LabelValue(text) != "" {
				why = []string{obj.LabelValue(text)}
			}
			if len(why) > 0 {
				return fmt.Errorf("invalid metadata: metadata.%s: Invalid value: %q: %s", field, k, why[0])
			}
		}
		meta[field] = values
	}
	converted["metadata"] = meta
	return nil
}
