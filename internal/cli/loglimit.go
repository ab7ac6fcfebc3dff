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
	// thousand objects created together are logged whole, and a failure that repeats for a day fits on a disk.
	linesBurst     = 4000
	linesPerSecond = 20
	// namespaceShare is the part of both limits for one namespace, so that no tenant can hide the lines of another.
	namespaceShare = 2
	// tellLeftOut is the time between two lines that say how many lines were left out.
	tellLeftOut = 10 * time.Second
	// maxLineCounts bounds the counted pairs of message and namespace: 100 bytes each.
	maxLineCounts = 4096
)

// logLimit bounds the lines of the whole process, per message and per namespace: a bad server or object must not fill
// the disk. A line belongs to the namespace of the first kube.Key among its values.
type logLimit struct {
	mu   sync.Mutex // guards the rest
	of   map[lineSource]*lineCount
	told time.Time
}

// lineSource has a count of lines: a message, in one namespace or (namespace is "") in all namespaces.
type lineSource struct{ message, namespace string }

// lineCount is a bucket of lines that may be written.
type lineCount struct {
	share   float64 // the part of the limits for this count: 1 / share
	left    float64
	at      time.Time // of left
	leftOut int
}

// pass says whether a line may be written, and, every tellLeftOut, how many lines of which messages were left out.
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

// countLocked returns the count of a source, refilled until now.
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

// refill adds lines for the time since the last call, and says whether the bucket is full.
func (c *lineCount) refill(now time.Time) (full bool) {
	c.left = min(linesBurst/c.share, c.left+now.Sub(c.at).Seconds()*linesPerSecond/c.share)
	c.at = now
	return c.left == linesBurst/c.share
}

// logLines stands before the sink of each form: the level of kube.Warn becomes that of the line, and the limit drops
// lines.
type logLines struct {
	logr.LogSink
	limit     *logLimit // nil: no limit
	namespace string    // of WithValues
}

// Info implements logr.LogSink.
func (s logLines) Info(level int, message string, values ...any) {
	values, warns := kube.Warns(values)
	if warns {
		level = levelWarn
	}
	if s.passes(message, values) {
		s.LogSink.Info(level, message, values...)
	}
}

// Error implements logr.LogSink.
func (s logLines) Error(err error, message string, values ...any) {
	if s.passes(message, values) {
		s.LogSink.Error(err, message, values...)
	}
}

// WithValues implements logr.LogSink.
func (s logLines) WithValues(values ...any) logr.LogSink {
	return logLines{s.LogSink.WithValues(values...), s.limit, s.namespaceOf(values)}
}

// WithName implements logr.LogSink.
func (s logLines) WithName(name string) logr.LogSink {
	return logLines{s.LogSink.WithName(name), s.limit, s.namespace}
}

// passes says whether the limit lets a line through, and logs how many lines were left out since the last such log.
func (s logLines) passes(message string, values []any) bool {
	if s.limit == nil {
		return true
	}
	ok, leftOut := s.limit.pass(message, s.namespaceOf(values))
	for _, message := range slices.Sorted(maps.Keys(leftOut)) {
		s.LogSink.Info(0, "lines were left out: too many of one message; --verbosity 1 writes all",
			"message", message, "lines", leftOut[message])
	}
	return ok
}

// namespaceOf returns the namespace of a line with such values, "" for none.
func (s logLines) namespaceOf(values []any) string {
	for _, v := range values {
		if key, ok := v.(kube.Key); ok && s.namespace == "" {
			return key.Namespace
		}
	}
	return s.namespace
}
