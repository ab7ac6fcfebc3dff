package call

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"skiff/internal/runtime/kube"
)

// maxBuffer is how much of a request is kept for the next one: larger ones are rare.
const maxBuffer = 256 << 10

// child is a process in lines mode.
type child struct {
	stdin    io.WriteCloser
	stdout   *os.File
	lines    bufio.Reader // of stdout
	said     *stderr
	files    string // the version of the files that it was started from
	epoch    int    // pool.restarts at its start
	answered int
	cancel   context.CancelFunc
	done     chan struct{} // closed at its end
	err      error         // how it ended; good when done is closed
	buffer   []byte
}

// kill ends the process, and with it a call that waits for it: it is told to, and killed when it does not obey.
func (c *child) kill() {
	c.cancel()
	_ = c.stdin.Close() // both may be closed
	_ = c.stdout.Close()
}

// ask sends a request as one line and returns the line that answers it. After an error other than noRoom the process
// is of no use.
func (c *child) ask(ctx context.Context, member, body []byte, limit int, secrets []string) ([]byte, error) {
	c.buffer = appendLine(c.buffer[:0], member, body)
	stop := context.AfterFunc(ctx, c.kill)
	_, err := c.stdin.Write(c.buffer)
	if cap(c.buffer) > maxBuffer {
		c.buffer = nil
	}
	var line []byte
	if err == nil {
		line, err = c.readLine(limit, RoomOf(ctx))
	}
	switch {
	case !stop():
		return nil, fmt.Errorf("%w", &exitError{context.Cause(ctx), c.said.lastLine()})
	case errors.Is(err, errTooLong):
		return nil, tooLong(limit)
	case errors.As(err, new(noRoom)):
		return nil, err
	case err != nil:
		return nil, c.ending(err)
	case !json.Valid(line):
		return nil, fmt.Errorf("it printed a line that is not JSON: %s", strconv.Quote(excerpt(string(line), secrets)))
	case c.lines.Buffered() > 0:
		return nil, errors.New("it printed more than one line for one request: answers would be mixed up")
	}
	return line, nil
}

// appendLine makes one line of a request. Line breaks in JSON are white space, never part of a string.
func appendLine(out, member, body []byte) []byte {
	out = append(append(out, member...), bytes.TrimPrefix(body, []byte("{"))...)
	for i := range out {
		if out[i] == '\n' || out[i] == '\r' {
			out[i] = ' '
		}
	}
	return append(out, '\n')
}

var errTooLong = errors.New("line too long")

// noRoom is the error of Room.Take about an answer that was read to its end.
type noRoom struct{ error }

func (n noRoom) Unwrap() error { return n.error }

// readLine returns the next line, without its end. The rest of a line that there is no room for is passed over.
func (c *child) readLine(limit int, room *Room) (line []byte, err error) {
	length, refused := 0, error(nil)
	for {
		part, err := c.lines.ReadSlice('\n')
		before := length
		if length += len(part); length > limit+1 {
			return nil, errTooLong
		}
		if before <= smallAnswer && length > smallAnswer {
			if err := room.Take(int64(limit)); err != nil {
				refused = noRoom{err}
			}
		}
		if refused == nil {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case err == nil:
			return bytes.TrimSpace(line), refused
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

var errClean = errors.New("it ended without an answer")

// ending returns the error of a process that did not take a request or answer it: how it has ended, if it has.
func (c *child) ending(err error) error {
	timer := time.NewTimer(killDelay)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		return unavailable{&exitError{fmt.Errorf("it does not take requests, or closed its output: %w", err),
			c.said.lastLine()}}
	}
	if c.err == nil {
		return unavailable{&exitError{errClean, c.said.lastLine()}}
	}
	return exited(c.err, c.said.lastLine())
}

// refusedBy returns the error that a line is: {"later": SECONDS} or {"error": TEXT}. nil: it is an answer.
func refusedBy(line []byte, secrets []string) (refused error) {
	if !bytes.Contains(line, []byte(`"later"`)) && !bytes.Contains(line, []byte(`"error"`)) {
		return nil
	}
	_ = kube.Members(line, func(name []byte, value kube.Raw) error { // what is no object is refused with the answer
		var text string
		var seconds float64
		switch {
		case bytes.Equal(value, []byte("null")):
		case string(name) == "later" && json.Unmarshal(value, &seconds) == nil:
			refused = later(seconds)
		case string(name) == "error" && json.Unmarshal(value, &text) == nil && text != "":
			refused = errors.New(excerpt(text, secrets))
		}
		return nil
	})
	return refused
}
