package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// PatchType is the media type of a patch.
type PatchType string

// The patch types (API concepts, "Types of patch"). StrategicMergePatch works on built-in kinds only: a server answers
// 415 for a custom resource.
const (
	JSONPatch           PatchType = "application/json-patch+json"
	MergePatch          PatchType = "application/merge-patch+json"
	StrategicMergePatch PatchType = "application/strategic-merge-patch+json"
	ApplyPatch          PatchType = "application/apply-patch+yaml" // JSON is YAML
)

// Propagation is the fate of the dependents of a deleted object.
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
	Name            string // Create: name of the object, if known; "": search the encoded object
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

// Get reads an object into the target of into.
func (c *Client) Get(ctx context.Context, r Resource, k Key, into any) error {
	return c.object(ctx, request{verb: "get", method: http.MethodGet}, r, k, into)
}

// ListOne reads a list of at most one object and returns the answer unchanged, for the resource version and the state
// of the server. Label and field selectors are left out: with a selector that selects nothing, a server without a
// watch cache for lists would read the whole collection from etcd. A selector by name stays, because a Role may allow
// no more.
func (c *Client) ListOne(ctx context.Context, q Query) ([]byte, error) {
	r, err := q.one()
	if err != nil {
		return nil, err
	}
	return c.callBytes(ctx, r)
}

// Create creates obj, anything that marshals to JSON (a Raw is sent unchanged), in a namespace, or below the object of
// the same name for a subresource, and decodes the answer into the target of into, unless nil. With IsAlreadyExists
// the name is taken; with UnknownOutcome the object may exist all the same.
func (c *Client) Create(ctx context.Context, r Resource, namespace string, obj, into any, o WriteOptions) error {
	body, err := encode(obj)
	if err != nil {
		return fmt.Errorf("encode %s: %w", r, err)
	}
	k := Key{Namespace: namespace, Name: o.Name}
	if k.Name == "" {
		k.Name = headOf(body).Metadata.Name
	}
	return c.object(ctx, request{verb: "create", method: http.MethodPost, subresource: o.Subresource, query: o.query(),
		body: body, contentType: "application/json"}, r, k, into)
}

// Patch changes an object by a patch of type t. ApplyPatch also creates, and requires o.FieldManager.
func (c *Client) Patch(ctx context.Context, r Resource, k Key, t PatchType, patch, into any, o WriteOptions) error {
	body, err := encode(patch)
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
	return c.object(ctx, request{verb: verb, method: http.MethodPatch, subresource: o.Subresource, query: o.query(),
		body: body, contentType: string(t)}, r, k, into)
}

// encode returns v in JSON.
func encode(v any) ([]byte, error) {
	if raw, ok := v.(Raw); ok && len(raw) > 0 {
		return raw, nil
	}
	return json.Marshal(v)
}

// DeleteOptions are the body of a DELETE.
type DeleteOptions struct {
	UID                string // precondition: the uid of the object
	ResourceVersion    string // precondition: the version of the object
	Propagation        Propagation
	GracePeriodSeconds *int64
}

