package controller

import (
	"time"

	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

// keptWrites is how many writes of a run are kept: without a history none is needed.
func (c *Controller) keptWrites() int {
	if c.o.History == nil {
		return 0
	}
	return history.MaxWrites
}

// remember adds a run to the history of the process. next says what follows from it.
func (c *Controller) remember(item queue.Item, began time.Time, took time.Duration, writes *kube.Writes, next string,
	err error) {
	switch {
	case c.o.History == nil:
		return
	case err == nil && writes.Sent() == 0:
		c.o.History.Quiet()
		return
	}
	r := history.Run{Controller: c.name, Kind: c.kind, Namespace: item.Key.Namespace, Name: item.Key.Name,
		Causes: item.Causes, MoreCauses: item.More, Due: began.Add(-item.Waited), Began: began,
		Ended: began.Add(took), Outcome: next}
	if err != nil {
		r.Failures, r.Error = c.streaks.get(item.Key).failures, history.ErrorOf(err, ReasonOf(err))
	}
	kept := writes.Kept()
	for _, w := range kept {
		r.Writes = append(r.Writes, history.Write{Verb: w.Verb, Object: w.What, Code: w.Code,
			Sent: w.Sent, Millis: history.Millis(w.Took), DryRun: w.DryRun})
	}
	r.MoreWrites = max(0, writes.Sent()-len(kept))
	c.o.History.Add(r)
}
