package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// PatchType is the media type of a patch.
type PatchType string

// The patches that a server takes (API concepts, "Types of patch"). StrategicMergePatch works on built-in
// kinds only: a server answers 415 for a custom resource.
const (
	JSONPatch           PatchType = "application/json-patch+json"
	MergePatch          PatchType = "application/merge-patch+json"
	StrategicMergePatch PatchType = "application/strategic-merge-patch+json"
	ApplyPatch          PatchType = "application/apply-patch+yaml" // JSON is YAML
)

// Propagation says what happens to an object's dependents when it is deleted.
type Propagation string

// The deletion propagation policies.
const (
	Background Propagation = "Background"
	Foreground Propagation = "Foreground"
	Orphan     Propagation = "Orphan"
)

// WriteOptions are the query parameters of a write.
type WriteOptions struct {
	FieldManager    string // required for ApplyPatch
	Force           bool   // ApplyPatch: take fields over from other managers
	Subresource     string // "status", "scale"; "binding" to create
	DryRun          bool
	FieldValidation string // "Ignore", "Warn", "Strict"; "": the server's default, Warn
}

func (o WriteOptions) query() url.Values {
	q := url.Values{}
	if o.FieldManager != "" {
		q.Set("fieldManager", o.FieldManager)
	}
	if o.Force {
		q.Set("force", "true")
	}
	if o.DryRun {
		q.Set("dryRun", "All")
	}
	if o.FieldValidation != "" {
		q.Set("fieldValidation", o.FieldValidation)
	}
	return q
}

// Get reads one object into what into points at.
func (c *Client) Get(ctx context.Context, r Resource, k Key, into any) error {
	return c.object(ctx, request{verb: "get", method: http.MethodGet, path: r.Path(k.Namespace, k.Name)}, r, k, into)
}

// Create creates obj, anything that marshals to JSON, in a namespace, or below the object of its name if there is a subresource, and
// decodes the answer into what into points at, unless into is nil. IsAlreadyExists says that the name is taken; UnknownOutcome that it may have
// been created all the same.
func (c *Client) Create(ctx context.Context, r Resource, namespace string, obj, into any, o WriteOptions) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode %s: %w", r, err)
	}
	k := Key{Namespace: namespace, Name: nameIn(body)}
	path := r.Path(namespace, "")
	if o.Subresource != "" {
		path = r.Path(namespace, k.Name, o.Subresource)
	}
	return c.object(ctx, request{verb: "create", method: http.MethodPost, path: path,
		subresource: o.Subresource, query: o.query(), body: body, contentType: "application/json"}, r, k, into)
}

// Patch changes an object by a patch of type t. With ApplyPatch it also creates it; o.FieldManager is then
// required.
func (c *Client) Patch(ctx context.Context, r Resource, k Key, t PatchType, patch, into any, o WriteOptions) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch of %s %s: %w", r, k, err)
	}
	verb := "patch"
	if t == ApplyPatch {
		verb = "apply"
		if o.FieldManager == "" {
			return fmt.Errorf("apply %s %s: no field manager is set", r, k)
		}
	}
	return c.object(ctx, request{verb: verb, method: http.MethodPatch, path: r.Path(k.Namespace, k.Name, o.Subresource),
		subresource: o.Subresource, query: o.query(), body: body, contentType: string(t)}, r, k, into)
}

// DeleteOptions are the body of a DELETE.
type DeleteOptions struct {
	UID                string // precondition: only this object, not a later one of the same name
	ResourceVersion    string // precondition: only in this state
	Propagation        Propagation
	GracePeriodSeconds *int64
}

// Delete asks for the deletion of an object. Success means that the server has accepted it: an object with
// finalizers or a grace period is still there. IsNotFound says that it was gone already, IsConflict that a
// precondition did not hold.
func (c *Client) Delete(ctx context.Context, r Resource, k Key, o DeleteOptions) error {
	type preconditions struct {
		UID             string `json:"uid,omitempty"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	}
	body, err := json.Marshal(struct {
		Kind               string         `json:"kind"`
		APIVersion         string         `json:"apiVersion"`
		Preconditions      *preconditions `json:"preconditions,omitempty"`
		PropagationPolicy  Propagation    `json:"propagationPolicy,omitempty"`
		GracePeriodSeconds *int64         `json:"gracePeriodSeconds,omitzero"`
	}{"DeleteOptions", "v1", &preconditions{o.UID, o.ResourceVersion}, o.Propagation, o.GracePeriodSeconds})
	if err != nil {
		return fmt.Errorf("encode delete options of %s %s: %w", r, k, err)
	}
	return c.object(ctx, request{verb: "delete", method: http.MethodDelete, path: r.Path(k.Namespace, k.Name),
		body: body, contentType: "application/json"}, r, k, nil)
}

// Raw sends a request without a body to any path, for what is no object: /version, discovery, /readyz.
func (c *Client) Raw(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	return c.call(ctx, request{verb: method, what: path, method: method, path: path, query: query})
}

// object sends a request about one object and decodes the answer.
func (c *Client) object(ctx context.Context, req request, r Resource, k Key, into any) error {
	req.resource, req.what, req.object = r, r.GroupResource()+" "+k.String(), true
	body, err := c.call(ctx, req)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(body, into, decodeOptions); err != nil {
		return req.wrap(fmt.Errorf("decode the answer: %w", err))
	}
	return nil
}

// nameIn returns the name of an encoded object for an error text.
func nameIn(body []byte) string {
	var o struct {
		Metadata struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(body, &o, decodeOptions) // only for an error text
	if o.Metadata.Name != "" {
		return o.Metadata.Name
	}
	return o.Metadata.GenerateName
}
