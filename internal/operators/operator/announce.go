package operator

import (
	"context"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/events"
)

// announcer records what happens to one custom resource, in Events and in the log.
type announcer struct{ announce.Announcer }

// news records what a new status says that the one before did not.
func (a announcer) news(ctx context.Context, f *findings, before, after []conditions.Condition) {
	for _, n := range conditions.EventsOf(before, after) {
		if n.Type == events.Normal {
			a.Event(n.Type, n.Reason, n.Note, nil)
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("degraded", "reason", n.Reason, "message", n.Note)
		about := f.about
		if f.problem == nil && len(f.seen) > 0 { // the first child itself says what is wrong
			about = &f.seen[0]
		}
		a.Event(n.Type, n.Reason, n.Note, about)
	}
}
