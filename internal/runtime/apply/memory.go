package apply

import (
	"hash/maphash"
	"strconv"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/kube"
)

// memory is what is remembered of one child between reconciles. All of it can be lost without harm: a restart costs
// one comparison per child, and one read before the first apply.
type memory struct {
	kind     *Kind // of Engine.kinds
	key      kube.Key
	seen     string // uid of the child that was there last and that we have not deleted
	written  written
	synced   synced
	prepared string   // uid of the child that has been made ready for our applies
	kept     []string // fields of Child.Keep that are ours
	wrong    *trouble // nil at rest; see trouble
}

// trouble is what is remembered of a child that was not as declared a moment ago.
type trouble struct {
	refusal Refusal
	scarce  portWait    // see Kind.scarce
	hidden  bool        // the child exists on the server, but the cache does not show it: it lacks our label
	foreign kube.Object // an object of the child's name that is not a child, as last read
	readAt  time.Time   // when that was
	// removed is the uid of a child that is being deleted or gone, by the server's word. It can never be anything
	// else again, even if an old copy shows it without that. asked is when the server was last asked about it.
	removed string
	gone    bool
	asked   time.Time
	contest contest // with who changes the child
	losses  contest // with who deletes it
	crash   crashLoop
	lost    time.Duration // the last wait after an apply that conflicted with another field manager's; 0: it was not
}

// over says that nothing of it matters any more.
func (t *trouble) over() bool {
	return t.refusal.of == "" && t.scarce.hash == "" && !t.hidden && t.foreign == nil && t.removed == "" &&
		t.lost == 0 && t.contest.over() && t.losses.over() && !t.crash.active(t.crash.revision, time.Now())
}

// trouble returns what is remembered of what went wrong, to be added to. result drops it when nothing of it matters
// any more.
func (m *memory) trouble() *trouble {
	if m.wrong == nil {
		m.wrong = &trouble{}
	}
	return m.wrong
}

// refused returns the refusal that a request would meet again, nil if it is worth a try.
func (m *memory) refused(request string) error {
	if m.wrong == nil {
		return nil
	}
	return m.wrong.refusal.Standing(request)
}

// removed says that uid is that of a child which is being deleted or gone.
func (m *memory) removed(uid string) bool {
	return m.wrong != nil && uid != "" && m.wrong.removed == uid
}

// written is the answer to our last request about an object. It stands in for the cached copy until the cache has
// seen that version, because a decision on an older copy would repeat what has been done. What
// the mirror has reached moves with bookmarks and lists as well, so that an answer about an object that was deleted
// before its event came does not stay in force.
type written struct {
	object kube.Object   // nil: nothing was written
	until  time.Time     // when the trust ends
	trust  time.Duration // how long it was granted
}

const (
	// firstTrust is how long an answer stands in for the cache. An event takes milliseconds; after five seconds the
	// watch may be dead, and the answer as old as the cache.
	firstTrust = 5 * time.Second
	// maxTrust bounds the trust in a copy that was read because the trust in the one before it had ended. It doubles
	// each time: a watch that stays dead costs one GET per minute and object in the end.
	maxTrust = time.Minute
)

var trusts = backoff.Backoff{Min: firstTrust, Max: maxTrust}

// source is which copy of an object is the newest one that is known.
type source int

const (
	fromCache source = iota
	fromAnswer
	fromServer // the cache is behind and the answer is old: read it
)

func (w *written) trusted(reached func(namespace, rv string, written time.Time) bool) source {
	if w.object == nil {
		return fromCache
	}
	switch m := w.object.ObjectMeta(); {
	case reached(m.Namespace, m.ResourceVersion, w.until.Add(-w.trust)):
		w.clear()
		return fromCache
	case time.Now().Before(w.until):
		return fromAnswer
	}
	return fromServer
}

// set remembers an answer. One that follows on an answer whose trust has ended gets twice the time.
func (w *written) set(object kube.Object) {
	trust := firstTrust
	if w.object != nil && !time.Now().Before(w.until) {
		trust = trusts.Next(w.trust)
	}
	*w = written{object: object, until: time.Now().Add(trust), trust: trust}
}

func (w *written) clear() { *w = written{} }

// remaining returns how long the answer is still trusted; 0 if there is none, and never 0 if there is one.
func (w *written) remaining() time.Duration {
	if w.object == nil {
		return 0
	}
	return max(time.Until(w.until), time.Millisecond)
}

// synced is a desired state and a live one that fit: by comparison, or because the server made the one of the other.
// As long as both are the same there is nothing to compare, and nothing to send: the server may store a value in
// another form than we declare it, or drop it (hostNetwork: false), and a comparison would find that difference for
// ever.
type synced struct {
	hash     string
	uid      string
	content  uint64 // of the live child; not its version: most new versions are changes of the status alone
	whole    uint64 // the same with the labels and annotations of others, compared without knowing which they are
	version  string // of the live child, for a copy without a body
	read     any    // what Kind.Reading reads of the live child's body
	minReady time.Duration
}

var seed = maphash.MakeSeed()

