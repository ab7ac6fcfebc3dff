package manager

import (
	"fmt"
	"time"
)

// LogState is what is known of the log of a process.
type LogState struct {
	Dropped uint64    // lines that were not written since the start
	Blocked time.Time // since when the reader has taken nothing of what is written; zero: nothing is
}

// logBlockedAfter is for how long the log is not read until that needs attention: longer than the system of a log
// takes that is only slow.
const logBlockedAfter = 10 * time.Second

// logStep is what to do then.
const logStep = "the work goes on without a log: read stderr, send it to a file, or restart what collects it"

// logBlocked says that nothing reads the log; "": it is read.
func (m *Manager) logBlocked() string {
	if m.o.LogState == nil {
		return ""
	}
	s := m.o.LogState()
	blocked := time.Since(s.Blocked)
	if s.Blocked.IsZero() || blocked < logBlockedAfter {
		return ""
	}
	return fmt.Sprintf("the log has not been read for %s; %d lines were dropped", blocked.Round(time.Second),
		s.Dropped)
}
