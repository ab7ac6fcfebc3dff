package apply

import (
	"hash/maphash"
	"strconv"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/kube"
)

// memory is the knowledge of one child kept between reconciles. All of it can be lost without harm: a restart costs
// one comparison per child, and one read before the first apply.
type memory struct {
	kind     *Kind // of Engine.kinds
	key      kube.Key
	seen     string // uid of the last child seen and not deleted by us
	written  written
	synced   synced
	prepared string   // uid of the child made ready for our applies
	kept     []string // fields of Child.Keep owned by us
	wrong    *trouble // nil at rest; see trouble
}

// trouble is the knowledge of a child that was not as declared a moment ago.
type trouble struct {
	refusal Refusal
	scarce  portWait    // see Kind.scarce
	hidden  bool        // the child exists on the server, but lacks our label and is not in the cache
	foreign kube.Object // a foreign object of the child's name, as last read
	readAt  time.Time   // when foreign was read
	// removed is the uid of a child that is being deleted or gone, by the server's word, and stays so even if an old
	// copy shows otherwise. asked is when the server was last asked about the child.
	removed string
	gone    bool
	asked   time.Time
	contest contest // with a writer that changes the child
	losses  contest // with a writer that deletes the child
	crash   crashLoop
	lost    time.Duration // the last wait after a conflicting apply; 0: none
}

// over says whether nothing in the trouble matters any more.
func (t *trouble) over() bool {
	return t.refusal.of == "" && t.scarce.hash == "" && !t.hidden && t.foreign == nil && t.removed == "" &&
		t.lost == 0 && t.contest.over() && t.losses.over() && !t.crash.active(t.crash.revision, time.Now())
}

// trouble returns the trouble of a child, to be added to. result drops a trouble that is over.
func (m *memory) trouble() *trouble {
	if m.wrong == nil {
		m.wrong = &trouble{}
	}
	return m.wrong
}

// refused returns the refusal that a request would meet again, nil if worth a try.
func (m *memory) refused(request string) error {
	if m.wrong == nil {
		return nil
	}
	return m.wrong.refusal.Standing(request)
}

// removed says whether uid belongs to a child that is being deleted or gone.
func (m *memory) removed(uid string) bool {
	return m.wrong != nil && uid != "" && m.wrong.removed == uid
}

// written is the answer to our last request about an object. It stands in for the cached copy until the cache has seen
// the version, because a decision on an older copy would repeat the request. The version reached by the mirror moves
// with bookmarks and lists as well, so an answer about an object deleted before its event came does not stay in force.
type written struct {
	object kube.Object   // nil: nothing was written
	until  time.Time     // when the trust ends
	trust  time.Duration // the length of the trust
}

const (
	// firstTrust is how long an answer stands in for the cache. An event takes milliseconds; after five seconds the
	// watch may be dead, and the answer as old as the cache.
	firstTrust = 5 * time.Second
	// maxTrust bounds the trust in a copy read after the trust in the previous copy had ended. The trust doubles each
	// time: a watch that stays dead costs one GET per minute and object in the end.
	maxTrust = time.Minute
)

var trusts = backoff.Backoff{Min: firstTrust, Max: maxTrust}

// source says which copy of an object is the newest known.
type source int

