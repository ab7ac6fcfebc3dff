package reconcile

import (
	"strings"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/events"
)

const (
	// fightUndone times within fightWindow the same write was undone: no person does that by hand, another controller
	// does, which wants something else for the same parent.
	fightUndone = 5
	fightWindow = time.Minute
)

// truces are the pauses between the writes that follow.
var truces = backoff.Backoff{Min: time.Minute, Max: 16 * time.Minute}

// fight is about the writes to a parent that another writer undoes, as two controllers do that work for the same
// parent and want another status, or other labels.
type fight struct {
	since  time.Time // of the first undone
	undone int       // since then
	last   time.Time // that a write was undone
	truce  time.Duration
	until  time.Time // the end of truce: nothing is written before
	tried  bool      // something was written since
	wrote  bool      // the last write was made: what differs from what it wrote is another's
}

// resume takes in that a write was undone, and says whether to write once more.
func (f *fight) resume(now time.Time) bool {
	if now.Before(f.until) {
		return false
	}
	if !f.wrote { // it was refused, which no other writer has to do with
		return true
	}
	if now.Sub(f.last) > 2*truces.Max { // the other one had stopped
		*f = fight{wrote: true}
	}
	f.last = now
	switch {
	case f.truce > 0 && !f.tried:
		f.tried = true
		return true
	case f.truce == 0:
		if now.Sub(f.since) > fightWindow {
			f.since, f.undone = now, 0
		}
		if f.undone++; f.undone < fightUndone {
			return true
		}
	}
	f.truce, f.tried = truces.Next(f.truce), false
	f.until = now.Add(f.truce)
	return false
}

// others names the other hook controllers of the parent resource that run here, "" if there are none.
func (r *reconciler) others() string {
	if r.Others == nil {
		return ""
	}
	return strings.Join(r.Others(), ", ")
}

// contestedNote says what to do about a child that another writer keeps changing, or deletes again and again.
func (r *reconciler) contestedNote(child *apply.Result) string {
	note := child.Why().Note() + ": it is written less and less often; stop what changes it"
	if others := r.others(); others != "" {
		note += "; if it is a child of " + others + ", too, give it another name there, or other parents by a " +
			"labelSelector"
	}
	return note
}

// contested takes in the notes about the children that another writer keeps changing. They stand until that has been
// over for as long as the pause lasted: between two pauses a child is as declared for a moment, with each write. wait
// is when to look again.
func (r *reconciler) contested(parent *Object, notes []string, pause time.Duration) (wait time.Duration) {
	key, now := noteKey{r.Parent.Resource, parent.Key(), aboutContest}, time.Now()
	if len(notes) > 0 {
		r.Notes.set(key, strings.Join(notes, "; "))
		r.statuses.change(parent, func(w *written) { w.peace = now.Add(3 * pause) })
		return pause
	}
	over := false
	r.statuses.change(parent, func(w *written) {
		switch {
		case w.peace.IsZero():
		case now.Before(w.peace):
			wait = w.peace.Sub(now)
		default:
			w.peace, over = time.Time{}, true
		}
	})
	if over {
		r.Notes.set(key, "")
	}
	return wait
}

// undone says whether to leave a parent alone for now, because another writer keeps undoing what is written.
func (r *reconciler) undone(parent *Object, what string) (leave bool) {
	var first bool
	r.statuses.change(parent, func(w *written) {
		before := w.fight.until
		leave = !w.fight.resume(time.Now())
		w.fight.wrote = w.fight.wrote && leave
		first = leave && w.fight.until != before
	})
	if !leave {
		return false
	}
	note := "another controller keeps replacing " + what + ": it is written less and less often; stop one of them"
	if others := r.others(); others != "" {
		note += ", or give " + others + " other parents by a labelSelector"
	}
	r.Notes.set(noteKey{r.Parent.Resource, parent.Key(), aboutFight}, note)
	if first {
		r.announcer(parent).Event(events.Warning, "Contested", note, nil)
	}
	return true
}

// truce returns when to look again at a parent for which others write; 0: they do not, or not any more.
func (r *reconciler) truce(parent *Object) (wait time.Duration) {
	now, over := time.Now(), false
	r.statuses.change(parent, func(w *written) {
		f := &w.fight
		switch lasts := f.last.Add(2 * f.truce).Sub(now); {
		case f.truce == 0:
		case now.Before(f.until):
			wait = f.until.Sub(now)
		case f.tried && lasts > 0:
			wait = lasts
		default: // nothing had to be written, or what was written lasts
			*f, over = fight{wrote: f.wrote}, true
		}
	})
	if over {
		r.Notes.set(noteKey{r.Parent.Resource, parent.Key(), aboutFight}, "")
	}
	return wait
}
