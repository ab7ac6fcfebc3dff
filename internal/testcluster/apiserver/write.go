package apiserver

import (
	"context"
	"errors"
	"maps"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/ssa"
	"skiff/internal/testcluster/apiserver/store"
)

// requestTimeout is how long a write may take with all that its webhooks do, as on the real server.
const requestTimeout = 34 * time.Second

// write is a request that creates or replaces an object. It is prepared, finished and committed: in one transaction,
// unless admission plugins have a say. They mutate the object after prepare and validate it after finish, without the
// store's lock. If the stored object changes meanwhile, all starts again, as in the real server's GuaranteedUpdate.
type write struct {
	*request
	applied bool // by an apply, which brings its managedFields; for other writes they are computed
	// make returns what the request makes of the stored object (nil if there is none). The result must not share
	// memory with the stored object, which other requests read.
	make func(cur *store.Object) (map[string]any, error)

	generated bool           // the name is
	unsent    []string       // what a PUT leaves out of the metadata
	cur       *store.Object  // what next replaces, in the version of the request; nil for a new object
	base      *store.Object  // cur as it is stored
	asIf      map[string]any // what the rules compare next with: mostly the value of cur, nil for a new object
	next      map[string]any
	changed   bool // next is not the stored object: an update that changes nothing is not stored
	stored    *store.Object

	plugins         admission.Chain
	namespaceObject map[string]any
}

// errRace means that the object was changed while admission plugins looked at a change of it.
var errRace = errors.New("the object was changed meanwhile")

// write makes a write, again if the stored object was changed while others were asked about it.
func (s *Server) write(w *write) error {
	deadline := time.Now().Add(requestTimeout)
	for {
		err := s.tryWrite(w, deadline)
		switch {
		case err == nil:
			s.wakeHousekeeper()
			if !w.dryRun() && (w.cur == nil || w.changed) {
				s.wrote(w.request, w.cur, w.stored)
			}
			return nil
		case !errors.Is(err, errRace):
			return err
		case w.Context().Err() != nil || time.Now().After(deadline):
			return httpd.TimedOut()
		}
	}
}

