package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// ManagedByLabel is the label by which the children of an engine are known in the cluster; ManagedBy is the value for
// the children of skiff's own operators, and ManagedBySelector selects them. A watch with the selector keeps the rest
// of the cluster away from us; a child that loses the label looks deleted, and gets the label back.
const (
	ManagedByLabel    = "app.kubernetes.io/managed-by"
	ManagedBy         = "skiff"
	ManagedBySelector = ManagedByLabel + "=" + ManagedBy
)

// HashAnnotation holds the hash of a child's desired state.
const HashAnnotation = "skiff.dev/desired-hash"

// Child is one desired object, of any kind of the Engine.
type Child struct {
	// Body is all we declare, in package patch's form of JSON: apiVersion, kind, metadata (name, namespace, labels,
	// the controller owner reference) and all else in the kind, but no status. Apply adds HashAnnotation to a copy.
	// Body must not be changed.
	Body map[string]any
	// Create, if not nil, is sent by a POST in Body's place: Body and values that matter at the birth of the object
	// alone, where the server would choose otherwise.
	Create map[string]any
	// Keep names fields of spec that keep their value when Body no longer declares them.
	Keep []string
	// MinReady is how long a replaced child must have been ready before the next child is replaced.
	MinReady time.Duration
}

// Owner is the custom resource of the children.
type Owner struct {
	Resource             kube.Resource
	Namespace, Name, UID string
	// Generation is the metadata.generation of Spec. Children outside the cache are applied once per Generation.
	Generation int64
	// Spec, if not nil, determines the declared children, apart from the owner's name and from values that matter at
	// the birth of a child alone (Child.Create). Spec is compared, and must not change: see InSync.
	Spec any
	// Known are the uids of children named by the owner's status. They are looked for where the cache does not show
	// them: a child without the label of our watch still exists.
	Known map[kube.Key]string
	// Adopt takes objects of the declared names that have no controller, even without a sign of being ours.
	Adopt bool
	// KeepOthers keeps undeclared children, of kinds without a template.
	KeepOthers bool
}

// OwnerOf names obj, an object of resource r, as an owner.
func OwnerOf(r kube.Resource, obj kube.Object) Owner {
	m := obj.ObjectMeta()
	return Owner{Resource: r, Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		Generation: m.Generation}
}

// Key returns where the owner is.
func (o Owner) Key() kube.Key { return kube.Key{Namespace: o.Namespace, Name: o.Name} }

// Reference returns the controller owner reference for metadata.ownerReferences of a child. The garbage collector
// deletes the child after the owner, or before the owner at the user's request (--cascade=foreground).
func (o Owner) Reference() map[string]any {
	return map[string]any{"apiVersion": o.Resource.APIVersion(), "kind": o.Resource.Kind, "name": o.Name, "uid": o.UID,
		"controller": true, "blockOwnerDeletion": true}
}

// controls says whether Reference is the only controller among references.
func (o Owner) controls(references []any) bool {
	found := false
	for _, r := range references {
		r, _ := r.(map[string]any)
		switch {
		case maps.Equal(r, o.Reference()) && !found:
			found = true
		case r["controller"] == true:
			return false
		}
	}
	return found
}

// declared is a child in the form to compare and to send.
type declared struct {
	hash     string         // of plain; of a child made from a template, the revision
	plain    map[string]any // Child.Body, without the hash
	create   map[string]any // Child.Create; nil: plain
	spec     map[string]any // of plain
	labels   map[string]any // of plain
	keep     []string
	minReady time.Duration
}

// declare checks the declaration of a child, and finds the name and the hash.
func (a *application) declare(c *Child) (name, *declared, error) {
	apiVersion, _ := c.Body["apiVersion"].(string)
	kind, _ := c.Body["kind"].(string)
	meta, _ := c.Body["metadata"].(map[string]any)
	d := &declared{plain: c.Body, create: c.Create, keep: c.Keep, minReady: c.MinReady}
	d.spec, _ = c.Body["spec"].(map[string]any)
	d.labels, _ = meta["labels"].(map[string]any)
	references, _ := meta["ownerReferences"].([]any)
	n := name{kind: a.kindOf(apiVersion, kind)}
	n.key.Name, _ = meta["name"].(string)
	n.key.Namespace, _ = meta["namespace"].(string)
	if n.kind != nil && n.kind.template != nil {
		d.hash, _ = d.labels[n.kind.template.revision].(string)
	}
	switch {
	case n.kind == nil:
		return n, nil, fmt.Errorf("%s %s is of a kind that the engine was not made for", kind, n.key)
	case n.key.Name == "":
		return n, nil, errors.New("metadata.name is missing")
	case a.owner.Namespace != "" && n.key.Namespace != a.owner.Namespace:
		return n, nil, fmt.Errorf("%q is in namespace %q, its owner in %q: an owner is in the namespace of its "+
			"children or in none", n.key.Name, n.key.Namespace, a.owner.Namespace)
	case !a.owner.controls(references):
		return n, nil, fmt.Errorf("%q does not declare its owner in metadata.ownerReferences, or declares another "+
			"controller", n.key.Name)
	case len(references) > 1 && !a.options.OtherOwners:
		return n, nil, fmt.Errorf("%q declares more owners than its own", n.key.Name)
	case a.options.ManagedBy != "" && d.labels[ManagedByLabel] != a.options.ManagedBy:
		return n, nil, fmt.Errorf("%q does not declare the label %s=%s, without which the cache does not see it",
			n.key.Name, ManagedByLabel, a.options.ManagedBy)
	case n.kind.template == nil:
		hash, err := Hash(c.Body)
		if err != nil {
			return n, nil, fmt.Errorf("%q: %w", n.key.Name, err)
		}
		d.hash = hash
	case d.hash == "":
		return n, nil, fmt.Errorf("%q does not declare the label %s", n.key.Name, n.kind.template.revision)
	}
	return n, d, nil
}

// Hash returns the value of HashAnnotation for a Child.Body.
func Hash(body map[string]any) (string, error) {
	text, err := patch.Encode(body)
	if err != nil {
		return "", err
	}
	// 64 bits: the hash is compared with the child's previous hash, never searched for.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// post returns the body of a POST: with the hash, except for a child made from a template, which is not compared.
func (d *declared) post(kind *Kind) (kube.Raw, error) {
	if kind.template != nil {
		return patch.Encode(d.initial())
	}
	return patch.Encode(withAnnotation(d.initial(), HashAnnotation, d.hash))
}

// initial returns the child to create.
func (d *declared) initial() map[string]any {
	if d.create != nil {
		return d.create
	}
	return d.plain
}

// apply returns the body of an apply to the object with the uid.
func (d *declared) apply(uid string) (kube.Raw, error) {
	body := withAnnotation(d.plain, HashAnnotation, d.hash)
	meta, _ := body["metadata"].(map[string]any)
	return patch.Encode(with(body, "metadata", with(meta, "uid", uid)))
}

// withAnnotation returns a copy of an object with an annotation more. The copy shares all else.
func withAnnotation(object map[string]any, key, value string) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	annotations = with(annotations, key, value)
	return with(object, "metadata", with(meta, "annotations", annotations))
}

// with returns a shallow copy of m with a field more.
func with(m map[string]any, key string, value any) map[string]any {
	out := make(map[string]any, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}
