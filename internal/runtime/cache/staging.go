package cache

import "skiff/internal/runtime/kube"

// staging is a namespace that is being read to be held again: what a list brings, and what events have changed since
// it began. Store.mu guards it.
type staging[T kube.Object] struct {
	objects map[string]form[T]
	bad     map[string]*kube.DecodeError
	gone    map[string]string // the version of the deletion of those that events have deleted
	broken  bool              // an event was not read as a whole: the namespace has to be read once more
}

// bytes is what is collected of an object.
func (st *staging[T]) bytes(name string) int64 {
	n := st.objects[name].bytes
	if bad := st.bad[name]; bad != nil {
		n += sizeOfBad(bad)
	}
	return n
}

// ahead says that the list has brought a later version of an object than an event: the server may answer a list from a
// state that the watch has not brought yet.
func (st *staging[T]) ahead(name, rv string) bool {
	f, ok := st.objects[name]
	bad := st.bad[name]
	return ok && older(rv, f.rv) || bad != nil && older(rv, bad.ResourceVersion)
}

// behind says that an event has brought at least the version of an object that the list brings now.
func (st *staging[T]) behind(name, rv string) bool {
	f, ok := st.objects[name]
	gone, deleted := st.gone[name]
	return ok && !older(f.rv, rv) || deleted && !older(gone, rv)
}

// event notes a change that the watch has brought. It returns how much more is collected.
func (st *staging[T]) event(f form[T], skimmed bool) (more int64) {
	st.broken = st.broken || skimmed
	if st.ahead(f.name, f.rv) {
		return 0
	}
	return st.put(f)
}

func (st *staging[T]) put(f form[T]) (more int64) {
	before := st.bytes(f.name)
	delete(st.gone, f.name)
	delete(st.bad, f.name)
	st.objects[f.name] = f
	return f.bytes - before
}

// undecodable notes an object of the list or of an event that does not decode. The last version that did stays.
func (st *staging[T]) undecodable(bad *kube.DecodeError) (more int64) {
	name := bad.Key.Name
	if st.ahead(name, bad.ResourceVersion) || st.behind(name, bad.ResourceVersion) {
		return 0
	}
	before := st.bytes(name)
	delete(st.gone, name)
	st.bad[name] = bad
	return st.bytes(name) - before
}

// deleted notes a deletion that the watch has brought.
func (st *staging[T]) deleted(name, rv string) (more int64) {
	if st.ahead(name, rv) {
		return 0
	}
	more = -st.bytes(name)
	delete(st.objects, name)
	delete(st.bad, name)
	st.gone[name] = rv
	return more
}

// listed notes an object of the list.
func (st *staging[T]) listed(f form[T]) (more int64) {
	if st.behind(f.name, f.rv) {
		return 0
	}
	return st.put(f)
}
