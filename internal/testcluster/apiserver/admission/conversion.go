package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/obj"
)

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

// ask sends the objects to the webhook and returns those in its answer.
func (w *Converter) ask(ctx context.Context, objects []map[string]any, to kube.Resource) ([]map[string]any, error) {
	list := make([]any, len(objects))
	for i, o := range objects {
		list[i] = o
	}
	var r conversionReview
	uid, err := w.client.Ask(ctx, map[string]any{"desiredAPIVersion": to.APIVersion(), "objects": list},
		conversionTimeout, &r)
	if err != nil {
		return nil, err
	}
	return r.objects(w.client.Version, uid)
}

// objects returns the objects of an answer.
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
