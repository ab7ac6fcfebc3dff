package apiserver

import (
	"cmp"
	_ "embed"
	"slices"
	"sync"
	"time"

	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/jsonpatch"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// system has the objects of a new cluster as JSON, one in a line, as kube-apiserver 1.36.3 makes them. What others
// write into them is in the member late.
//
//go:embed system.jsonl
var system []byte

// seeded is an object of a new cluster, without what is its own in each.
type seeded struct {
	kind   *kinds.Kind
	object map[string]any
}

// seeds are the objects of all new clusters of this process, made once.
var seeds = sync.OnceValue(func() (out []seeded) {
	builtin := kinds.Builtin(features.Set{})
	for _, o := range slices.Concat(obj.DecodeLines(system), obj.DecodeLines(auth.Bootstrap)) {
		version, kind := cmp.Or(obj.String(o, "apiVersion"), auth.Group+"/v1"), obj.String(o, "kind")
		i := slices.IndexFunc(builtin, func(k *kinds.Kind) bool { return k.Kind == kind && k.APIVersion() == version })
		k, late := builtin[i], obj.Map(o, "late")
		for _, f := range []string{"apiVersion", "kind", "late"} {
			delete(o, f)
		}
		if k.Generation != nil {
			obj.Set(o, int64(1), "metadata", "generation")
		}
		complete(k, o, nil)
		recordOwner(&request{kind: k}, "kube-apiserver", o, nil)
		if k.Prepare != nil {
			k.Prepare(o, nil)
		}
		out = append(out, seeded{k, jsonpatch.Merge(o, late).(map[string]any)})
	}
	return out
})

// seed creates the objects of a new cluster that do not exist, all or only those of one kind.
func (s *Server) seed(only string) {
	s.store.Update(func(tx *store.Tx) error {
		for _, of := range seeds() {
			if only != "" && of.kind.Kind != only || of.kind.Group == auth.Group && !s.opts.RBAC {
				continue
			}
			o, k := obj.Clone(of.object), s.registry.find(of.kind.Group, of.kind.Version, of.kind.Plural)
			if k == nil { // it came with a later version
				continue
			}
			key := store.Key{Namespace: obj.String(o, "metadata", "namespace"),
				Name: obj.String(o, "metadata", "name")}
			if tx.Get(k.TableName(), key) != nil {
				continue
			}
			if of.kind.Kind == "ClusterRole" {
				auth.KeepGranted(o, s.opts.Features)
			}
			obj.Set(o, obj.NewUID(), "metadata", "uid")
			obj.Set(o, now(), "metadata", "creationTimestamp")
			for _, entry := range obj.Maps(o, "metadata", "managedFields") {
				entry["time"] = now()
			}
			for _, c := range obj.Maps(o, "status", "conditions") {
				c["lastTransitionTime"] = now()
			}
			tx.Put(k.TableName(), key, o, k.Shape)
		}
		return nil
	})
}

// apiService is the Service of the API server itself.
var apiService = store.Key{Namespace: "default", Name: "kubernetes"}

// serviceCheck is how often a real server looks whether its Service exists.
const serviceCheck = 10 * time.Second

// restoreService creates the API server's Service again when it has been missing for serviceCheck, and returns how
// long to wait for that.
func (s *Server) restoreService() (next time.Duration) {
	if o := s.store.Get("services", apiService); o != nil {
		s.serviceMissing = time.Time{}
		return 0
	}
	if s.serviceMissing.IsZero() {
		s.serviceMissing = time.Now()
	}
	if next = serviceCheck - time.Since(s.serviceMissing); next > 0 {
		return next
	}
	s.serviceMissing = time.Time{}
	s.seed("Service")
	return 0
}

func now() string { return timestamp(time.Now()) }

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// wakeHousekeeper wakes the housekeeper after a write: any deletion may have removed the last object of a namespace
// that is being deleted.
func (s *Server) wakeHousekeeper() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake or about to be
	}
}

// housekeep runs the controllers that belong to the API server itself, until Close.
func (s *Server) housekeep() {
	timer := time.NewTimer(eventTTL) // set below
	defer timer.Stop()
	s.wakeHousekeeper()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		next := s.serveCRDs()
		if !s.opts.KeepNamespaces {
			s.emptyNamespaces()
		}
		if s.opts.Quotas {
			s.countQuotas()
		}
		if s.opts.RBAC {
			s.aggregateRoles()
		}
		s.checkFlows()
		next = sooner(next, s.expireEvents())
		next = sooner(next, s.restoreService())
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// sooner returns the shorter of two waits; 0 means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// empty deletes all objects of a kind in a namespace ("" = all) and returns how many remain because of finalizers or a
// grace period.
func (s *Server) empty(tx *store.Tx, k *kinds.Kind, namespace string) int {
	left := 0
	for _, o := range tx.List(k.TableName(), namespace) {
		if _, gone, err := s.remove(tx, k, o, deleteOptions{}); err != nil || !gone {
			left++
		}
	}
	return left
}

// eventCheck is how long to wait between two looks at all Events, of which there may be many.
const eventCheck = time.Second

// expireEvents deletes Events past their TTL, which begins anew with each write, and returns how long to wait for the
// next one.
func (s *Server) expireEvents() (next time.Duration) {
	if wait := eventCheck - time.Since(s.eventsChecked); wait > 0 {
		return wait
	}
	s.eventsChecked = time.Now()
	s.store.Update(func(tx *store.Tx) error {
		for _, e := range tx.List("events", "") {
			left := eventTTL - time.Since(timeOf(e.Created))
			if left <= 0 { // only then is the object read
				left = eventTTL - time.Since(lastWrite(e.Value()))
			}
			if left > 0 {
				next = sooner(next, left)
			} else {
				tx.Delete("events", e.Key, nil)
			}
		}
		return nil
	})
	return next
}

// lastWrite returns the time of the last write that the managed fields of an object know of.
func lastWrite(o map[string]any) (last time.Time) {
	for _, m := range obj.Maps(o, "metadata", "managedFields") {
		if at := timeOf(obj.String(m, "time")); at.After(last) {
			last = at
		}
	}
	return last
}

// timeOf reads a time that the server wrote; zero is no time.
func timeOf(text string) time.Time {
	at, _ := time.Parse(time.RFC3339, text)
	return at
}