const (
	fromCache source = iota
	fromAnswer
	fromServer // the cache is behind and the answer is old: read the object
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

// set remembers an answer. An answer that follows an answer with an ended trust is trusted twice as long.
func (w *written) set(object kube.Object) {
	trust := firstTrust
	if w.object != nil && !time.Now().Before(w.until) {
		trust = trusts.Next(w.trust)
	}
	*w = written{object: object, until: time.Now().Add(trust), trust: trust}
}

func (w *written) clear() { *w = written{} }

// remaining returns how long the answer is still trusted; 0 without an answer, and never 0 with an answer.
func (w *written) remaining() time.Duration {
	if w.object == nil {
		return 0
	}
	return max(time.Until(w.until), time.Millisecond)
}

// synced is a desired state and a live state that match: by comparison, or because the server made the live state of
// the desired state. As long as both stay the same there is nothing to compare or to send: the server may store a
// value in another form than declared, or drop a value (hostNetwork: false), and a comparison would find the
// difference forever.
type synced struct {
	hash     string
	uid      string
	content  uint64 // of the live child; the version would change with each status
	whole    uint64 // content with all labels and annotations, ours or not
	version  string // of the live child: the same version needs no fingerprint
	minReady time.Duration
}

var seed = maphash.MakeSeed()

// fingerprint identifies the compared part of a child. Labels and annotations we do not declare are left out: they
// belong to other clients, and a server that drops part of our declaration would be asked again for each change of
// them.
func fingerprint(want *declared, live kube.Object) uint64 {
	return declaredHash(want, live, HashAnnotation)
}

// declaredHash is contentHash with the declared labels and annotations, and one annotation more.
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

// contentHash is a hash of a child without its status, and with the selected labels and annotations only.
func contentHash(live kube.Object, label, annotation func(key string) bool) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	text := func(s string) { // the end is marked: "ab","c" is not "a","bc"
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

// contest counts the writes of one desired state that another writer undoes. skiff backs off from a persistent writer:
// each round would be two more writes.
type contest struct {
	hash   string
	since  time.Time
	window time.Duration // after since, in which writes are counted
	count  int
	rival  string // the other writer, once known
}

// patience says how many writes within a first window are a fight. A fight that goes on after the pause gets one write
// per window, and windows double, up to longest.
type patience struct {
	writes          int
	window, longest time.Duration
}

// Changes: no person undoes a write five times by hand within a minute, and a webhook that rewrites our fields is
// found out after two writes, because the second apply changes nothing.
//
// Deletions: a missing child is an outage, so there is more patience. Tests of resilience delete every few seconds,
// and must see the child come back. Four minutes: two hook controllers that delete each other's children for a
// thousand parents make some twenty requests a second.
var (
	withChanges   = patience{5, time.Minute, 16 * time.Minute}
	withDeletions = patience{10, 10 * time.Second, 4 * time.Minute}
)

// pause returns how long to make no write, 0 for no pause.
func (c *contest) pause(hash string, p patience) time.Duration {
	if c.hash != hash || !c.full(p) {
		return 0
	}
	return max(time.Until(c.since.Add(c.window)), 0)
}

// full says whether the window has no room for another write.
func (c *contest) full(p patience) bool {
	return c.window > p.window && c.count > 0 || c.count >= p.writes
}

// over says whether the last window is so long past that a new write is no longer part of the same fight.
func (c *contest) over() bool { return time.Since(c.since) >= 2*c.window }

// add counts a write that made a change.
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

// Refusal is a request refused by the server for its content. A controller is woken by many events, its own status
// writes among them, and the same request would be refused again; so the answer is kept for a while, but not forever:
// a webhook, a quota or an allocation may have been the cause. A request is known by a text. The zero value remembers
// nothing.
type Refusal struct {
	of    string
	err   error
	until time.Time
	wait  time.Duration
}

// A refused request is sent again after a second at the earliest, then after two, four, and once per minute in the
// end.
var refusals = backoff.Backoff{Min: time.Second, Max: time.Minute}

// Standing returns the refusal that a request would meet again, nil if worth a try.
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

// requestOf is the text for a request to bring a child to a desired state (hash) from a live state (fingerprint; 0: no
// child yet).
func requestOf(hash string, content uint64) string {
	return hash + " " + strconv.FormatUint(content, 16)
}

// crashLoop paces the replacement of a child that ends again and again, as a kubelet paces the restarts of a
// container. The zero value is a child that has not ended.
type crashLoop struct {
	revision string        // of the child; another revision begins anew
	uid      string        // of the last ended child
	how      string        // the child ended
	pause    time.Duration // before its replacement
	until    time.Time     // the end of the pause
	replaced time.Time     // when the successor was first seen; zero: not yet
}

// The figures of a kubelet's CrashLoopBackOff. A child that ends at once is replaced some 300 times a day.
var crashes = backoff.Backoff{Min: 10 * time.Second, Max: 5 * time.Minute}

const goodFor = 10 * time.Minute // without an end: all is forgotten

// note counts the end of a child once.
func (c *crashLoop) note(uid, revision, how string, now time.Time) {
	if c.uid == uid {
		return
	}
	pause := time.Duration(0)
	if c.active(revision, now) {
		pause = crashes.Next(c.pause)
	}
	*c = crashLoop{revision: revision, uid: uid, how: how, pause: pause, until: now.Add(pause)}
}

// follow notes the uid of the present child.
func (c *crashLoop) follow(uid string, now time.Time) {
	if c.uid != "" && c.uid != uid && c.replaced.IsZero() {
		c.replaced = now
	}
}

// active says whether a child of the revision has ended, and the successor has not been good for long enough since.
func (c *crashLoop) active(revision string, now time.Time) bool {
	return c.uid != "" && c.revision == revision && (c.replaced.IsZero() || now.Sub(c.replaced) < goodFor)
}

// ending describes the state of a child that has ended more than once; "" otherwise.
func (c *crashLoop) ending(revision string, now time.Time) (how string, pause time.Duration) {
	if c.pause == 0 || !c.active(revision, now) {
		return "", 0
	}
	return c.how, c.pause
}

// remove remembers a child as being deleted or gone.
func (m *memory) remove(uid string, gone bool) {
	t := m.trouble()
	t.removed, t.gone, t.asked = uid, gone, time.Now()
	m.seen = ""
}
