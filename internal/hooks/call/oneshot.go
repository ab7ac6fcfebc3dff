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
	stdout := &process.Output{Limit: o.max}
	cmd.Stdin, cmd.Stdout = bytes.NewReader(c.Body), stdout
	if err := process.Start(cmd); err != nil {
		return Reply{}, notStarted(err)
	}
	err := process.Wait(cmd)
	said.lines.Flush()
	switch {
	case stdout.Over:
		return Reply{}, tooLong(o.max)
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // what it left behind held its output, and has ended by now
		return Reply{Body: stdout.Data, Version: version}, nil
	}
	return Reply{}, exited(err, said.lastLine())
}

func (o *oneshot) close() {
	for range o.workers { // until no process runs
		o.running <- struct{}{}
	}
}