// tryWrite makes a write in one transaction, or converts the object and asks the plugins.
func (s *Server) tryWrite(w *write, deadline time.Time) (err error) {
	ctx := w.Context()
	if convertedKind(w.kind) != nil {
		w.base = s.store.Get(w.kind.TableName(), store.Key(w.key()))
		if w.cur, err = s.convertedOne(ctx, w.kind, w.base); err != nil {
			return err
		}
	}
	err = s.store.Update(func(tx *store.Tx) error {
		if err := s.prepare(tx, w); err != nil || w.asks() {
			return err
		}
		if err := s.finish(tx, w); err != nil {
			return err
		}
		return s.commit(tx, w, w.next, w.kind.Shape)
	})
	if err != nil || !w.asks() {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return s.admitWrite(ctx, w)
}

// asks reports whether others than this server have a say in a write.
func (w *write) asks() bool { return len(w.plugins) > 0 || convertedKind(w.kind) != nil }

// prepare makes the new state of an object, up to what plugins may change.
func (s *Server) prepare(tx *store.Tx, w *write) (err error) {
	switch stored := tx.Get(w.kind.TableName(), store.Key(w.key())); { // nil for a POST, which has no name yet
	case convertedKind(w.kind) == nil:
		w.cur, w.base = stored, stored
	case stored != w.base:
		return errRace
	}
	w.plugins, w.namespaceObject = s.concerned(tx, w.request, w.operation())
	w.asIf, w.keepBody = nil, w.asks()
	if w.next, err = w.make(w.cur); err != nil {
		return err
	}
	if w.warnings = nil; w.verb != "patch" { // the real server looks at the result of a patch later
		w.warnings = oneOfEach(w.next, "")
	}
	if w.cur != nil {
		return s.prepareChange(tx, w)
	}
	if w.name != "" { // a user may be allowed to change objects by PUT or PATCH, but not to create them
		if err := s.authorize(rolesIn(tx), w.user, w.action("create")); err != nil {
			return err
		}
	}
	return s.prepareNew(tx, w)
}

// commit stores the object as value, unless the request is a dry run.
func (s *Server) commit(tx *store.Tx, w *write, value map[string]any, shape any) error {
	table, key := w.kind.TableName(), store.Key{Namespace: w.namespace, Name: obj.String(w.next, "metadata", "name")}
	var revision int64
	switch cur := tx.Get(table, key); {
	case w.cur != nil && !w.changed:
		w.stored = w.base
		return nil
	case w.cur != nil:
		revision = w.cur.Revision
	case cur != nil:
		return httpd.AlreadyExists(w.kind.Resource, key.Name, cur.Deleting)
	}
	quotas, err := s.charge(tx, w)
	if err != nil {
		return err
	}
	if w.dryRun() {
		w.stored = store.NewObject(key, revision, value, shape)
		return nil
	}
	if obj.Size(value) > maxObject {
		return httpd.PlainError(requestTooLarge)
	}
	if w.cur != nil && isRemovable(w.next) {
		// The removal is a single step: watchers get the state stored before, the client gets what it wrote, with the
		// version before.
		tx.Delete(table, key, nil)
		w.stored = store.NewObject(key, revision, w.next, w.kind.Shape)
		return nil
	}
	for _, q := range quotas {
		tx.Put("resourcequotas", q.Key, q.Value(), q.Shape)
	}
	w.stored = tx.Put(table, key, value, shape)
	return nil
}

// admitWrite does what is left of a write that is prepared.
func (s *Server) admitWrite(ctx context.Context, w *write) error {
	if err := s.mutateWrite(ctx, w); err != nil {
		return err
	}
	if err := s.store.Update(func(tx *store.Tx) error { return s.finish(tx, w) }); err != nil {
		return err
	}
	a, err := s.attributesOf(w)
	if err != nil {
		return err
	}
	if err := w.plugins.Validate(ctx, a); err != nil {
		return err
	}
	value, shape, err := s.encode(ctx, w)
	if err != nil {
		return err
	}
	return s.store.Update(func(tx *store.Tx) error {
		if tx.Get(w.kind.TableName(), store.Key(w.key())) != w.base {
			return errRace
		}
		if w.cur == nil {
			if err := namespaceOpen(tx, w.request, w.name); err != nil {
				return err
			}
		}
		if w.kind.Allocate != nil && w.changed && s.validate(tx, w.kind, w.next, w.asIf) != nil {
			return errRace // what was allocated to this object has gone to another
		}
		return s.commit(tx, w, value, shape)
	})
}

// mutateWrite has plugins mutate the object of a write.
func (s *Server) mutateWrite(ctx context.Context, w *write) error {
	if w.cur == nil && w.kind.TableName() == "pods" {
		w.kind.Prepare(w.next, nil) // what plugins do that come before webhooks: priorities and tolerations
	}
	a, err := s.attributesOf(w)
	if err != nil {
		return err
	}
	var unknown map[string]any
	a.Object, unknown = w.withoutSystemFields(a.Object)
	if w.generated {
		a.Name = ""
	}
	before := a.Object
	if err := w.plugins.Mutate(ctx, a); err != nil {
		return err
	}
	if patch.Equal(before, a.Object) {
		return nil
	}
	if err := ssa.CheckManagers(a.Object); err != nil {
		keep(obj.Map(a.Object, "metadata"), obj.Map(before, "metadata"), "managedFields")
		a.Warn(".metadata.managedFields was in an invalid state after admission; this could be caused by an " +
			"outdated mutating admission controller; please fix your requests: " + err.Error())
	}
	if w.sub == "scale" {
		w.next, err = withScale(w.kind, w.next, a.Object)
	} else {
		w.next = w.kind.ToStore(forms.Untyped(obj.Clone(a.Object)))
	}
	if err != nil {
		return err
	}
	meta := obj.Map(w.next, "metadata")
	if err := w.setNamespace(meta); err != nil {
		return err
	}
	if w.cur != nil {
		if err := checkVersions(w.kind, meta, obj.Map(w.cur.Value(), "metadata")); err != nil {
			return err
		}
		return w.revertImmutable()
	}
	dropUnset(meta)
	maps.Copy(meta, unknown)
	complete(w.kind, w.next, nil)
	return nil
}

// withoutSystemFields returns an object without what the real server sets only after the plugins that mutate, and what
// that is of its metadata.
func (w *write) withoutSystemFields(o map[string]any) (without, fields map[string]any) {
	without, fields = obj.Shallow(o), map[string]any{}
	meta := obj.Shallow(obj.Map(o, "metadata"))
	without["metadata"] = meta
	names := w.unsent
	if w.cur == nil {
		names = []string{"uid", "creationTimestamp", "generation"}
		if w.kind.NewStatus != nil {
			without["status"] = map[string]any{}
			w.kind.Type.Fill(without) // NewStatus is of built-in kinds
		}
	}
	if w.generated {
		names = append(names, "name")
	}
	for _, f := range names {
		if v, ok := meta[f]; ok {
			fields[f] = v
			delete(meta, f)
		}
	}
	return without, fields
}
