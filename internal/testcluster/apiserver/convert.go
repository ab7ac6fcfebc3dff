package apiserver

import (
	"cmp"
	"context"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// family is what the versions of a definition have in common.
type family struct {
	webhook  *admission.Converter // converts between the versions; nil: only apiVersion and schema differ
	storage  *shape               // of the version to store in
	versions map[string]*shape
}

// shape is the Shape of a custom resource: the schema and the version that it was stored in.
type shape struct {
	*family
	kube.Resource
	schema *schema.Schema // nil for a version without one
}

// newFamily starts the family of a definition, and ends the one before.
func (s *Server) newFamily(crd map[string]any) *family {
	name, how := obj.String(crd, "metadata", "name"), obj.Map(crd, "spec", "conversion")
	if old := s.converters[name]; old != nil {
		old.Close()
		delete(s.converters, name)
	}
	f := &family{versions: map[string]*shape{}}
	if obj.String(how, "strategy") == "Webhook" {
		f.webhook = admission.NewConverter(obj.Map(how, "webhook"), s.network())
		s.converters[name] = f.webhook
	}
	return f
}

// convertedKind returns the shape of a kind that has other versions, which a webhook may convert, nil for any other.
func convertedKind(k *kinds.Kind) *shape {
	if sh, _ := k.Shape.(*shape); sh != nil && (sh.webhook != nil || len(sh.versions) > 1) {
		return sh
	}
	return nil
}

// storedIn returns the version that an object is stored in, as the definition has it now.
func (sh *shape) storedIn(o *store.Object) *shape {
	stored, _ := o.Shape.(*shape)
	if stored == nil {
		return sh.storage
	}
	return cmp.Or(sh.versions[stored.Version], stored)
}

// maxConverted is how much JSON a webhook is asked to convert at once, at least one object.
const maxConverted = 1 << 20

// converted returns objects (or nil) in the version of a kind. It may call a webhook for those that are stored in
// another version, and must not be called within a transaction.
func (s *Server) converted(ctx context.Context, k *kinds.Kind, objects []*store.Object) ([]*store.Object, error) {
	sh := convertedKind(k)
	if sh == nil {
		return objects, nil
	}
	out := slices.Clone(objects)
	var ask []map[string]any
	var at []int
	bytes := 0
	flush := func() error {
		values, err := sh.webhook.Convert(ctx, ask, k.Resource)
		if err != nil {
			return httpd.PlainError("%v", err)
		}
		for i, value := range values {
			o := out[at[i]]
			out[at[i]] = store.NewObject(o.Key, o.Revision, sh.pruned(value), k.Shape)
		}
		ask, at, bytes = nil, nil, 0
		return nil
	}
	for i, o := range objects {
		if o == nil || sh.storedIn(o).Version == k.Version {
			continue
		}
		from := sh.storedIn(o)
		if sh.webhook == nil {
			out[i] = store.NewObject(o.Key, o.Revision, sh.pruned(from.read(o)), k.Shape)
			continue
		}
		if bytes += o.Size(); bytes > maxConverted && len(ask) > 0 {
			if err := flush(); err != nil {
				return nil, err
			}
			bytes = o.Size()
		}
		ask = append(ask, forms.Decoded(obj.Clone(forms.Typed(&kinds.Kind{Resource: from.Resource}, from.read(o)))))
		at = append(at, i)
	}
	return out, flush()
}

// convertedOne is converted for one object.
func (s *Server) convertedOne(ctx context.Context, k *kinds.Kind, o *store.Object) (*store.Object, error) {
	list, err := s.converted(ctx, k, []*store.Object{o})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// pruned returns a converted object without the fields that its schema does not know. As on the real server, it does
// not get the defaults of its new version.
func (sh *shape) pruned(o map[string]any) map[string]any {
	o = forms.Untyped(obj.Shallow(o))
	if sh.schema != nil {
		o, _ = sh.schema.Prune(o)
	}
	return o
}

// read returns what is stored as the schema has it now: without the fields that are gone, with new defaults.
func (sh *shape) read(o *store.Object) map[string]any {
	if o.Shape == any(sh) || sh.schema == nil {
		return o.Value()
	}
	return sh.schema.Default(sh.pruned(o.Value()))
}

// encode returns the object of a write in the version to store it in.
func (s *Server) encode(ctx context.Context, w *write) (map[string]any, any, error) {
	sh := convertedKind(w.kind)
	if sh == nil || sh == sh.storage || !w.changed {
		return w.next, w.kind.Shape, nil
	}
	values := []map[string]any{forms.Typed(w.kind, w.next)}
	if sh.webhook != nil {
		var err error
		if values, err = sh.webhook.Convert(ctx, values, sh.storage.Resource); err != nil {
			return nil, nil, httpd.PlainError("%v", err)
		}
	}
	value := sh.storage.pruned(values[0])
	if sh.storage.schema != nil { // the real server sets the defaults of this version when it reads the object
		value = sh.storage.schema.Default(value)
	}
	return value, sh.storage, nil
}

// convertEvents converts the objects of changes to the version of a watch.
func (s *Server) convertEvents(ctx context.Context, k *kinds.Kind, events []store.Event) ([]store.Event, error) {
	if convertedKind(k) == nil || len(events) == 0 {
		return events, nil
	}
	var objects []*store.Object
	for _, e := range events {
		objects = append(objects, e.Object, e.Prev)
	}
	objects, err := s.converted(ctx, k, objects)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(events)
	for i := range out {
		out[i].Object, out[i].Prev = objects[2*i], objects[2*i+1]
	}
	return out, nil
}
