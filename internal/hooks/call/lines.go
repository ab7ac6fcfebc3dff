package call

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/process"
)

// starts are the pauses before a worker whose process has failed starts the next process, until a call succeeds: a
// program that cannot start costs the machine little, and a repaired program is back in a minute.
var starts = backoff.Backoff{Min: time.Second, Max: time.Minute}

// pool has the processes of a program in lines mode.
type pool struct {
	*program
	member []byte        // the beginning of each request: `{"hook":"sync","id":"`
	inUse  chan struct{} // an item for each worker in use
	ended  sync.WaitGroup
	ids    string        // the beginning of each id, which lines of other programs do not have
	asked  atomic.Uint64 // requests

	mu       sync.Mutex // guards the rest
	advised  time.Time  // when advise last logged
	idle     []*worker  // the last used at the end
	restarts int        // how often the processes were found ended between two calls
}

// worker has a single process at a time, with a single call at a time.
type worker struct {
	process *child // nil: none runs
	pause   time.Duration
	next    time.Time // no process is started before
	reason  error     // the error of the process before
}

func newPool(p *program) *pool {
	l := &pool{program: p, inUse: make(chan struct{}, p.workers), ids: rand.Text()[:8] + "-",
		member: append(patch.AppendString([]byte(`{"hook":`), string(p.hook)), `,"id":"`...)}
	for range p.workers {
		l.idle = append(l.idle, &worker{})
	}
	return l
}

func (p *pool) call(ctx context.Context, c Call) (Reply, error) {
	select {
	case p.inUse <- struct{}{}:
		defer func() { <-p.inUse }()
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	}
	w := p.take()
	defer p.giveBack(w)
	files := p.program.version()
	r := &request{member: p.member, body: c.Body, limit: p.max, alone: p.alone, secrets: p.secrets}
	a, err := p.ask(ctx, w, files, r)
	if errors.Is(err, errClean) && w.process.answered > 0 { // like a kept connection that was closed
		p.restarted(w.process)
		w.discard()
		a, err = p.ask(ctx, w, files, r)
	} else if errors.Is(err, errStray) {
		p.advise("the hook prints lines that answer no request, and its process is started again: " +
			"print logs to stderr")
		w.discard()
		a, err = p.ask(ctx, w, files, r)
	}
	full := errors.As(err, new(noRoom))
	if err != nil && !full {
		p.fail(w, err)
		return Reply{}, err
	}
	w.process.answered++
	w.pause, w.next = 0, time.Time{}
	if w.process.spent {
		if a != nil && !a.proven {
			p.advise("the hook does not repeat the id of a request in its answer, and a process is started for " +
				`each: add "id" to the answer`)
		}
		p.end(w.process)
		w.process = nil
	}
	switch {
	case full:
		return Reply{}, err
	case a.refused != nil:
		return Reply{}, a.refused
	}
	return Reply{Body: a.line, Version: p.version()}, nil
}

// adviseEvery is how often an advice is repeated while the hook stays the same.
const adviseEvery = time.Hour

// advise logs, now and then, how to make the hook faster.
func (p *pool) advise(what string) {
	p.mu.Lock()
	due := time.Since(p.advised) >= adviseEvery
	if due {
		p.advised = time.Now()
	}
	p.mu.Unlock()
	if due {
		p.log.Info(what, kube.Warn()...)
	}
}

// discard kills the process of a worker, which needs another for the next request.
func (w *worker) discard() {
	w.process.kill()
	w.process = nil
}

// ask has the process of a worker answer, and starts one where none runs.
func (p *pool) ask(ctx context.Context, w *worker, files string, r *request) (*answer, error) {
	if w.process != nil && (w.process.files != files || p.hasEnded(w.process)) {
		p.end(w.process)
		w.process = nil
	}
	if w.process == nil {
		if time.Until(w.next) > 0 {
			return nil, &pausing{w.reason} // not unavailable: the failure before was counted
		}
		var err error
		if w.process, err = p.run(files, p.epoch()); err != nil {
			return nil, p.notStarted(err)
		}
	}
	return w.process.ask(ctx, p.ids+strconv.FormatUint(p.asked.Add(1), 10), r)
}

