package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// take takes the steps: about independent children side by side, then about children made from a template, and then,
// if all declared children are in place, the removals of independent children. Options may want another order.
func (a *application) take(ctx context.Context, steps [][]step, inPlace func() bool) {
	var writes, removals []step
	for i, of := range steps {
		for _, s := range of {
			switch {
			case a.kinds[i].template != nil:
			case a.owner.KeepOthers && s.child.want == nil:
			case s.does == Deleted || s.does == Released:
				removals = append(removals, s)
			default:
				writes = append(writes, s)
			}
		}
	}
	if a.options.RemoveFirst {
		sideBySide(len(removals), func(i int) { removals[i].do(ctx) })
		removals = nil
	}
	if a.options.InOrder {
		slices.SortStableFunc(writes, func(x, y step) int { return x.child.at - y.child.at })
		for _, s := range writes {
			s.do(ctx)
		}
	} else {
		sideBySide(len(writes), func(i int) { writes[i].do(ctx) })
	}
	for i, of := range steps {
		if a.kinds[i].template != nil {
			takeAlike(ctx, of)
		}
	}
	if inPlace() {
		sideBySide(len(removals), func(i int) { removals[i].do(ctx) })
	}
}

// takeAlike takes steps about children made from one template. A failure stops only the steps of the same action: of
// these the first is taken alone, then two, four and so on, and after a failure no more. A failure common to all, such
// as an exhausted quota, costs one request.
func takeAlike(ctx context.Context, steps []step) {
	for _, does := range []Outcome{Unchanged, Adopted, Released, Replaced, Rolled, Deleted, Created} {
		var same []step
		for _, s := range steps {
			if s.does == does {
				same = append(same, s)
			}
		}
		failed := false
		for batch := 1; len(same) > 0 && !failed; batch = min(2*batch, atOnce) {
			n := min(batch, len(same))
			sideBySide(n, func(i int) { same[i].do(ctx) })
			for _, s := range same[:n] {
				failed = failed || s.child.err != nil || s.child.outcome == Waiting
			}
			same = same[n:]
		}
	}
}

// atOnce bounds how many children of one owner are written at a time: enough to hide the round trips, and few for the
// server.
const atOnce = 8

// sideBySide calls f for 0 to n-1, at most atOnce at a time, and returns when all calls have. A panic in a call
// becomes a panic of the caller, who can recover: on another goroutine a panic would end the process.
func sideBySide(n int, f func(i int)) {
	switch n {
	case 0:
		return
	case 1:
		f(0)
		return
	}
	var running sync.WaitGroup
	var first sync.Once
	var panicked any
	var next atomic.Int32
	call := func(i int) {
		defer func() {
			if p := recover(); p != nil {
				first.Do(func() { panicked = fmt.Sprintf("%v\n%s", p, debug.Stack()) })
			}
		}()
		f(i)
	}
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			call(i)
		}
	}
	for range min(n, atOnce) - 1 {
		running.Go(work)
	}
	work() // the caller would only wait
	running.Wait()
	if panicked != nil {
		panic(panicked)
	}
}

// do weighs a step and takes it. The outcome is noted on the child.
func (s step) do(ctx context.Context) {
	s, ok := s.weigh()
	if !ok {
		return
	}
	err := s.standing
	if err == nil {
		err = s.send(ctx)
	}
	s.child.err = errors.Join(s.child.err, err)
}

// send sends the requests of a step.
func (s step) send(ctx context.Context) error {
	c := s.child
	switch s.does {
	case Created:
		met, err := c.create(ctx)
		if !met || err != nil {
			return err
		}
		if next, ok := c.kind.strategy.meet(c); ok {
			next.do(ctx)
		}
		return nil
	case Adopted:
		if c.kind.template != nil {
			return c.adoptLabelled(ctx)
		}
		return c.adopt(ctx)
	case Applied:
		if c.uncached {
			return c.applyUncached(ctx)
		}
		return c.apply(ctx)
	case Contested:
		c.conclude(Contested, max(c.contestPause(), soon), "cannot be kept as declared: %s keeps changing %s",
			c.rival(ctx, c.differences), List(c.differences.texts()))
		return nil
	case Released:
		return c.release(ctx, unlabelled)
	case Replaced:
		if c.kind.template == nil {
			return c.recreate(ctx, s)
		}
	case Rolled:
		if err := c.tryRoll(ctx); err != nil {
			return err
		}
	case Unchanged:
		return c.relabel(ctx)
	case Deleted:
	}
	return c.remove(ctx, s)
}

