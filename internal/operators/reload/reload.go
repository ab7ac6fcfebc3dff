package reload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// Name is the name of the controllers together; the name of each goes on with the plural of the kind.
const Name = "reload"

// Manager is the field manager of the two annotations, and the only owner of both. A `skiff reload` with targets has a
// manager of its own, see managerOf.
const Manager = "skiff-reload"

// Rights are all rights of the controllers; the client sends nothing else.
var Rights = append([]kube.Right{
	{Resource: Kinds[0], Verbs: []string{"list", "watch", "patch"}, Why: workloadRight},
	{Resource: Kinds[1], Verbs: []string{"list", "watch", "patch"}, Why: workloadRight},
	{Resource: Kinds[2], Verbs: []string{"list", "watch", "patch"}, Why: workloadRight},
	{Resource: rollouts, Verbs: []string{"list", "watch", "patch"}, Why: "the same of Rollouts of Argo, if any",
		Optional: true},
	{Resource: sources.ConfigMaps, Verbs: []string{"list", "watch"}, Why: "whether a ConfigMap has changed"},
	{Resource: sources.Secrets, Verbs: []string{"list", "watch"}, Why: secretRight},
}, events.Rights...)

const (
	workloadRight = "which workloads have opted in; they are restarted by an annotation"
	secretRight   = "whether a Secret has changed; no value is kept"
)

// Options hold the flags of reload. The zero value means the defaults.
type Options struct {
	Debounce time.Duration // how long sources are quiet before a restart; 0: DefaultDebounce
	Share    Share         // of the workloads, in a namespace and in the cluster, to roll at a time; 0: DefaultShare
	Reloader bool          // the annotations of Stakater's Reloader count as well
}

// The indexes of workloads.
const (
	all      = "all"    // all with an annotation of ours
	bySource = "source" // by their sources
	byAfter  = "after"  // by the workloads to be restarted before
)

// world is shared by the controllers of all kinds.
type world struct {
	reader
	client     *kube.Client
	kinds      []kube.Resource                  // of workloads
	workloads  map[string]*cache.Store[*target] // by kind
	configMaps *cache.Store[*sources.ConfigMap] // nil: no workload is restarted for one
	secrets    *cache.Store[*sources.Secret]    // likewise
	recorder   *events.Recorder                 // nil: no Events
	restarts   *metrics.Counts
	wave       *wave
	debounce   time.Duration
	sayer      *sayer // nil: Problems are not logged
}

// reloader is the controller of a kind of workloads.
type reloader struct {
	*world
	resource kube.Resource
	found    func(k kube.Key, p *health.Problem)
	pending  keyed.Map[*pending] // each used by no other reconcile than the workload's
}

// New returns a controller for each kind of workloads. They send nothing before Run, and have to run together. A nil
// recorder means no Events; the caller runs the recorder.
func New(s controller.Setup, recorder *events.Recorder, o Options) []*controller.Controller {
	s.Client = s.Client.Limit(Rights)
	w := newWorld(s, recorder, o)
	w.kinds = Kinds
	w.configMaps = controller.Mirror[*sources.ConfigMap](s, sources.ConfigMaps, "")
	w.secrets = controller.Mirror[*sources.Secret](s, sources.Secrets, "")
	for _, r := range w.kinds {
		w.workloads[r.Kind] = mirrorOf[*target](s, r, "")
	}
	return w.controllers(s)
}

// newWorld returns a world without mirrors.
func newWorld(s controller.Setup, recorder *events.Recorder, o Options) *world {
	w := &world{client: s.Client, recorder: recorder, debounce: o.Debounce, reader: reader{reloader: o.Reloader},
		workloads: map[string]*cache.Store[*target]{},
		restarts: metrics.NewCounts(&metrics.Family{Name: "skiff_reload_total", Kind: metrics.CounterKind,
			Help: "Restarts of workloads that were sent, by result; one that failed is tried again."},
			"result", "restarted", "workload_changed", "failed")}
	if w.debounce == 0 {
		w.debounce = DefaultDebounce
	}
	if o.Share == (Share{}) {
		o.Share = DefaultShare
	}
	w.wave = newWave(o.Share, w.count)
	return w
}

