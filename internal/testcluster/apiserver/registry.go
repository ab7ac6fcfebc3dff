package apiserver

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// registry has the served kinds. Those of CRDs change.
type registry struct {
	mu    sync.RWMutex                    // guards what follows
	kinds []*kinds.Kind                   // the built-in ones first; replaced as a whole
	crds  map[string]int64                // by table: the revision of the served CRD
	ends  map[kube.Resource]chan struct{} // closed when a custom kind is no longer served
}

// served returns the built-in kinds of a version without those that are named: GROUP/VERSION, or
// GROUP/VERSION/RESOURCE.
func served(set features.Set, without []string) []*kinds.Kind {
	return slices.DeleteFunc(kinds.Builtin(set), func(k *kinds.Kind) bool {
		return slices.Contains(without, k.APIVersion()) || slices.Contains(without, k.APIVersion()+"/"+k.Plural)
	})
}

// Serves reports whether a version serves a built-in GROUP/VERSION or GROUP/VERSION/RESOURCE.
func Serves(set features.Set, name string) bool {
	return len(served(set, []string{name})) < len(served(set, nil))
}

func (g *registry) find(group, version, plural string) *kinds.Kind {
	return g.first(func(k *kinds.Kind) bool { return k.Plural == plural && k.Group == group && k.Version == version })
}

func (g *registry) ofKind(group, version, kind string) *kinds.Kind {
	return g.first(func(k *kinds.Kind) bool { return k.Kind == kind && k.Group == group && k.Version == version })
}

// first returns the first kind that is the one; nil if there is none.
func (g *registry) first(is func(*kinds.Kind) bool) *kinds.Kind {
	all := g.all()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

// builtinGroup reports whether a group is built in: for unknown resources of those a 404 is a Status, else it is text.
func (g *registry) builtinGroup(group string) bool {
	return g.first(func(k *kinds.Kind) bool { return k.Group == group && !k.Custom }) != nil
}

// all returns the served kinds.
func (g *registry) all() []*kinds.Kind {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.kinds
}

// replace replaces the kinds of a CRD by those of the given revision; revision 0 removes them.
func (g *registry) replace(table string, revision int64, ks []*kinds.Kind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if revision == 0 {
		delete(g.crds, table)
	} else {
		g.crds[table] = revision
	}
	others := slices.DeleteFunc(slices.Clone(g.kinds),
		func(k *kinds.Kind) bool { return k.Custom && k.TableName() == table })
	g.kinds = append(others, ks...)
	for r, end := range g.ends {
		if r.GroupResource() == table && !slices.ContainsFunc(ks,
			func(k *kinds.Kind) bool { return k.Resource == r }) {
			close(end)
			delete(g.ends, r)
		}
	}
}

// end returns a channel that is closed when a custom kind is no longer served, which ends its watches. It is nil for
// built-in kinds.
func (g *registry) end(k *kinds.Kind) <-chan struct{} {
	if !k.Custom {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ends[k.Resource] == nil {
		g.ends[k.Resource] = make(chan struct{})
	}
	return g.ends[k.Resource]
}

// served returns the kinds that a CRD serves, and the revision of the CRD, 0 if it is not served.
func (g *registry) served(table string) (out []*kinds.Kind, revision int64) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, k := range g.kinds {
		if k.Custom && k.TableName() == table {
			out = append(out, k)
		}
	}
	return out, g.crds[table]
}

// customTables returns the tables of the known CRDs.
func (g *registry) customTables() []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Collect(maps.Keys(g.crds))
}

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
