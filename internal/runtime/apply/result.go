package apply

import (
	"time"

	"skiff/internal/runtime/kube"
)

// Outcome says what was done about a child.
type Outcome int

// The outcomes. Live is nil where the child does not exist or is not managed by skiff.
const (
	Unchanged Outcome = iota // it is as declared, or the server said so
	Created
	Applied   // it differed and was changed; Result.Differences says where
	Adopted   // it had no controller and has become a child of the owner; Result.Differences says what was changed
	Outdated  // it differs, and stays so until it is deleted (OnDelete); Result.Differences says where
	Foreign   // an object of that name is not managed by skiff and was left alone; Result.Message says whose it is
	Contested // something else keeps changing or deleting what we declare; Result.Message says what
	Waiting   // nothing can be done now; Result.Message says what for
	Overtaken // it changed while we wrote: Result.Live is old, and an event is on its way
	Held      // it is missing or differs, and was left so because the owner is on hold; Result.Message says where
	PortTaken // another Service has the node port; Result.Message says which
	Exhausted // the cluster has none left of what the child needs; Result.Message says what
	Deleted   // it was not declared any more, or its owner is being deleted
	Released  // it was not declared any more and had lost our label: it is there, and no child of the owner
	Replaced  // it had ended and was deleted, to be created again; Result.Message says how it ended
	Rolled    // it was of an older revision and was deleted, to be created again; Result.Message says which
	Failed    // a request failed or was refused: Result.Err
)

func (o Outcome) String() string {
	return [...]string{"unchanged", "created", "applied", "adopted", "outdated", "foreign", "contested", "waiting",
		"conflict", "paused", "node port taken", "no node port", "deleted", "released", "replaced", "rolled",
		"failed"}[o]
}

// Result is what is known about a child after Apply.
type Result struct {
	Resource    kube.Resource
	Key         kube.Key
	Outcome     Outcome
	Live        kube.Object   // the newest copy that is known, also where there is an error; nil: none. See As
	Differences []string      // the declared fields that differed
	Message     string        // for users: what is in the way; of Created: what had to be left out (Child.Create)
	Err         error         // Failed: kube.IsRefused says whether trying again can help
	Wait        time.Duration // if not 0: look again after this time, even if no event comes
	Unheld      bool          // the cache does not hold the child: of Live, if any, only the metadata is known

	// Of children that are replaced:
	Declared string // the revision that is declared; "": Live is to go
	Revision string // that Live was made from
	Deleting bool   // Live is being deleted, whether this copy shows it already or not
	Settling bool   // Live is ready, but not for as long as Child.MinReady
	Ending   string // says that the child keeps ending, how it ended, and how long the pause before the next one is
}

// Report is what is known about the children of one owner after Apply.
type Report struct {
	Children []Result // in the order in which they were declared
	Pruned   []Result // what was done about those that are not declared any more
	Err      error    // children that are replaced could not be read: of these nothing is known
}

// All returns all results.
func (r *Report) All() []Result {
	return append(r.Children[:len(r.Children):len(r.Children)], r.Pruned...)
}

// Earlier returns the shorter of two waits, where 0 means none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