// controllers returns the controllers of the kinds.
func (w *world) controllers(s controller.Setup) (out []*controller.Controller) {
	for _, r := range w.kinds {
		w.index(r.Kind, w.workloads[r.Kind])
		w.indexTheirs(r.Kind, w.workloads[r.Kind])
	}
	for i, r := range w.kinds {
		c := w.controller(s, r)
		if i == 0 {
			c.Publish(w.restarts)
		}
		out = append(out, c)
	}
	return out
}

// index makes the indexes of a mirror of workloads of a kind.
func (w *world) index(kind string, m *cache.Store[*target]) {
	m.Index(all, func(o *target) []string { return where(w.optedIn(kind, o)) })
	m.Index(bySource, func(o *target) (names []string) {
		entries := o.wants(w.ours(kind, o)).entries
		if t := w.theirs(o); t != nil {
			entries = merged(append(entries, t.named()...))
		}
		for _, e := range entries {
			names = append(names, e.source())
		}
		return slices.Compact(names)
	})
	m.Index(byAfter, func(o *target) (names []string) {
		if w.optedIn(kind, o) {
			for _, r := range o.wants(w.ours(kind, o)).after {
				names = append(names, r.String())
			}
		}
		return names
	})
}

// controller returns the controller of a kind.
func (w *world) controller(s controller.Setup, of kube.Resource) *controller.Controller {
	r := &reloader{world: w, resource: of}
	mine := w.workloads[of.Kind]
	from := []controller.Source{controller.ForBut(mine, func(was, is *target) bool {
		return !w.optedIn(of.Kind, was) && !w.optedIn(of.Kind, is)
	})}
	if w.configMaps != nil {
		from = append(from, controller.Watches(w.configMaps, func(m *sources.ConfigMap) []kube.Key {
			return keysOf(w.candidates(of.Kind, m.Namespace, entry{kind: "configmap", name: m.Name}))
		}))
	}
	if w.secrets != nil {
		from = append(from, controller.Watches(w.secrets, func(m *sources.Secret) []kube.Key {
			return keysOf(w.candidates(of.Kind, m.Namespace, entry{kind: "secret", name: m.Name}))
		}))
	}
	for _, other := range w.kinds {
		from = append(from, controller.Watches(w.workloads[other.Kind], func(o *target) []kube.Key {
			return r.behind(other.Kind, o)
		}))
	}
	c := s.New(Name+"-"+of.Plural, r.Reconcile, from...)
	r.found = func(k kube.Key, p *health.Problem) {
		c.Report(k, p)
		w.sayer.say(id{of.Kind, k}, p)
	}
	c.Show(controller.Shows{Foreign: true, Reported: true, Facts: r.facts, Short: []string{short[of.Kind]},
		Works: func(o kube.Object) bool { return w.optedIn(of.Kind, o.(*target)) }})
	c.Remembers(&r.pending, members{w.wave, of.Kind})
	return c
}

// keysOf returns the keys of workloads.
func keysOf(all []*target) (keys []kube.Key) {
	for _, w := range all {
		keys = append(keys, w.Key())
	}
	return keys
}

// behind returns the workloads of the kind which may have waited for a change of another workload.
func (r *reloader) behind(kind string, o *target) []kube.Key {
	mine := r.workloads[r.resource.Kind]
	after, _ := mine.ByIndex(byAfter, o.Namespace, ref{kind, o.Name}.String())
	keys := keysOf(after)
	if r.optedIn(kind, o) {
		keys = append(keys, r.wave.next(r.resource.Kind, o.Namespace)...)
	}
	if r.reloader && kind == "Deployment" && o.isReloader() { // started or stopped, perhaps
		keys = append(keys, keysOf(everywhere(mine, withTheirs))...)
	}
	return keys
}