// Delete requests the deletion of an object. Success means an accepted request: an object with finalizers or a grace
// period still exists. With IsNotFound the object was gone already, with IsConflict a precondition did not hold.
func (c *Client) Delete(ctx context.Context, r Resource, k Key, o DeleteOptions) error {
	type preconditions struct {
		UID             string `json:"uid,omitempty"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	}
	var dryRun []string
	if c.dry != nil {
		dryRun = []string{dryRunAll} // with a body, the server does not look at the query
	}
	body, err := json.Marshal(struct {
		Kind               string        `json:"kind"`
		APIVersion         string        `json:"apiVersion"`
		Preconditions      preconditions `json:"preconditions,omitzero"`
		PropagationPolicy  Propagation   `json:"propagationPolicy,omitempty"`
		GracePeriodSeconds *int64        `json:"gracePeriodSeconds,omitzero"`
		DryRun             []string      `json:"dryRun,omitempty"`
	}{"DeleteOptions", "v1", preconditions{o.UID, o.ResourceVersion}, o.Propagation, o.GracePeriodSeconds, dryRun})
	if err != nil {
		return fmt.Errorf("encode delete options of %s %s: %w", r, k, err)
	}
	return c.object(ctx, request{verb: "delete", method: http.MethodDelete,
		body: body, contentType: "application/json"}, r, k, nil)
}

// Raw sends a request without a body to any path outside of resources: /version, discovery, /readyz.
func (c *Client) Raw(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	return c.callBytes(ctx, request{verb: method, what: path, method: method, path: path, query: query})
}

// OtherVersions returns the other versions of a resource on the server, from discovery, which all users may read;
// without an answer there are none.
func (c *Client) OtherVersions(ctx context.Context, r Resource) (served []string) {
	var group struct {
		Versions []struct {
			Version string `json:"version"`
		} `json:"versions"`
	}
	free := *c
	free.granted = nil // discovery belongs to no resource and needs no Right
	if r.Group == "" || !free.discover(ctx, "/apis/"+r.Group, &group) {
		return nil
	}
	for _, v := range group.Versions[:min(len(group.Versions), maxVersions)] {
		other := r
		other.Version = v.Version
		if v.Version != r.Version && free.serves(ctx, other) {
			served = append(served, Printable(v.Version, maxQuoted))
		}
	}
	return served
}

// Serves reports whether discovery has a resource; without an answer, no.
func (c *Client) Serves(ctx context.Context, r Resource) bool {
	free := *c
	free.granted = nil
	return free.serves(ctx, r)
}

// serves reports whether discovery has a resource in the same version.
func (c *Client) serves(ctx context.Context, r Resource) bool {
	type entry struct {
		Name string `json:"name"`
	}
	var list struct {
		Resources []entry `json:"resources"`
	}
	return !strings.ContainsAny(r.Version, "/?#%") && c.discover(ctx, r.Root(), &list) &&
		slices.Contains(list.Resources, entry{r.Plural})
}

func (c *Client) discover(ctx context.Context, path string, into any) bool {
	body, err := c.Raw(ctx, http.MethodGet, path, nil)
	return err == nil && Unmarshal(body, into) == nil
}

// object sends a request about an object and decodes the answer, which must be about the same object.
func (c *Client) object(ctx context.Context, req request, r Resource, k Key, into any) error {
	req.resource, req.what, req.object = r, r.GroupResource()+" "+Printable(k.String(), maxQuoted), true
	var err error
	if req.path, err = req.objectPath(k); err != nil {
		return req.wrap(err)
	}
	if c.dry != nil {
		return c.tryObject(ctx, req, r, k, into)
	}
	return c.exchange(ctx, req, r, k, into)
}

// exchange sends a request about an object.
func (c *Client) exchange(ctx context.Context, req request, r Resource, k Key, into any) error {
	return c.call(ctx, req, func(body []byte) error {
		if into != nil {
			if holdsDigests(reflect.TypeOf(into)) {
				defer clear(body) // which goes back to a pool
			}
			if err := Unmarshal(body, into); err != nil {
				return fmt.Errorf("decode the answer: %w", err)
			}
		}
		return answersFor(r, k, body, into)
	})
}

// tryObject sends the request of a dry client about one object, and calls Told.
func (c *Client) tryObject(ctx context.Context, req request, r Resource, k Key, into any) error {
	standIn := c.dry.StandIn(r, k)
	if !req.write() {
		if standIn != nil {
			return Unmarshal(standIn, into)
		}
		return c.exchange(ctx, req, r, k, into)
	}
	if err := c.covered(&req); err != nil {
		return req.wrap(err)
	}
	w := Write{Verb: req.verb, Resource: r, Key: k, Subresource: req.subresource, Type: PatchType(req.contentType),
		Manager: req.query.Get("fieldManager"), Body: req.body, Before: standIn}
	if w.Before == nil && req.method != http.MethodPost {
		reader := *c
		reader.granted = nil // a read for the report, not for the controller
		if err := reader.Get(ctx, r, k, &w.Before); err != nil && !IsNotFound(err) {
			return err
		}
	}
	if body, ok := c.instead(&w); ok && standIn == nil {
		req.body, req.contentType = body, string(MergePatch)
		req.query.Del("force")
		req.query.Set("fieldValidation", "Strict") // as an apply is
	}
	anyway := req.query.Get("dryRun") != ""
	if req.query == nil {
		req.query = url.Values{}
	}
	req.query.Set("dryRun", dryRunAll)
	answer := &w.After
	if w.Err = errStandIn; standIn == nil {
		if req.method == http.MethodDelete {
			answer = nil
		}
		w.Err = c.exchange(ctx, req, r, k, rawOrNil(answer))
	}
	if w.Err != nil {
		if w.After, w.Local = c.dry.Answer(&w); !w.Local {
			w.After = nil
		}
	}
	if !anyway {
		c.dry.Told(w)
	}
	switch {
	case w.Err != nil && !w.Local:
		return w.Err
	case into != nil && w.After != nil:
		if err := Unmarshal(w.After, into); err != nil {
			return req.wrap(fmt.Errorf("decode the answer: %w", err))
		}
	}
	return nil
}

func (c *Client) instead(w *Write) (Raw, bool) {
	if w.Type != ApplyPatch {
		return nil, false
	}
	return c.dry.Instead(w)
}

// objectPath returns where the request goes: the collection for a new object, for all else the object itself.
func (r *request) objectPath(k Key) (string, error) {
	if k.Namespace == "" && !r.resource.ClusterScoped {
		return "", errors.New("no namespace is given")
	}
	if r.method == http.MethodPost && r.subresource == "" {
		return r.resource.Path(k.Namespace, "")
	}
	if k.Name == "" {
		return "", errors.New("no name is given")
	}
	return r.resource.Path(k.Namespace, k.Name, r.subresource)
}

// head is the identity in an encoded object.
type head struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// headOf leaves empty what cannot be read.
func headOf(body []byte) (h head) {
	_ = Unmarshal(body, &h) // a name that is empty is refused or not compared
	return h
}

// answersFor fails for an answer about another object than k: a proxy has changed the path, and the content would be
// taken for the content of k. A Status, the answer to most deletions, has no name.
func answersFor(r Resource, k Key, body []byte, into any) error {
	var got Key
	if obj, ok := into.(Object); ok {
		got = obj.ObjectMeta().Key()
	} else {
		h := headOf(body)
		if h.Kind == "Status" {
			return nil
		}
		got = Key{h.Metadata.Namespace, h.Metadata.Name}
	}
	want := k
	if r.ClusterScoped {
		want.Namespace = ""
	}
	if k.Name == "" { // the server has made a name
		want.Name = got.Name
	}
	if got != want && got != (Key{}) {
		return fmt.Errorf("the answer is about %s: check for a proxy that changes paths",
			Printable(got.String(), maxQuoted))
	}
	return nil
}
