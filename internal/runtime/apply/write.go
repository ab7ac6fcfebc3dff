package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
)

// create posts a child missing in the cache. met says that an object of the name existed: the object was observed, and
// nothing was created.
func (c *child) create(ctx context.Context) (met bool, err error) {
	request, again, retried := requestOf(c.want.hash, 0), c.mem.seen != "", c.kind.scarce.retries(c)
	if err := c.mem.refused(request); err != nil || c.kind.scarce.holds(c) {
		return false, err
	}
	if again {
		if t := c.mem.wrong; t != nil {
			if pause := t.losses.pause(c.want.hash, withDeletions); pause > 0 {
				c.conclude(Contested, pause, "is deleted again and again")
				return false, nil
			}
		}
		// An owner whose children are removed in order has a finalizer as long as there are children. And before a
		// retry, the owner was asked for with the first try, milliseconds ago.
		if c.kind.template == nil && !retried {
			if gone, err := c.goneWithOwner(ctx); gone || err != nil {
				return false, err
			}
		}
	}
	body, err := c.want.post(c.kind)
	if err != nil {
		return false, fmt.Errorf("encode %s: %w", c, err)
	}
	answer := c.kind.mirror.empty()
	err = c.client.Create(ctx, c.kind.resource, c.key.Namespace, body, answer, c.createOptions())
	switch {
	case err == nil:
		c.created(answer, again)
		return false, nil
	case c.kind.scarce.exhausted(err), again && !retried && c.kind.scarce.taken(err):
		return c.kind.scarce.refused(ctx, c, err)
	case kube.IsAlreadyExists(err), kube.IsInvalid(err) && c.kind.template == nil:
		// The cache is behind, or the object lacks our label, or the object is foreign. A 422 can mean the same: see
		// nodePorts.taken.
		return c.meet(ctx, err)
	case kube.IsRefused(err):
		c.mem.trouble().refusal.Note(request, err)
	case kube.IsNamespaceTerminating(err):
		c.conclude(Waiting, whileDeleting, "waits until its namespace is deleted")
		return false, nil
	}
	return false, err
}

// createOptions are strict, like every apply, which refuses unknown fields with a 500: a typo in a template is refused
// at the first request, not the second.
func (c *child) createOptions() kube.WriteOptions {
	return kube.WriteOptions{FieldManager: c.options.Manager, FieldValidation: "Strict", Name: c.key.Name}
}

// created takes in the answer to a POST; again says that the child existed before and was not removed by us.
func (c *child) created(answer kube.Object, again bool) {
	was := c.mem.wrong
	*c.mem = memory{kind: c.kind, key: c.key}
	if was != nil {
		c.mem.wrong = &trouble{contest: was.contest, losses: was.losses, crash: was.crash}
		c.mem.wrong.crash.follow(uidOf(answer), time.Now())
	}
	if again {
		c.mem.trouble().losses.add(c.want.hash, withDeletions)
	}
	c.kind.scarce.allocated(c)
	c.answered(answer)
	c.outcome = Created
}

// meet observes the object in the way of a POST, if any.
func (c *child) meet(ctx context.Context, refusal error) (met bool, err error) {
	if t := c.mem.wrong; t != nil {
		t.removed, t.gone = "", false
	}
	if err := c.ask(ctx); err != nil {
		return false, errors.Join(refusal, err)
	}
	if c.live != nil || c.other != nil {
		return true, nil
	}
	if c.kind.scarce.taken(refusal) {
		return c.kind.scarce.refused(ctx, c, refusal)
	}
	if kube.IsInvalid(refusal) {
		c.mem.trouble().refusal.Note(requestOf(c.want.hash, 0), refusal)
		return false, refusal
	}
	c.conclude(Conflict, soon, "has just been deleted")
	return false, nil
}

// goneWithOwner asks the server once whether the owner is gone, or replaced, or being deleted. The question comes
// before a lost child is made again, and before an adoption: the mirrors of two kinds are not of one moment, least of
// all after an outage, and the child may have gone with an owner whose deletion has not reached us. The garbage
// collector would remove our new child, and the event would make us create another.
func (c *child) goneWithOwner(ctx context.Context) (bool, error) {
	a := c.application
	a.lock <- struct{}{}
	defer func() { <-a.lock }()
	if !a.asked {
		var live struct {
			kube.Meta `json:"metadata"`
		}
		err := a.client.Get(ctx, a.owner.Resource, a.owner.Key(), &live)
		if a.gone = kube.IsNotFound(err); !a.gone {
			a.gone, a.goneErr = live.UID != a.owner.UID || live.Deleting(), err
		}
		a.asked = true
	}
	if a.gone && a.goneErr == nil {
		c.conclude(Conflict, whileDeleting, "was deleted together with its owner")
	}
	return a.gone, a.goneErr
}

// remove deletes a child, and no other object of the same name.
func (c *child) remove(ctx context.Context, s step) error {
	uid := uidOf(c.live)
	request := "delete " + uid
	if err := c.mem.refused(request); err != nil {
		return err
	}
	err := c.client.Delete(ctx, c.kind.resource, c.key, kube.DeleteOptions{UID: uid, Propagation: kube.Background})
	switch {
	case err == nil:
		c.deleting, c.outcome, c.problem = true, s.does, s.why
		c.mem.remove(uid, false)
		c.requeue(overdue)
		return nil
	case kube.IsNotFound(err):
		c.live = nil
		c.mem.remove(uid, true)
	case kube.IsConflict(err): // another object has the name, or the child has just changed
		if err := c.ask(ctx); err != nil {
			return err
		}
		if c.live == nil || uidOf(c.live) != uid {
			c.mem.remove(uid, true)
		}
	default:
		if kube.IsRefused(err) {
			c.mem.trouble().refusal.Note(request, err)
		}
		return err
	}
	c.conclude(Conflict, soon, "has just been deleted")
	return nil
}

// remove remembers a child as being deleted or gone.
func (m *memory) remove(uid string, gone bool) {
	t := m.trouble()
	t.removed, t.gone, t.asked = uid, gone, time.Now()
	m.seen = ""
}

// isForgotten says whether an undeclared child leaves nothing worth remembering.
func (c *child) isForgotten() bool {
	return c.outcome == Released || c.live == nil && c.err == nil && (c.mem.wrong == nil || c.mem.wrong.removed == "")
}
