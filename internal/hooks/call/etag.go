package call

import (
	"container/list"
	"sync"
	"time"
)

// maxStored bounds the memory of all answers kept for a hook. The least recently used go first: the hook is then asked
// for a whole answer.
const maxStored = 32 << 20

// etags are the answers of a hook, kept for when the hook says that an answer still holds. nil keeps none.
type etags struct {
	timeout time.Duration // 0: no end

	mu     sync.Mutex               // guards the rest
	byUID  map[string]*list.Element // of *etagEntry
	recent *list.List               // the last used in front
	size   int
}

type etagEntry struct {
	uid, tag string
	body     []byte
	expires  time.Time // zero: never
}

func (e *etagEntry) size() int { return len(e.uid) + len(e.tag) + len(e.body) + entryMemory }

// entryMemory is about the memory of an entry besides the texts.
const entryMemory = 256

func newETags(timeout time.Duration) *etags {
	return &etags{timeout: timeout, byUID: map[string]*list.Element{}, recent: list.New()}
}

// get returns the entry of a parent, nil where there is none. An entry never changes.
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

// put keeps an answer in place of the last, which an answer without a tag only removes.
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
