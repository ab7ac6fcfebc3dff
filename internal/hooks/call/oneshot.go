package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"

	"skiff/internal/runtime/process"
)

// oneshot runs a process for each call.
type oneshot struct {
	*program
	running chan struct{} // an item for each process that runs
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
	version := o.version() // at the start
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
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // a child process held the output, and has ended by now
		if err := onlyJSON(stdout.Data, o.secrets); err != nil {
			return Reply{}, err
		}
		return Reply{Body: stdout.Data, Version: version}, nil
	}
	return Reply{}, exited(err, said)
}

// onlyJSON refuses an answer with something else than JSON, most often a log line, and says where such lines belong.
func onlyJSON(answer []byte, secrets []string) error {
	switch {
	case len(bytes.TrimSpace(answer)) == 0:
		return errors.New("it printed nothing on stdout; print the answer there, a JSON object")
	case !json.Valid(answer):
		return fmt.Errorf("it printed %s on stdout, which is not JSON; print to stderr what is no answer",
			strconv.Quote(excerpt(string(answer), secrets)))
	}
	return nil
}

// output keeps an answer if there is room. A program whose answer is not kept runs to the end all the same.
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
