package apiserver

import (
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// limitRanges returns the LimitRanges for a write: those of the namespace, of a new pod or claim or a change of what
// these ask for.
func (w *write) limitRanges(tx *store.Tx) []*store.Object {
	switch {
	case w.kind.TableName() == "pods" && (w.cur == nil || w.sub == "resize"),
		w.kind.TableName() == "persistentvolumeclaims" && w.sub == "":
		if w.cur == nil || !w.cur.Deleting {
			return tx.List("limitranges", w.namespace)
		}
	}
	return nil
}

// fillLimits gives a pod the defaults of the LimitRanges, which no field manager owns.
func (w *write) fillLimits(tx *store.Tx) {
	for _, o := range w.limitRanges(tx) {
		if kinds.FillLimits(o.Value(), w.next); w.cur == nil && w.kind.NewStatus != nil {
			w.next["status"] = w.kind.NewStatus(w.next)
		}
	}
}

// checkLimits refuses what is not within the LimitRanges, and the growth of a claim that cannot grow.
func (w *write) checkLimits(tx *store.Tx) error {
	for _, o := range w.limitRanges(tx) {
		if text := kinds.OutOfLimits(o.Value(), w.kind.Resource, w.next); text != "" {
			return w.forbidden(text)
		}
	}
	if w.cur == nil || w.sub != "" || w.kind.TableName() != "persistentvolumeclaims" {
		return nil
	}
	class := obj.String(w.next, "spec", "storageClassName")
	expandable := tx.Get("storageclasses.storage.k8s.io", store.Key{Name: class})
	switch {
	case !kinds.Grows(w.next, w.cur.Value()):
	case obj.String(w.cur.Value(), "status", "phase") != "Bound":
		return w.forbidden("Only bound persistent volume claims can be expanded")
	case expandable == nil || !obj.Bool(expandable.Value(), "allowVolumeExpansion"):
		return w.forbidden("only dynamically provisioned pvc can be resized and the storageclass that provisions " +
			"the pvc must support resize")
	}
	return nil
}

// fillClass gives a new claim that names no StorageClass the default one, as the admission plugin DefaultStorageClass
// does: the newest of several.
func (w *write) fillClass(tx *store.Tx) {
	if w.kind.TableName() != "persistentvolumeclaims" || w.sub != "" ||
		obj.Get(w.next, "spec", "storageClassName") != nil ||
		obj.String(w.next, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class") != "" {
		return
	}
	var found *store.Object
	made := func(o *store.Object) string { return obj.String(o.Value(), "metadata", "creationTimestamp") }
	for _, o := range tx.List("storageclasses.storage.k8s.io", "") { // in the order of names
		if kinds.IsDefaultClass(o.Value()) && (found == nil || made(o) > made(found)) {
			found = o
		}
	}
	if found != nil {
		obj.Set(w.next, found.Name, "spec", "storageClassName") // which no field manager owns
	}
}
