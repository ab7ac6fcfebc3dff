package fakeapi

import (
	"context"
	"errors"
	"maps"
	"time"

	"skiff/internal/fakeapi/admission"
	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/patch"
)

// requestTimeout is how long a write may take with all that its webhooks do, as on the real server.
const requestTimeout = 34 * time.Second

// write is a request that creates or replaces an object. It is prepared, finished and committed: in one transaction,
// unless admission plugins have a say. They mutate the object after prepare and validate it after finish, without the
// store's lock. If the stored object changes meanwhile, all starts again, as in the real server's GuaranteedUpdate.
type write struct {
	*request
	origin
	isNew bool // a POST: what is stored under the name is looked at last
	// make returns what the request makes of the stored object (nil if there is none). The result must not share
	// memory with the stored object, which other requests read.
	make func(tx *store.Tx, cur *store.Object) (map[string]any, error)

	generated bool           // the name is
	unsent    []string       // what a PUT leaves out of the metadata
	cur       *store.Object  // what next replaces, nil for a new object
	asIf      map[string]any // what the rules compare next with: mostly the value of cur
	next      map[string]any
	changed   bool // next is not the stored object: an update that changes nothing is not stored (FS-04)
	stored    *store.Object

	plugins         []admission.Plugin
	namespaceObject map[string]any
}

// errRace means that the object was changed while admission plugins looked at a change of it.
var errRace = errors.New("the object was changed meanwhile")

// created reports whether the request has created the object.
func (w *write) created() bool { return w.cur == nil }

func (s *Server) write(w *write) error {
	err := s.store.Update(func(tx *store.Tx) error {
		if err := s.prepare(tx, w); err != nil || len(w.plugins) > 0 {
			return err
		}
		if err := s.finish(tx, w); err != nil {
			return err
		}
		return s.commit(tx, w)
	})
	if err == nil && len(w.plugins) > 0 {
		err = s.writeAdmitted(w)
	}
	if err == nil {
		s.wakeHousekeeper()
	}
	return err
}

// prepare makes the new state of an object, up to what plugins may change.
func (s *Server) prepare(tx *store.Tx, w *write) error {
	chain := s.plugins(tx)
	w.keepBody = len(chain) > 0
	w.cur = nil
	if !w.isNew {
		w.cur = tx.Get(w.kind.TableName(), store.Key(w.key()))
	}
	var err error
	if w.next, err = w.make(tx, w.cur); err != nil {
		return err
	}
	if w.cur == nil && !w.isNew {
		if err := s.mayCreate(tx, w.request); err != nil {
			return err
		}
	}
	if w.cur == nil {
		err = s.prepareNew(tx, w)
	} else {
		err = s.prepareChange(tx, w)
	}
	if err != nil || len(chain) == 0 {
		return err
	}
	w.plugins = s.concerned(chain, w.request, w.operation())
	w.namespaceObject = namespaceObject(tx, w.request)
	return nil
}

// finish completes the object and checks it.
func (s *Server) finish(tx *store.Tx, w *write) error {
	if w.cur == nil {
		return s.finishNew(tx, w)
	}
	return s.finishChange(tx, w)
}

// commit stores the object, unless the request is a dry run.
func (s *Server) commit(tx *store.Tx, w *write) error {
	table, key := w.kind.TableName(), store.Key{Namespace: w.namespace, Name: obj.String(w.next, "metadata", "name")}
	var revision int64
	switch cur := tx.Get(table, key); {
	case w.cur != nil && !w.changed:
		w.stored = w.cur
		return nil
	case w.cur != nil:
		revision = w.cur.Revision
	case cur != nil:
		return answer.AlreadyExists(w.kind.Resource, key.Name)
	}
	if w.dryRun() {
		w.stored = store.NewObject(key, revision, w.next, w.kind.Shape)
		return nil
	}
	if exceedsEtcd(w.next) {
		return answer.PlainError(requestTooLarge)
	}
	if w.cur != nil && isRemovable(w.next) {
		// The removal is a single step: watchers get the state stored before, the client gets what it wrote, with the
		// version before (FS-09).
		tx.Delete(table, key, nil)
		w.stored = store.NewObject(key, revision, w.next, w.kind.Shape)
		return nil
	}
	w.stored = tx.Put(table, key, w.next, w.kind.Shape)
	return nil
}

// writeAdmitted does what is left of a write that is prepared, in which plugins have a say.
func (s *Server) writeAdmitted(w *write) error {
	ctx, cancel := context.WithTimeout(w.Context(), requestTimeout)
	defer cancel()
	for {
		err := s.admitWrite(ctx, w)
		if !errors.Is(err, errRace) {
			return err
		}
		if ctx.Err() != nil {
			return answer.TimedOut()
		}
		if err := s.store.Update(func(tx *store.Tx) error { return s.prepare(tx, w) }); err != nil {
			return err
		}
	}
}

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
	if err := validateBy(ctx, w.plugins, a); err != nil {
		return err
	}
	return s.store.Update(func(tx *store.Tx) error {
		cur := tx.Get(w.kind.TableName(), store.Key(w.key()))
		if !w.isNew && cur != w.cur {
			return errRace
		}
		if w.cur == nil {
			if err := namespaceOpen(tx, w.request, w.name); err != nil {
				return err
			}
		}
		if w.kind.Allocate != nil && w.changed && s.admit(tx, w.kind, w.next, w.asIf) != nil {
			return errRace // what was allocated to this object has gone to another
		}
		return s.commit(tx, w)
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
	if err := mutateBy(ctx, w.plugins, a); err != nil {
		return err
	}
	if patch.Equal(before, a.Object) {
		return nil
	}
	if w.sub == "scale" {
		w.next, err = withScale(w.kind, w.next, a.Object)
	} else {
		w.next = obj.Clone(a.Object)
		delete(w.next, "apiVersion")
		delete(w.next, "kind")
		if w.kind.Store != nil {
			w.next = w.kind.Store(w.next)
		}
	}
	if err != nil {
		return err
	}
	if w.cur != nil {
		return w.settle()
	}
	maps.Copy(obj.Map(w.next, "metadata"), unknown)
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
