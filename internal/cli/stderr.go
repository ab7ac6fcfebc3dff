package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"skiff/internal/runtime/manager"
)

const (
	// maxUnwritten bounds the buffer while nothing reads stderr: ten thousand lines of the log.
	maxUnwritten = 2 << 20
	// maxWritten bounds one write, so that a write to a slow reader returns within seconds.
	maxWritten = 64 << 10
	// flushTimeout bounds how long a program waits at exit until the last lines are read.
	flushTimeout = 3 * time.Second
)

// Stderr is the standard error of a program. A reader may stop (Ctrl-S, a pager, a log driver that hangs), and a write
// then blocks for as long. After queue, Write appends to a bounded buffer and never blocks; one goroutine writes the
// buffer out. Lines beyond the bound are dropped and counted, and the count is logged when lines are read again.
// Before queue, Write writes directly.
type Stderr struct {
	out io.Writer

	mu      sync.Mutex // guards the rest
	pending []byte     // to be written
	taken   int        // bytes of the batch that are not written yet
	since   time.Time  // start of the running write; zero: no write is running
	dropped uint64     // lines since the start
	unsaid  int        // dropped lines not yet reported
	report  func(lines int)
	wake    chan struct{} // has an element when pending has grown; nil: no goroutine; closed by close
	closed  bool
	ended   chan struct{} // closed when the goroutine has ended
}

// queue starts the goroutine, which ends with close. After a write that succeeds, the goroutine calls report with the
// number of lines dropped before; report may call Write.
func (s *Stderr) queue(report func(lines int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil || s.closed {
		return
	}
	s.report, s.wake, s.ended = report, make(chan struct{}, 1), make(chan struct{})
	go s.write()
}

// Write implements io.Writer.
func (s *Stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.wake == nil {
		s.mu.Unlock()
		return s.out.Write(p)
	}
	defer s.mu.Unlock()
	if s.taken+len(s.pending)+len(p) > maxUnwritten {
		s.dropLocked(p)
		return len(p), nil
	}
	s.pending = append(s.pending, p...)
	if !s.closed {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

func (s *Stderr) dropLocked(text []byte) {
	lines := max(bytes.Count(text, []byte("\n")), 1)
	s.dropped += uint64(lines)
	s.unsaid += lines
}

// write writes pending, until close was called and pending is empty.
func (s *Stderr) write() {
	defer close(s.ended)
	var spare []byte // the buffer of the last batch, never that of pending
	for open := true; open; {
		_, open = <-s.wake
		for {
			s.mu.Lock()
			batch := s.pending
			s.pending, s.taken = spare[:0], len(batch)
			s.mu.Unlock()
			if spare = batch; cap(spare) > maxWritten {
				spare = nil
			}
			if len(batch) == 0 {
				break
			}
			s.writeAll(batch)
		}
	}
}

func (s *Stderr) writeAll(batch []byte) {
	for len(batch) > 0 {
		part := batch[:min(len(batch), maxWritten)]
		batch = batch[len(part):]
		s.mu.Lock()
		s.since = time.Now()
		s.mu.Unlock()
		_, err := s.out.Write(part)
		s.mu.Lock()
		s.since = time.Time{}
		s.taken -= len(part)
		lines := s.unsaid
		if err != nil { // the other end is closed
			s.dropLocked(part)
			lines = 0
		} else {
			s.unsaid = 0
		}
		s.mu.Unlock()
		if lines > 0 {
			s.report(lines)
		}
	}
}

// state returns the log's state for status and metrics.
func (s *Stderr) state() manager.LogState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return manager.LogState{Dropped: s.dropped, Blocked: s.since}
}

// close waits until all is written, for at most flushTimeout. If a write blocks longer, its goroutine lives until the
// process exits.
func (s *Stderr) close() {
	s.mu.Lock()
	if s.closed || s.wake == nil {
		s.closed = true
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.wake)
	s.mu.Unlock()
	enough := time.NewTimer(flushTimeout)
	defer enough.Stop()
	select {
	case <-s.ended:
	case <-enough.C:
	}
}

// Direct returns the writer below a Stderr, for a child process: the child writes by itself and may block.
func Direct(stderr io.Writer) io.Writer {
	if s, ok := stderr.(*Stderr); ok {
		return s.out
	}
	return stderr
}

// stderrKey is where the context of a command has its Stderr.
type stderrKey struct{}

// logState returns the state of the log of ctx's command; nil outside of Execute.
func logState(ctx context.Context) func() manager.LogState {
	if s, ok := ctx.Value(stderrKey{}).(*Stderr); ok {
		return s.state
	}
	return nil
}

// say writes a line to a stderr that may block, for at most flushTimeout.
func say(stderr io.Writer, format string, args ...any) {
	s := &Stderr{out: stderr}
	s.queue(func(int) {})
	fmt.Fprintf(s, format, args...)
	s.close()
}
