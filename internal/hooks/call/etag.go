package call

import (
	"container/list"
	"sync"
	"time"
)

// maxStored bounds the memory of all answers that are kept for one hook. Those that were used longest ago go first:
// the hook is then asked for a whole answer.
const maxStored = 32 << 20

// etags are the answers of one hook that are kept for the case that it says that they still hold. nil keeps none.
type etags struct {
	timeout time.Duration // 0: no end

	mu     sync.Mutex               // guards the rest
	byUID  map[string]*list.Element // of *etagEntry
	recent *list.List               // the one used last in front
	size   int
}

type etagEntry struct {
	uid, tag string
	body     []byte
	expires  time.Time // zero: never
}

func (e *etagEntry) size() int { return len(e.uid) + len(e.tag) + len(e.body) + entryMemory }

// entryMemory is about what an entry takes besides its texts.
const entryMemory = 256

func newETags(timeout time.Duration) *etags {
	return &etags{timeout: timeout, byUID: map[string]*list.Element{}, recent: list.New()}
}

// get returns the entry of a parent, nil where there is none. It is not changed afterwards.
func (e *etags) get(uid string) *etagEntry {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	element, ok := e.byUID[uid]
	if !ok {
		return nil
	}
	entry := element.Value.(*etagEntry)
	if !entry.expires.IsZero() && time.Now().After(entry.expires) {
		e.removeLocked(element)
		return nil
	}
	e.recent.MoveToFront(element)
	return entry
}

// put keeps an answer; one without a tag replaces what was kept with nothing.
func (e *etags) put(uid, tag string, body []byte) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if element, ok := e.byUID[uid]; ok {
		e.removeLocked(element)
	}
	entry := &etagEntry{uid: uid, tag: tag, body: body}
	if tag == "" || entry.size() > maxStored {
		return
	}
	if e.timeout > 0 {
		entry.expires = time.Now().Add(e.timeout)
	}
	e.byUID[uid] = e.recent.PushFront(entry)
	e.size += entry.size()
	for e.size > maxStored {
		e.removeLocked(e.recent.Back())
	}
}

func (e *etags) removeLocked(element *list.Element) {
	entry := e.recent.Remove(element).(*etagEntry)
	delete(e.byUID, entry.uid)
	e.size -= entry.size()
}
