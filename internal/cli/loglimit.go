package cli

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
)

const (
	// linesBurst is how many lines of one message are written at once, linesPerSecond how many follow in a second: a
	// thousand objects that are created or fail together are logged whole, and what goes on for a day fits on a disk.
	linesBurst     = 4000
	linesPerSecond = 20
	// namespaceShare is the part of both that one namespace may use, so that one tenant cannot hide what concerns
	// others.
	namespaceShare = 2
	// tellLeftOut is the time between two lines that say how many lines were left out.
	tellLeftOut = 10 * time.Second
	// maxLineCounts bounds the messages and namespaces that are counted: 100 bytes each.
	maxLineCounts = 4096
)

// logLimit bounds the lines of the whole process, per message and per namespace: a bad server or object must not fill
// the disk. A line belongs to the namespace of the first kube.Key among its values.
type logLimit struct {
	mu   sync.Mutex // guards all below
	of   map[lineSource]*lineCount
	told time.Time
}

// lineSource is what lines are counted by: a message, in one namespace or (namespace is "") in all of them.
type lineSource struct{ message, namespace string }

// lineCount is a bucket of lines that may be written.
type lineCount struct {
	share   float64 // the part of the limits that is its own: 1 / share
	left    float64
	at      time.Time // of left
	leftOut int
}

// pass says whether a line may be written, and how many lines of which messages were left out if that is to be told.
func (l *logLimit) pass(message, namespace string) (ok bool, leftOut map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	all := l.countLocked(lineSource{message, ""}, 1, now)
	ok = all.left >= 1
	if namespace != "" {
		share := l.countLocked(lineSource{message, namespace}, namespaceShare, now)
		if ok = ok && share.left >= 1; ok {
			share.left--
		}
	}
	if ok {
		all.left--
	} else {
		all.leftOut++
	}
	if now.Sub(l.told) < tellLeftOut {
		return ok, nil
	}
	leftOut = map[string]int{}
	for source, count := range l.of {
		if count.leftOut > 0 {
			leftOut[source.message] = count.leftOut
			count.leftOut, l.told = 0, now
		}
	}
	return ok, leftOut
}

// countLocked returns the count of a source with its lines as of now.
func (l *logLimit) countLocked(source lineSource, share float64, now time.Time) *lineCount {
	count := l.of[source]
	if count == nil && len(l.of) >= maxLineCounts {
		maps.DeleteFunc(l.of, func(_ lineSource, c *lineCount) bool { return c.refill(now) && c.leftOut == 0 })
		if len(l.of) >= maxLineCounts {
			source = lineSource{"others", "others"}
			count = l.of[source]
		}
	}
	if count == nil {
		count = &lineCount{share: share, left: linesBurst / share, at: now}
		if l.of == nil {
			l.of = map[lineSource]*lineCount{}
		}
		l.of[source] = count
	}
	count.refill(now)
	return count
}

// refill adds the lines that time has brought, and says whether there are as many as can be.
func (c *lineCount) refill(now time.Time) (full bool) {
	c.left = min(linesBurst/c.share, c.left+now.Sub(c.at).Seconds()*linesPerSecond/c.share)
	c.at = now
	return c.left == linesBurst/c.share
}

// limitedLog is the sink of a log with a limit.
type limitedLog struct {
	logr.LogSink
	limit     *logLimit
	namespace string // of WithValues
}

func (s limitedLog) Info(level int, message string, values ...any) {
	if s.passes(message, values) {
		s.LogSink.Info(level, message, values...)
	}
}

func (s limitedLog) Error(err error, message string, values ...any) {
	if s.passes(message, values) {
		s.LogSink.Error(err, message, values...)
	}
}

func (s limitedLog) WithValues(values ...any) logr.LogSink {
	return limitedLog{s.LogSink.WithValues(values...), s.limit, s.namespaceOf(values)}
}

func (s limitedLog) WithName(name string) logr.LogSink {
	return limitedLog{s.LogSink.WithName(name), s.limit, s.namespace}
}

// passes says whether a line may be written, and logs what was left out since it did so last.
func (s limitedLog) passes(message string, values []any) bool {
	ok, leftOut := s.limit.pass(message, s.namespaceOf(values))
	for _, message := range slices.Sorted(maps.Keys(leftOut)) {
		s.LogSink.Info(0, "lines were left out: too many of one message; --verbosity 1 writes all",
			"message", message, "lines", leftOut[message])
	}
	return ok
}

// namespaceOf returns the namespace that a line with such values belongs to, "" for none.
func (s limitedLog) namespaceOf(values []any) string {
	for _, v := range values {
		if key, ok := v.(kube.Key); ok && s.namespace == "" {
			return key.Namespace
		}
	}
	return s.namespace
}
