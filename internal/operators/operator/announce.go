package operator

import (
	"context"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/events"
)

// announcer records actions and conditions of a custom resource, in Events and in the log.
type announcer struct{ announce.Announcer }

// news records the conditions of a new status that the status before did not have.
func (a announcer) news(ctx context.Context, f *findings, before, after []conditions.Condition) {
	for _, n := range conditions.EventsOf(before, after) {
		if n.Type == events.Normal {
			a.Event(n.Type, n.Reason, n.Note, nil)
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("degraded", "reason", n.Reason, "message", n.Note)
		about := f.about
		if f.problem == nil && len(f.seen) > 0 { // the problem is in the first child itself
			about = &f.seen[0]
		}
		a.Event(n.Type, n.Reason, n.Note, about)
	}
}
