package manager

import (
	"time"

	"skiff/internal/runtime/health"
)

// LogState is what is known of the log of a process.
type LogState struct {
	Dropped uint64    // lines that were not written since the start
	Blocked time.Time // since when the reader has taken nothing of what is written; zero: nothing is
}

// logBlockedAfter is for how long the log is not read until a person should look: longer than a slow log system takes.
const logBlockedAfter = 10 * time.Second

// logBlocked is the Problem that nothing reads the log.
func (m *Manager) logBlocked() []health.Problem {
	if m.o.LogState == nil {
		return nil
	}
	s := m.o.LogState()
	if s.Blocked.IsZero() || time.Since(s.Blocked) < logBlockedAfter {
		return nil
	}
	return []health.Problem{{Reason: "LogBlocked", Since: s.Blocked,
		Public: health.Count(s.Dropped, "line was", "lines were") + " dropped, and the log has not been read",
		Next:   "the work goes on without a log: read stderr, send it to a file, or restart what collects it"}}
}
