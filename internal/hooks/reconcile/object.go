package reconcile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
)

// Object is a parent, a child or a related object, without managedFields.
type Object = apply.Live[kube.Raw]

// metadata is the metadata of an object read into fields, in the server's form.
type metadata struct {
	Name              string                `json:"name"`
	Namespace         string                `json:"namespace,omitempty"`
	UID               string                `json:"uid"`
	ResourceVersion   string                `json:"resourceVersion"`
	Generation        int64                 `json:"generation,omitempty"`
	CreationTimestamp time.Time             `json:"creationTimestamp,omitzero"`
	DeletionTimestamp time.Time             `json:"deletionTimestamp,omitzero"`
	Labels            kube.Labels           `json:"labels,omitempty"`
	Annotations       kube.Labels           `json:"annotations,omitempty"`
	OwnerReferences   []kube.OwnerReference `json:"ownerReferences,omitempty"`
	Finalizers        []string              `json:"finalizers,omitempty"`
}

// encode returns an object of a resource for a hook: whole, with apiVersion and kind.
func encode(r kube.Resource, o *Object) (wire.Item, error) {
	m := o.ObjectMeta()
	meta, err := json.Marshal(metadata{m.Name, m.Namespace, m.UID, m.ResourceVersion, m.Generation,
		m.CreationTimestamp, m.DeletionTimestamp, m.Labels, o.Annotations, m.OwnerReferences, m.Finalizers})
	if err != nil {
		return wire.Item{}, fmt.Errorf("encode %s %s: %w", r.Kind, m.Key(), err)
	}
	out := make([]byte, 0, len(meta)+len(o.Rest)+len(o.Body)+len(o.Status)+len(r.Kind)+len(r.Group)+100)
	out = append(append(out, `{"apiVersion":"`...), r.APIVersion()...)
	out = append(append(append(out, `","kind":"`...), r.Kind...), `","metadata":`...)
	out = spliced(append(out, meta...), o.Rest)
	out = spliced(append(out, '}'), o.Body)
	if len(o.Status) > 0 {
		out = append(append(append(out[:len(out)-1], `,"status":`...), o.Status...), '}')
	}
	return wire.Item{Key: m.Key(), JSON: out}, nil
}

// spliced adds the members of a JSON object to the non-empty JSON object at the end of out.
func spliced(out []byte, members kube.Raw) []byte {
	if len(members) <= len(`{}`) {
		return out
	}
	return append(append(out[:len(out)-1], ','), members[1:]...)
}

// Encode returns an object of a resource whole, with apiVersion and kind.
func Encode(r kube.Resource, o *Object) (kube.Raw, error) {
	item, err := encode(r, o)
	return item.JSON, err
}

// group returns the objects of a kind, in key order, for a request.
func group(r kube.Resource, objects []*Object) (wire.Group, error) {
	g := wire.Group{Resource: r, Items: make([]wire.Item, 0, len(objects))}
	for _, o := range objects {
		item, err := encode(r, o)
		if err != nil {
			return g, err
		}
		g.Items = append(g.Items, item)
	}
	return g, nil
}

// VersionOf changes when a parent has changed. In a kind without generations, each write is a change.
func VersionOf(parent *kube.Meta) string {
	if parent.Generation == 0 {
		return parent.ResourceVersion
	}
	return strconv.FormatInt(parent.Generation, 10)
}