// count returns how many workloads of a namespace have opted in; "": of all.
func (w *world) count(namespace string) (n int) {
	for _, m := range w.workloads {
		if namespace == "" {
			n += len(everywhere(m, all))
			continue
		}
		found, _ := m.ByIndex(all, namespace, "")
		n += len(found)
	}
	return n
}

// Reconcile restarts a workload whose sources have changed, in turn.
func (r *reloader) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	me := id{r.resource.Kind, key}
	w, ok, err := r.workloads[r.resource.Kind].Get(key)
	if err != nil {
		return controller.Done, r.unread(me, false, err)
	}
	if !ok || w.Deleting() || !r.optedIn(r.resource.Kind, w) {
		r.found(key, nil)
		return controller.Gone, nil
	}
	p := r.pending.Get(key)
	if p == nil || p.uid != w.UID { // the first, or created anew
		p = &pending{uid: w.UID}
		r.pending.Set(key, p)
	}
	now := time.Now()
	f := &facts{kind: r.resource.Kind, w: w, debounce: r.debounce, now: now}
	rolls, _ := w.progress(f.kind, r.inPlace(f.kind, w), now)
	rolls = rolls || p.behind(w)
	if f.wants, err = r.look(f.kind, w); err != nil {
		return controller.Done, r.unread(me, rolls, err)
	}
	if f.contents, err = r.contents(key.Namespace, f.wants.entries); err != nil {
		return controller.Done, r.unread(me, rolls, err)
	}
	if err := r.order(f); err != nil {
		return controller.Done, r.unread(me, rolls, err)
	}
	f.failed = func(changes []change) *failure { return r.failure(f, changes) }
	d := decide(f, p)
	r.wave.note(me, rolls)
	if d.restart {
		entered, limit := r.wave.enter(me)
		if !entered {
			d.restart, d.write = false, nil
			d.hold(recheck, "rechecks its turn", notItsTurn,
				fmt.Sprintf("in its turn: %d workloads roll at a time", limit))
		}
	} else {
		r.wave.leaveLine(me)
	}
	if d.write != nil && !p.agrees(w) {
		if err := r.catchUp(ctx, f, &d); err != nil {
			r.wave.note(me, rolls)
			return controller.Done, err
		}
		if d.write == nil {
			r.wave.note(me, rolls)
		}
	}
	p.name(d.changes, f.contents)
	r.found(key, d.problem)
	r.tell(ctx, f, &d)
	if d.write != nil {
		live, err := r.write(ctx, f, &d)
		if err != nil {
			r.wave.note(me, rolls)
			return r.failed(err)
		}
		p.noteWrite(f, live, &d)
	}
	if len(d.changes) == 0 || d.restart {
		p.settle(f.contents)
	}
	if (rolls || d.restart) && d.wait == 0 {
		d.wait, d.cause = failedAfter/10, "looks whether the rollout has failed"
	}
	return controller.Wait(d.wait).Because(d.cause), nil
}

// catchUp has a decision wait for a mirror that is behind the server. Another process, whose mirror is ahead, has
// written the state then; a restart for the older content would be undone by a restart of that process, and so on.
func (r *reloader) catchUp(ctx context.Context, f *facts, d *decision) error {
	was, _ := stateOf(f.w, d.write.name)
	asked := map[string]bool{}
	for _, e := range f.wants.entries {
		old, had := was.Sources[e.String()]
		if !had || old == d.write.Sources[e.String()] || asked[e.source()] {
			continue
		}
		asked[e.source()] = true
		now, err := r.live(ctx, kube.Key{Namespace: f.w.Namespace, Name: e.name}, e.kind)
		if err != nil {
			return fmt.Errorf("compare the mirror of %s to the server: %w", e.source(), err)
		}
		if whole := (entry{kind: e.kind, name: e.name}); hashOf(f.w.Namespace, whole, now) !=
			hashOf(f.w.Namespace, whole, f.contents[e.source()]) {
			d.write, d.restart = nil, false
			d.hold(recheck, "rechecks "+e.source(), behind, "when the watch of "+e.source()+" has caught up")
			return nil
		}
	}
	return nil
}

