package reconcile

import (
	"time"

	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
)

// statuses hold the status of each parent as declared and as stored. A server drops fields without a definition, and
// adds defaults: without the record, each sync would write such a status once more.
type statuses struct {
	keyed.Map[written]
	// early says that the last status declared beside new children stayed the same once the hook had seen the
	// children. Read and written in change.
	early bool
}

// written is the record of a parent: the status as declared and as stored, and the runs.
type written struct {
	uid, declared, stored string
	beside                string // the status declared when children were created; "": none were
	deferred              bool   // the last sync has left the status to the next
	asked                 string // the resourceVersion of the parent in the last request to the hook
	memory                int64  // taken by the answers of the last run
	squeezed              string // the version of the parent applied while the namespace was over budget
	pace                  pace
	decorated             string    // the last changes of labels and annotations
	synced, since         string    // the status of the condition Synced, and from when on
	failed                time.Time // when the condition Synced was written for a failure of the hook
	failedIn              int64     // Options.Changes at that failure
	fight                 fight
	peace                 time.Time // until then children count as contested; zero: they are not
}

// set notes how the server has stored a status.
func (s *statuses) set(parent *Object, declared, stored kube.Raw) {
	s.change(parent, func(w *written) { w.declared, w.stored = string(declared), string(stored) })
}

// change changes the record of a parent; a parent recreated under the name begins an empty record.
func (s *statuses) change(parent *Object, change func(w *written)) {
	s.Change(parent.Key(), func(w *written) {
		if w.uid != parent.UID {
			*w = written{uid: parent.UID}
		}
		change(w)
	})
}

// defers notes a declared status, and whether children have been created for the same answer. The result says whether
// to leave the status to the next sync, to which the children's events lead: a status that counts children would be
// written twice. No status is left twice in a row, or while statuses do not depend on children seen: then the event of
// the write comes with the children's events, and together they lead to one call.
func (s *statuses) defers(parent *Object, declared string, created bool) (deferred bool) {
	s.change(parent, func(w *written) {
		if w.beside != "" {
			s.early = w.beside == declared
		}
		deferred = created && !w.deferred && !s.early
		w.beside, w.deferred = "", deferred
		if created {
			w.beside = declared
		}
	})
	return deferred
}

// asks notes the version of a parent in a request to the hook.
func (s *statuses) asks(parent *Object) {
	s.change(parent, func(w *written) { w.asked = parent.ResourceVersion })
}

// asked says that the last request had this version of a parent: the answer to a write had shown the version, and the
// event brings nothing new.
func (s *statuses) asked(parent *Object) bool {
	return s.Get(parent.Key()).asked == parent.ResourceVersion
}