// pausing is the error of a worker that starts no process yet.
type pausing struct{ reason error }

// Error says why the last process ended, without wrapping the error, which was another call's. The pause is not named:
// the text stands in a status, which two processes with two pauses would replace for ever.
func (e *pausing) Error() string { return e.reason.Error() }

// take returns an idle worker: the last used whose process runs, else the worker that may start one first.
func (p *pool) take() *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := 0
	for i, w := range p.idle {
		if now := p.idle[best]; w.process != nil || now.process == nil && w.next.Before(now.next) {
			best = i
		}
	}
	w := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return w
}

func (p *pool) giveBack(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, w)
}

// hasEnded says whether a process has ended since its last call.
func (p *pool) hasEnded(c *child) bool {
	select {
	case <-c.done:
		p.restarted(c)
		return true
	default:
		return false
	}
}

// version has the present version of the files and the number of restarts. An answer gets the version of its arrival:
// with the version of the request, a late answer would look like a hook that has changed back.
func (p *pool) version() string { return p.program.version() + Restarts + strconv.Itoa(p.epoch()) }

// Restarts stands in Reply.Version before the number of restarts of the program.
const Restarts = "restart "

// epoch returns how often the hook was restarted. All workers say the same, whichever process they have.
func (p *pool) epoch() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.restarts
}

// restarted counts a restart of the hook when a process has ended between two calls. The ends of other processes of
// the epoch are the same restart.
func (p *pool) restarted(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.epoch == p.restarts {
		p.restarts++
	}
}

// fail kills the process of a worker that did not answer, and has the worker wait before the next start.
func (p *pool) fail(w *worker, err error) {
	if errors.As(err, new(*pausing)) {
		return
	}
	if w.process != nil {
		w.discard()
	}
	if IsMixed(err) { // caused by a single parent: other parents get a process at once
		return
	}
	w.pause = starts.Next(w.pause)
	w.next, w.reason = time.Now().Add(w.pause), p.explain(err)
	p.log.V(1).Info("no process is started for a while", "pause", w.pause.String(), "reason", w.reason.Error())
}

// run starts a process.
func (p *pool) run(files string, epoch int) (*child, error) {
	reader, writer, err := os.Pipe() // not StdoutPipe, which drops the last line of a process that has ended
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, p.spec.Command[0], p.spec.Command[1:]...)
	c := &child{said: p.prepare(cmd), stdout: reader, files: files, epoch: epoch, cancel: cancel,
		done: make(chan struct{})}
	c.lines.Reset(reader)
	cmd.Stdout = writer
	if c.stdin, err = cmd.StdinPipe(); err == nil {
		err = process.Start(cmd)
	}
	_ = writer.Close() // the process has its own
	if err != nil {
		cancel()
		_ = reader.Close() // nothing was read from it
		return nil, err
	}
	p.ended.Go(func() {
		defer cancel()
		c.err = process.Wait(cmd)
		c.said.close()
		close(c.done)
	})
	return c, nil
}

// end closes the input of a process, and kills the process if that does not end it.
func (p *pool) end(c *child) {
	_ = c.stdin.Close() // the process may have ended before
	p.ended.Go(func() {
		timer := time.NewTimer(killDelay)
		defer timer.Stop()
		select {
		case <-c.done:
		case <-timer.C:
		}
		c.kill()
	})
}

func (p *pool) close() {
	for range p.workers { // until no worker is in use
		p.inUse <- struct{}{}
	}
	p.mu.Lock()
	for _, w := range p.idle {
		if w.process != nil {
			p.end(w.process)
			w.process = nil
		}
	}
	p.mu.Unlock()
	p.ended.Wait()
}