// maxLive is more than is kept of any source that a server stores: of 1.5 MiB of keys, a digest each.
const maxLive = 8 << 20

// live reads a source from the server, by the right to list; nil: there is none.
func (r *reloader) live(ctx context.Context, k kube.Key, kind string) (*content, error) {
	if kind == sources.ConfigMapKind {
		return liveIn[*sources.ConfigMap](ctx, r.client, sources.ConfigMaps, k)
	}
	return liveIn[*sources.Secret](ctx, r.client, sources.Secrets, k)
}

func liveIn[T sources.Object](ctx context.Context, c *kube.Client, of kube.Resource, k kube.Key) (*content, error) {
	list, err := kube.List[T](ctx, c, kube.Query{Resource: of, Namespace: k.Namespace,
		FieldSelector: "metadata.name=" + k.Name}, kube.ListOptions{MaxObject: maxLive})
	switch {
	case err != nil:
		return nil, err
	case len(list.Bad) > 0:
		return nil, list.Bad[0]
	case len(list.Items) == 0:
		return nil, nil
	}
	return contentOf(list.Items[0]), nil
}

// unread gives up the place in the wave of a workload that cannot be worked on, and says why where a source is not
// held.
func (r *reloader) unread(me id, rolls bool, err error) error {
	r.wave.note(me, rolls)
	r.wave.leaveLine(me)
	var why *health.Problem
	if unheld := cache.Unheld(err); unheld != nil {
		why = &unheld.Problem
	}
	r.found(me.Key, why)
	return err
}

// tell tells the observer of the context which restart is to come, and when.
func (r *reloader) tell(ctx context.Context, f *facts, d *decision) {
	if len(d.changes) == 0 || d.restart {
		return
	}
	_, next := compare(f.w, f.wants, f.contents)
	body, err := r.body(f, &next, f.now)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "what is to come is not told")
		return
	}
	why := &health.Problem{Reason: d.problem.Reason, Public: d.when + ": " + textOf(d.changes) + " changed",
		Next: d.problem.Next}
	apply.Tell(ctx, apply.OwnerOf(r.resource, f.w), []apply.Child{{Body: body}},
		apply.Report{Children: []apply.Result{{Resource: r.resource, Live: f.w, Key: f.w.Key(),
			Outcome: apply.Later, Problem: why}}})
}

// timeText is a time as in RestartAnnotation.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// body is the patch of a workload: the state, and the times of the last restarts, of which one is now unless zero.
// Server-side apply removes a field of ours which is not applied again, and another text of the same time would be
// another template. restartAt is another manager's where a Rollout is restarted by its template, or planned for later.
func (r *reloader) body(f *facts, s *state, now time.Time) (map[string]any, error) {
	text, err := s.encode()
	if err != nil {
		return nil, err
	}
	body := map[string]any{"apiVersion": r.resource.APIVersion(), "kind": r.resource.Kind, "metadata": map[string]any{
		"name": f.w.Name, "namespace": f.w.Namespace, "annotations": map[string]any{s.name: text}}}
	reloaded, _ := f.w.Spec.Template.Metadata.Annotations.Get(RestartAnnotation)
	restartAt := f.w.Spec.RestartAt
	if !f.wants.inPlace || timeOf(restartAt).After(f.now.Add(skew)) {
		restartAt = ""
	}
	switch {
	case now.IsZero():
	case f.wants.inPlace:
		restartAt = timeText(now)
	default:
		reloaded = timeText(now)
	}
	spec := map[string]any{}
	if reloaded != "" && !f.w.leftover() {
		spec["template"] = map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{RestartAnnotation: reloaded}}}
	}
	if restartAt != "" {
		spec["restartAt"] = restartAt
	}
	if len(spec) > 0 {
		body["spec"] = spec
	}
	return body, nil
}

