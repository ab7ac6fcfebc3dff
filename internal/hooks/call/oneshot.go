package call

import (
	"bytes"
	"context"
	"errors"
	"os/exec"

	"skiff/internal/runtime/process"
)

// oneshot runs a process for each call.
type oneshot struct {
	*program
	running chan struct{} // one for each process that runs
}

func newOneshot(p *program) *oneshot {
	return &oneshot{program: p, running: make(chan struct{}, p.workers)}
}

func (o *oneshot) call(ctx context.Context, c Call) (Reply, error) {
	select {
	case o.running <- struct{}{}:
		defer func() { <-o.running }()
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	}
	version := o.version() // of what is started
	cmd := exec.CommandContext(ctx, o.spec.Command[0], o.spec.Command[1:]...)
	said := o.prepare(cmd, "SKIFF_CAUSE="+c.Cause)
	stdout := &output{Output: process.Output{Limit: o.max}, room: RoomOf(ctx)}
	cmd.Stdin, cmd.Stdout = bytes.NewReader(c.Body), stdout
	said.begin(true)
	if err := process.Start(cmd); err != nil {
		return Reply{}, o.notStarted(err)
	}
	err := process.Wait(cmd)
	said.close()
	switch {
	case stdout.refused != nil:
		return Reply{}, stdout.refused
	case stdout.Over:
		return Reply{}, tooLong(o.max)
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // what it left behind held its output, and has ended by now
		return Reply{Body: stdout.Data, Version: version}, nil
	}
	return Reply{}, exited(err, said)
}

// output keeps an answer as far as there is room for it. A program whose answer is not kept ends as others do.
type output struct {
	process.Output
	room    *Room
	asked   bool
	refused error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if !o.asked && len(o.Data)+len(p) > smallAnswer {
		o.asked = true
		if o.refused = o.room.Take(int64(o.Limit)); o.refused != nil {
			o.Data = nil
		}
	}
	if o.refused != nil {
		return len(p), nil
	}
	return o.Output.Write(p)
}

func (o *oneshot) close() {
	for range o.workers { // until no process runs
		o.running <- struct{}{}
	}
}