// create posts a child missing in the cache. met says that an object of the name existed: the object was observed, and
// nothing was created.
func (c *child) create(ctx context.Context) (met bool, err error) {
	again, retried := c.mem.seen != "", c.kind.scarce.retries(c)
	// An owner whose children are removed in order has a finalizer as long as there are children. And before a retry,
	// the owner was asked for with the first try, milliseconds ago.
	if again && c.kind.template == nil && !retried {
		if gone, err := c.goneWithOwner(ctx); gone || err != nil {
			return false, err
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
		c.mem.trouble().refusal.Note(c.creation(), err)
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
		c.mem.trouble().refusal.Note(c.creation(), refusal)
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

// apply sends our declaration as a server-side apply to the live object.
func (c *child) apply(ctx context.Context) error {
	live, t := c.live, c.mem.trouble()
	before := fingerprint(c.want, live)
	answer := c.kind.mirror.empty()
	err := c.sendApply(ctx, live.ObjectMeta(), answer)
	switch {
	case errors.Is(err, errChanged), kube.IsConflict(err), kube.IsNotFound(err), otherUID(err):
		// The copy behind the decision is obsolete. The successor comes as an event; should no event come, or the
		// successor change as well, the waits get longer.
		c.mem.written.clear()
		t.lost = backoff.Backoff{Min: soon, Max: maxTrust}.Next(t.lost)
		c.conclude(Conflict, t.lost, "changed while it was being applied")
		return nil
	case c.kind.scarce.exhausted(err), c.kind.scarce.taken(err):
		_, err := c.kind.scarce.refused(ctx, c, err)
		return err
	case kube.IsRefused(err):
		t.refusal.Note(c.changeOf(live), err)
	}
	if err != nil {
		return err
	}
	c.kind.scarce.allocated(c)
	t.lost, t.foreign = 0, nil
	c.mem.kept = c.declaredOf(c.want.keep)
	after := fingerprint(c.want, answer)
	if after != before {
		c.outcome = Applied
		t.contest.add(c.want.hash, withChanges)
		if c.differences.undeclared {
			c.differences = c.removed(contentOf(live).Body, contentOf(answer).Body)
		}
	}
	c.answered(answer)
	return nil
}

// sendApply prepares live for an apply, and applies.
func (c *child) sendApply(ctx context.Context, live *kube.Meta, answer any) error {
	body, err := c.want.apply(live.UID)
	if err != nil {
		return fmt.Errorf("encode %s: %w", c, err)
	}
	if err := c.prepare(ctx, live); err != nil {
		return err
	}
	// The uid makes the apply fail on an object deleted meanwhile, instead of creating a new object, and on an object
	// that has taken its place.
	return c.client.Patch(ctx, c.kind.resource, c.key, kube.ApplyPatch, body, answer,
		kube.WriteOptions{FieldManager: c.options.Manager, Force: true})
}

// otherUID says whether an apply met an object with another uid.
func otherUID(err error) bool {
	s := kube.AsStatus(err)
	return s != nil && s.Code == http.StatusUnprocessableEntity &&
		slices.ContainsFunc(s.Details.Causes, func(c kube.StatusCause) bool { return c.Field == "metadata.uid" })
}

// removed returns the fields of an object removed by an apply.
func (c *child) removed(before, after kube.Raw) differences {
	was, errWas := patch.Decode(before)
	is, errIs := patch.Decode(after)
	if errWas != nil || errIs != nil { // the apply has succeeded all the same
		return differences{undeclared: true}
	}
	first, count := patch.Differences(c.kind.schema, was, is, maxDifferences)
	return differences{first, count, count == 0}
}

// applyUncached applies the declaration to a child of ours outside the cache: once for each generation of the owner,
// because nothing shows whether the apply is needed. Only the child's metadata is read, and nothing is compared: the
// child may be as large as the server allows. The result always has the NotServed.
func (c *child) applyUncached(ctx context.Context) error {
	m := new(managed)
	err := c.client.Get(ctx, c.kind.resource, c.key, m)
	live := &m.Metadata.MetaAnnotated
	switch {
	case kube.IsNotFound(err): // just deleted, and created when the cache says so
		return nil
	case err != nil:
		c.uncached = false
		return err
	case !c.ours(live) || live.Deleting():
		return nil
	}
	for i := range m.Metadata.ManagedFields {
		if e := &m.Metadata.ManagedFields[i]; e.Manager != c.options.Manager {
			e.FieldsV1 = nil // they grow with the child
		}
	}
	c.managed = m
	var answer struct {
		kube.Meta `json:"metadata"`
	}
	if err := c.sendApply(ctx, &live.Meta, &answer); err != nil {
		c.uncached = false
		return fmt.Errorf("apply %s, which is not held in memory: %w", c, err)
	}
	c.mem.kept = c.declaredOf(c.want.keep)
	if c.outcome = Unchanged; answer.ResourceVersion != live.ResourceVersion {
		c.outcome = Applied
	}
	return nil
}

// adopt makes the object of the child's name a child of the owner, as declared.
func (c *child) adopt(ctx context.Context) error {
	// The cache may be behind: an owner that is gone must not take anything.
	if gone, err := c.goneWithOwner(ctx); gone || err != nil {
		return err
	}
	other := c.other
	c.live = other
	err := c.apply(ctx)
	switch {
	case c.outcome == Applied:
		c.outcome = Adopted
	case c.live == other: // still not a child
		c.live = nil
	}
	return err
}

// adoptLabelled makes an object of an unchangeable kind a child of the owner. Our objects are known by their labels.
// With AdoptAnnotation other objects that fit are taken, too.
func (c *child) adoptLabelled(ctx context.Context) error {
	if !c.isMade(c.other) {
		if reason, err := c.misfit(ctx); reason != "" || err != nil {
			c.conclude(Foreign, recheck, "exists and is not managed by skiff")
			if c.problem.Reason = NotManaged; reason != "" {
				c.problem.Reason, c.problem.Quoted = NotAdopted, reason
				c.problem.Public += ", and " + AdoptAnnotation + " does not take it"
			}
			return err
		}
	}
	if gone, err := c.goneWithOwner(ctx); gone || err != nil {
		return err
	}
	m := c.other.ObjectMeta()
	change := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion,
		"ownerReferences": append(referencesBut(m, ""), c.owner.Reference())}
	if missing := c.missing(c.other); len(missing) > 0 {
		change["labels"] = missing
	}
	if err := c.patch(ctx, change); err != nil || c.live == nil {
		return err
	}
	c.outcome = Adopted
	return nil
}

// maxImage bounds how much of a foreign image is quoted: a name with a digest has about as many bytes.
const maxImage = 200

// misfit says why an object is not to be adopted although the owner asks for it, "" if the object fits. An object fits
// with the labels that a Service selects by, and the declared containers with their images. The next roll would delete
// another workload's pod of the same name.
func (c *child) misfit(ctx context.Context) (reason string, err error) {
	for _, key := range c.kind.template.selector {
		if have, _ := c.other.ObjectMeta().Labels.Get(key); have != c.want.labels[key] {
			return fmt.Sprintf("its label %s is %q, not %q", key, have, c.want.labels[key]), nil
		}
	}
	var live struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			Containers []struct {
				Name  string `json:"name"`
				Image string `json:"image"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if err := c.client.Get(ctx, c.kind.resource, c.key, &live); err != nil || live.Metadata.UID != uidOf(c.other) {
		if err == nil || kube.IsNotFound(err) {
			c.requeue(soon) // just gone
			return "it has changed", nil
		}
		return "", err
	}
	images := map[string]string{}
	for _, container := range live.Spec.Containers {
		images[container.Name] = container.Image
	}
	containers, _ := c.want.spec["containers"].([]any)
	for _, container := range containers {
		container, _ := container.(map[string]any)
		name, _ := container["name"].(string)
		if image := images[name]; image != container["image"] {
			return fmt.Sprintf("its container %s has the image %q, not %q", name,
				kube.Printable(image, maxImage), container["image"]), nil
		}
	}
	return "", nil
}

// referencesBut returns the owner references of an object except those to a given uid, in the form to write: without
// flags that are false. A reference belongs to its field managers as a whole, so a flag more would make the reference
// ours, and the next apply would remove it.
func referencesBut(m *kube.Meta, uid string) []any {
	out := []any{}
	for _, o := range m.OwnerReferences {
		if o.UID != uid {
			out = append(out, o) // false flags are left out
		}
	}
	return out
}

// release makes an object free of the owner: whoever took our label off an undeclared child wants to keep the object.
// The version protects references added by other clients meanwhile, the uid another object of the same name.
func (c *child) release(ctx context.Context, why string) error {
	m, answer := c.live.ObjectMeta(), c.kind.mirror.empty()
	err := c.client.Patch(ctx, c.kind.resource, c.key, kube.MergePatch, map[string]any{"metadata": map[string]any{
		"uid": m.UID, "resourceVersion": m.ResourceVersion, "ownerReferences": referencesBut(m, c.owner.UID)}}, answer,
		kube.WriteOptions{FieldManager: c.options.Manager})
	switch {
	case err == nil:
		c.mem.written.set(answer)
		c.conclude(Released, 0, "%s", why)
	case kube.IsNotFound(err), otherUID(err), kube.IsConflict(err): // gone or changed: look again
		c.mem.written.clear()
		c.requeue(soon)
	default:
		return err
	}
	return nil
}

// unlabelled says why a child is released.
const unlabelled = "it is not declared any more and has lost the label " + ManagedByLabel

// remove deletes a child, and no other object of the same name.
func (c *child) remove(ctx context.Context, s step) error {
	uid, request := uidOf(c.live), c.deletion()
	if s.changes() { // with another declaration, the server may see no difference
		request = c.changeOf(c.live)
	}
	err := c.client.Delete(ctx, c.kind.resource, c.key, kube.DeleteOptions{UID: uid, Propagation: kube.Background})
	switch {
	case err == nil:
		c.deleting, c.outcome, c.problem = true, s.does, s.why
		c.mem.remove(uid, false)
		c.requeue(overdue)
		return nil
	case kube.IsNotFound(err) && kube.AsStatus(err).Details.Name == c.key.Name: // and not the kind as a whole
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

// recreate deletes a child that differs, unless the server sees no difference: then only the hash is applied.
func (c *child) recreate(ctx context.Context, s step) error {
	t := c.mem.trouble()
	same, err := c.tryApply(ctx)
	if kube.IsInvalid(err) && !otherUID(err) { // the change is invalid; is the new child valid?
		err = c.tryCreate(ctx)
	}
	switch {
	case same:
		return c.apply(ctx)
	case kube.IsRefused(err):
		t.refusal.Note(c.changeOf(c.live), err)
		return err
	case err != nil:
		return err
	}
	err = c.remove(ctx, s)
	if c.outcome == s.does { // else nobody has changed the child back
		t.contest.add(c.want.hash, withChanges)
	}
	return err
}

// tryApply asks the server for the effect of an apply; same says that only the hash would change.
func (c *child) tryApply(ctx context.Context) (same bool, err error) {
	live := c.live.ObjectMeta()
	if err := c.prepare(ctx, live); err != nil {
		return false, err
	}
	body, err := c.want.apply(live.UID)
	if err != nil {
		return false, err
	}
	answer := c.kind.mirror.empty()
	err = c.client.Patch(ctx, c.kind.resource, c.key, kube.ApplyPatch, body, answer,
		kube.WriteOptions{FieldManager: c.options.Manager, Force: true, DryRun: true})
	if err != nil {
		return false, err
	}
	return declaredHash(c.want, answer, "") == declaredHash(c.want, c.live, ""), nil
}

// tryCreate asks the server whether a new child would be accepted. Invalid content is refused before the server looks
// at the name, which is taken.
func (c *child) tryCreate(ctx context.Context) error {
	body, err := c.want.post(c.kind)
	if err != nil {
		return err
	}
	o := c.createOptions()
	o.DryRun = true
	err = c.client.Create(ctx, c.kind.resource, c.key.Namespace, body, nil, o)
	if kube.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// tryRoll asks the server whether a child of the declared revision would be accepted, before a roll deletes the first
// old child: a refused template must not cost a child. Invalid content is refused before the server looks at the name,
// which is taken.
func (c *child) tryRoll(ctx context.Context) error {
	owned := c.application.mem
	if owned.accepted[c.kind] == c.want.hash {
		return nil
	}
	o := c.createOptions()
	o.DryRun = true
	err := c.client.Create(ctx, c.kind.resource, c.key.Namespace, c.want.plain, nil, o)
	switch {
	case err == nil, kube.IsAlreadyExists(err):
		if owned.accepted == nil {
			owned.accepted = map[*Kind]string{}
		}
		owned.accepted[c.kind] = c.want.hash
		return nil
	case kube.IsRefused(err):
		c.mem.trouble().refusal.Note(c.creation(), err)
	}
	return err
}

// findLost looks for declared children that may be lost after the POSTs have been sent: a POST refused or not sent has
// not met the existing object. Unless the status goes on naming the child, nothing finds it later.
func (a *application) findLost(ctx context.Context, all []*child) {
	for _, c := range all {
		if c.kind.template == nil || c.want == nil || c.live != nil || c.other != nil || c.uncached || !c.isKnown() {
			continue
		}
		err := c.ask(ctx)
		if err == nil && c.stays() && len(c.missing(c.live)) > 0 {
			err = c.relabel(ctx)
		}
		c.err = errors.Join(c.err, err)
	}
}

// relabel restores the labels by which a child is found, by our watch and by other programs.
func (c *child) relabel(ctx context.Context) error {
	return c.patch(ctx, map[string]any{"uid": uidOf(c.live), "labels": c.missing(c.live)})
}

// patch changes the metadata of an object and takes in the answer.
func (c *child) patch(ctx context.Context, metadata map[string]any) error {
	answer := c.kind.mirror.empty()
	err := c.client.Patch(ctx, c.kind.resource, c.key, kube.MergePatch, map[string]any{"metadata": metadata}, answer,
		kube.WriteOptions{FieldManager: c.options.Manager})
	if kube.IsNotFound(err) || kube.IsConflict(err) {
		c.requeue(soon) // changed or gone; either comes as an event
		return nil
	}
	if err == nil {
		c.see(answer)
		c.mem.written.set(answer)
	}
	return err
}