// failed says how to go on after a failed write. An event tells of a workload changed or deleted meanwhile.
func (r *reloader) failed(err error) (controller.Outcome, error) {
	if kube.IsConflict(err) || kube.IsNotFound(err) {
		return controller.After(time.Second).Because("the workload has changed"), nil
	}
	return controller.Done, err
}

// contents reads the sources of a workload.
func (w *world) contents(namespace string, entries []entry) (map[string]*content, error) {
	out, errs := map[string]*content{}, []error(nil)
	for _, e := range entries {
		if out[e.source()] != nil {
			continue
		}
		c, err := w.content(kube.Key{Namespace: namespace, Name: e.name}, e.kind)
		errs = append(errs, err)
		if c != nil {
			out[e.source()] = c
		}
	}
	return out, errors.Join(errs...)
}

// content reads a source; nil: there is none.
func (w *world) content(k kube.Key, kind string) (*content, error) {
	if kind == sources.ConfigMapKind {
		return contentIn(w.configMaps, k)
	}
	return contentIn(w.secrets, k)
}

func contentIn[T sources.Object](m *cache.Store[T], k kube.Key) (*content, error) {
	o, ok, err := m.Get(k)
	if !ok || err != nil {
		return nil, err
	}
	return contentOf(o), nil
}

// order looks at the workloads to be restarted first.
func (w *world) order(f *facts) error {
	me := ref{f.kind, f.w.Name}
	mine, _ := compare(f.w, f.wants, f.contents)
	for _, r := range f.wants.after {
		o := other{ref: r, circular: w.leads(f.w.Namespace, r, me)}
		live, err := w.workload(f.w.Namespace, r)
		if err != nil {
			return err
		}
		if live == nil && w.flags != nil {
			continue // restarted together, and absent
		}
		if live != nil && w.optedIn(r.kind, live) {
			o.exists = true
			wants, err := w.look(r.kind, live)
			if err != nil {
				return err
			}
			contents, err := w.contents(f.w.Namespace, wants.entries)
			if err != nil {
				return err
			}
			if concerns(mine, wants.entries) {
				changes, _ := compare(live, wants, contents)
				o.changed = len(changes) > 0
				o.rolls, o.fails = live.progress(r.kind, wants.inPlace, f.now)
			}
		}
		f.others = append(f.others, o)
	}
	return nil
}

// concerns says whether a workload with some entries depends on a source that has changed.
func concerns(changes []change, entries []entry) bool {
	return slices.ContainsFunc(changes, func(c change) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return e.source() == c.source() })
	})
}

// workload reads a workload; nil: there is none.
func (w *world) workload(namespace string, r ref) (*target, error) {
	live, ok, err := w.workloads[r.kind].Get(kube.Key{Namespace: namespace, Name: r.name})
	if !ok || err != nil {
		return nil, err
	}
	return live, nil
}

// maxSteps bounds the search for a circle. In a longer circle all wait for each other, and each says for whom.
const maxSteps = 200

// leads says whether the order leads from a workload to another.
func (w *world) leads(namespace string, from, to ref) bool {
	way := []ref{from}
	for i := 0; i < len(way) && i < maxSteps; i++ {
		if way[i] == to {
			return true
		}
		if live, err := w.workload(namespace, way[i]); err == nil && live != nil && w.optedIn(way[i].kind, live) {
			for _, next := range live.wants(w.ours(way[i].kind, live)).after {
				if !slices.Contains(way, next) {
					way = append(way, next)
				}
			}
		}
	}
	return false
}

// failure looks for another workload whose restart for any of the changes has failed.
func (w *world) failure(f *facts, changes []change) *failure {
	for _, c := range changes {
		now := f.contents[c.source()]
		for _, d := range w.dependents(f.w.Namespace, c.entry) {
			inPlace := w.inPlace(d.kind, d.w)
			at := d.w.reloadedAt(inPlace, f.now)
			if _, failed := d.w.progress(d.kind, inPlace, f.now); failed && d.w.UID != f.w.UID &&
				at.After(now.resume) && d.runsWith(now) {
				return &failure{d.ref, c.entry, at}
			}
		}
	}
	return nil
}