// fingerprint identifies what a child is compared by. Labels and annotations that we do not declare are left out:
// they are others' business, and a server that drops what we declare would be asked again for each change of them.
func fingerprint(want *declared, live kube.Object) uint64 {
	return declaredHash(want, live, HashAnnotation)
}

// declaredHash is contentHash with the labels and annotations that are declared, and one annotation more.
func declaredHash(want *declared, live kube.Object, more string) uint64 {
	meta, _ := want.plain["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return contentHash(live, func(key string) bool {
		_, ok := want.labels[key]
		return ok
	}, func(key string) bool {
		_, ok := annotations[key]
		return ok || key == more
	})
}

// wholeFingerprint identifies a child with all its labels and annotations.
func wholeFingerprint(live kube.Object) uint64 {
	all := func(string) bool { return true }
	return contentHash(live, all, all)
}

// contentHash is a hash of a child without its status, and with those labels and annotations that are ours.
func contentHash(live kube.Object, label, annotation func(key string) bool) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	text := func(s string) { // its end is marked: "ab","c" is not "a","bc"
		h.WriteString(s)
		h.WriteByte(0)
	}
	list := func(all kube.Labels, ours func(key string) bool) {
		for _, l := range all {
			if ours(l.Key) {
				text(l.Key)
				text(l.Value)
			}
		}
		h.WriteByte(1)
	}
	list(live.ObjectMeta().Labels, label)
	content := contentOf(live)
	if content != nil {
		list(content.Annotations, annotation)
	}
	for _, o := range live.ObjectMeta().OwnerReferences {
		maphash.WriteComparable(&h, o)
	}
	if content != nil {
		h.Write(content.Body)
	}
	return h.Sum64()
}

// contest counts the writes of one desired state that another writer undoes. skiff gives way to a writer who goes on:
// each round would be two more writes.
type contest struct {
	hash   string
	since  time.Time
	window time.Duration // after since, in which writes are counted
	count  int
	rival  string // who the other one is, once that was asked
}

// patience says how many writes within a first window are a fight. A fight that goes on after the pause has one write
// in each window, and windows double, up to longest.
type patience struct {
	writes          int
	window, longest time.Duration
}

// Changes: no person undoes something five times by hand within a minute, and a webhook that rewrites our fields is
// found out after two writes, because the second apply changes nothing.
//
// Deletions: without the child something does not work at all, so that there is more patience. Tests of resilience
// delete every few seconds, and must see the child come back. Four minutes: two hook controllers that delete each
// other's children for a thousand parents make some twenty requests a second.
var (
	withChanges   = patience{5, time.Minute, 16 * time.Minute}
	withDeletions = patience{10, 10 * time.Second, 4 * time.Minute}
)

// pause returns how long to stay out of it, 0 for not at all.
func (c *contest) pause(hash string, p patience) time.Duration {
	if c.hash != hash || !c.full(p) {
		return 0
	}
	return max(time.Until(c.since.Add(c.window)), 0)
}

// full says that the window has no room for another write.
func (c *contest) full(p patience) bool {
	return c.window > p.window && c.count > 0 || c.count >= p.writes
}

// over says that so long after the last window, writes are no longer part of the same fight.
func (c *contest) over() bool { return time.Since(c.since) >= 2*c.window }

// add counts a write that changed something.
func (c *contest) add(hash string, p patience) {
	switch {
	case c.hash != hash || c.over():
		*c = contest{hash: hash, since: time.Now(), window: p.window}
	case time.Since(c.since) < c.window:
	case !c.full(p):
		c.since, c.window, c.count = time.Now(), p.window, 0
	default:
		c.since, c.window, c.count = time.Now(), backoff.Backoff{Min: p.window, Max: p.longest}.Next(c.window), 0
	}
	c.count++
}

// Refusal is a request that the server refused for what is in it. A controller is woken by many things, its own
// status writes among them, and the same request would be refused again; so the answer is kept for a while. Not for
// ever: what refused it may be a webhook, a quota or an allocation. A request is known by a text. The zero value
// remembers nothing.
type Refusal struct {
	of    string
	err   error
	until time.Time
	wait  time.Duration
}

// A refused request is sent again after a second at the earliest, then after two, four, and once per minute in the
// end.
var refusals = backoff.Backoff{Min: time.Second, Max: time.Minute}

// Standing returns the refusal that a request would meet again, nil if it is worth a try.
func (r *Refusal) Standing(of string) error {
	if r.of != of || !time.Now().Before(r.until) {
		return nil
	}
	return r.err
}

// Note remembers a refusal.
func (r *Refusal) Note(of string, err error) {
	if r.of != of {
		r.wait = 0
	}
	wait := refusals.Next(r.wait)
	*r = Refusal{of: of, err: err, until: time.Now().Add(wait), wait: wait}
}

// requestOf is the text for a request to make a child of one state, known by its hash and fingerprint, another one; 0
// if there is no child yet.
func requestOf(hash string, content uint64) string {
	return hash + " " + strconv.FormatUint(content, 16)
}
