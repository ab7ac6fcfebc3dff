package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/kinds"
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
	request := map[string]any{"kind": kind(seen.Kind), "resource": resource(seen.Resource),
		"requestKind": kind(a.Kind), "requestResource": resource(a.Resource), "operation": a.Operation,
		"userInfo": kinds.UserInfo(a.User), "object": seen.Object, "oldObject": seen.OldObject,
		"dryRun": a.DryRun, "options": a.Options}
	for field, v := range map[string]string{"name": a.Name, "namespace": a.Namespace, "subResource": a.Subresource,
		"requestSubResource": a.Subresource} {
		if v != "" {
			request[field] = v
		}
	}
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
