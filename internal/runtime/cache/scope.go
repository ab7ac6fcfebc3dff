package cache

import (
	"sync"
	"time"
)

// scope is a Reflector's part of a Store: one namespace, or all. Store.mu guards the fields, but for Namespace, which
// does not change, and end.
type scope struct {
	ScopeState
	end func() // stops the Reflector and waits for the end; guarded by Store.runMu

	// writing is held while the content of the scope changes and the handlers are notified, by the Reflector or by
	// whoever sheds a namespace: so that the changes of an object come in order. Taken before handlersMu.
	writing sync.Mutex

	rewound time.Time // when content of another history last replaced the content, zero if never
	refused time.Time // when the server last answered a request with an error, or a list was too large
	away    bool      // was parked, and no request has succeeded since
	listing bool      // a list is under way
	// interrupt ends the open watch, for a list; nil: no watch was opened.
	interrupt func(cause error)
}

func newScope(namespace string) *scope {
	return &scope{ScopeState: ScopeState{Namespace: namespace, Phase: stopped,
		Counters: Counters{Lists: map[string]int{}, Reconnects: map[string]int{}}}}
}

func (sc *scope) covers(namespace string) bool { return covers(sc.Namespace, namespace) }

// covers says that of is the namespace, or stands for all.
func covers(of, namespace string) bool { return of == "" || of == namespace }

// moveTo notes that the content is the collection at rv.
func (sc *scope) moveTo(rv string) {
	sc.ResourceVersion = rv
	sc.LastEvent = time.Now()
	sc.LastContact = sc.LastEvent
}

// ScopeState describes the health of a part of a mirror, for readiness, logs and metrics.
type ScopeState struct {
	Namespace       string // "": all
	Phase           phase  // "streaming", "backing off" ...
	Synced          bool   // listed, and the handlers notified, since the mirror was started
	Parked          bool   // a right or the resource is missing (403, 404): asked for every 5 to 10 s
	ResourceVersion string // the content is the collection at this version
	Objects         int
	Quarantined     int       // objects whose newest version does not decode
	LastEvent       time.Time // of the last list, event or bookmark
	LastContact     time.Time // of LastEvent, or of the answer that opened a watch
	LastBookmark    time.Time
	Opened          time.Time // when the last watch was opened
	LastAnswer      time.Time // LastContact, or a later answer of the server with an error
	Err             error     // why the last request failed, nil after a success
	ErrSince        time.Time // since when all requests have failed, zero after a success
	Problem         string    // Err as text with the HTTP code: "403 Forbidden: watch pods: ..."
	Counters        Counters
}

// Counters count since the start.
type Counters struct {
	Lists      map[string]int // full lists by reason: "initial", "expired", "rewound" ...
	Reconnects map[string]int // ends of a watch by reason: "ended", "short", "idle", "broken" ...

	Outdated    int // events dropped because the mirror was at or past the version
	Misplaced   int // objects dropped because of another scope
	UnknownType int // events of a type unknown to skiff
	Undecodable int // objects and events not decoded
	Rewinds     int // times the server's history went back
	MassDeletes int // lists with most of a mirror removed
	Parked      int // times a right or the resource went missing
	Panics      int // of OnChange handlers
	Crashes     int // panics of the Reflector itself
	IndexPanics int // of index functions
}