// runsWith says whether the pods of a workload run with a content of the source.
func (d *dependent) runsWith(c *content) bool {
	ran, _ := stateOf(d.w, d.state)
	return !slices.ContainsFunc(d.entries, func(e entry) bool {
		return ran.Sources[e.String()] != hashOf(d.w.Namespace, e, c)
	})
}

// write writes the state of a workload, with the restart if decided, for no other version than was read: of two
// processes only the first restarts.
func (r *reloader) write(ctx context.Context, f *facts, d *decision) (*target, error) {
	now := time.Time{}
	if d.restart {
		now = f.now
	}
	body, err := r.body(f, d.write, now)
	if err != nil {
		return nil, err
	}
	metadata := body["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = f.w.UID, f.w.ResourceVersion
	live := new(target)
	err = r.client.Patch(ctx, r.resource, f.w.Key(), kube.ApplyPatch, body, live,
		kube.WriteOptions{FieldManager: managerOf(d.write.name), Force: true})
	if !d.restart {
		return live, err
	}
	r.restarts.Inc(resultOf(err))
	if err != nil {
		return nil, err
	}
	logr.FromContextOrDiscard(ctx).Info("restarted", "changed", textOf(d.changes))
	r.announce(live, d.changes)
	return live, nil
}

// resultOf is the result of a restart as sent.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "restarted"
	case kube.IsNotFound(err), kube.IsConflict(err):
		return "workload_changed"
	}
	return "failed"
}

// announce records a restart, on the workload and on the sources.
func (r *reloader) announce(live *target, changes []change) {
	of := events.ObjectOf(r.resource, live)
	record := func(e events.Event) {
		e.Type, e.Reason, e.Action = events.Normal, "Restarted", "Restart"
		r.recorder.Record(e)
	}
	record(events.Event{Regarding: of, Note: "restarted: " + textOf(changes) + " changed"})
	for i, c := range changes {
		if i > 0 && changes[i-1].source() == c.source() {
			continue
		}
		about := sources.ConfigMaps
		if c.kind == "secret" {
			about = sources.Secrets
		}
		record(events.Event{Regarding: events.Object{APIVersion: about.APIVersion(), Kind: about.Kind,
			Namespace: live.Namespace, Name: c.name, UID: c.uid}, Related: of,
			Note: "restarted " + ref{r.resource.Kind, live.Name}.String() + r.left(live, c)})
	}
}

// maxCounted is how many dependents of a source are counted at each restart of one of them.
const maxCounted = 200

// left says how many workloads are still to be restarted for a change.
func (r *reloader) left(done *target, c change) string {
	wait := 0
	all := r.dependents(done.Namespace, c.entry)
	if len(all) > maxCounted {
		return ""
	}
	now, err := r.content(kube.Key{Namespace: done.Namespace, Name: c.name}, c.kind)
	for _, d := range all {
		if d.w.UID != done.UID && err == nil && now != nil && !d.runsWith(now) {
			wait++
		}
	}
	total := len(all)
	if wait == 0 {
		return fmt.Sprintf(", the last of %d", total)
	}
	return fmt.Sprintf(", %d of %d; %d wait: at most %d roll at a time", total-wait, total, wait,
		r.wave.limit(done.Namespace))
}

// facts are the things to know about a workload beside the status.
func (r *reloader) facts(object kube.Object) []controller.Fact {
	w := object.(*target)
	var names []string
	wants, _ := r.look(r.resource.Kind, w) // as far as known
	for _, e := range wants.entries {
		names = append(names, e.String())
	}
	if n := len(names); n > sources.MaxNames {
		names = append(names[:sources.MaxNames:sources.MaxNames], fmt.Sprintf("%d more", n-sources.MaxNames))
	}
	out := []controller.Fact{{Name: "Restarts for", Value: strings.Join(names, ", ")}}
	if at := w.reloadedAt(wants.inPlace, time.Now()); !at.IsZero() {
		out = append(out, controller.Fact{Name: "Last restart", At: at})
	}
	return out
}
