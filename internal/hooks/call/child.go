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
	spent    bool // it was asked without repeating the id: another request could not tell its answer from a late line
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
//
// An answer counts only if no other request can have led to it. Either it repeats the id of the request, or the
// process has had no other request, gets none after it, and prints nothing else.
func (c *child) ask(ctx context.Context, id string, r *request) (a *answer, err error) {
	c.buffer = r.appendLine(c.buffer[:0], id)
	c.said.begin(c.answered == 0) // a process may have failed before its first request
	defer func() {
		if a != nil && err == nil {
			c.said.answered(a.refused)
		} else {
			c.said.answered(err)
		}
	}()
	stop := context.AfterFunc(ctx, c.kill)
	_, err = c.stdin.Write(c.buffer)
	if cap(c.buffer) > maxBuffer {
		c.buffer = nil
	}
	var line []byte
	if err == nil {
		line, err = c.readLine(r.limit, RoomOf(ctx))
	}
	full := errors.As(err, new(noRoom))
	if err == nil {
		if a, err = c.accept(line, id, r.secrets); err == nil && (r.alone || !a.proven) {
			err = c.silent()
		}
	} else if !full && !errors.Is(err, errTooLong) {
		err = c.ending(err)
	}
	switch {
	case !stop():
		return nil, fmt.Errorf("%w", c.said.ended(context.Cause(ctx)))
	case errors.Is(err, errTooLong):
		return nil, tooLong(r.limit)
	}
	return a, err
}

// accept reads a line as the answer to the request with this id.
func (c *child) accept(line []byte, id string, secrets []string) (*answer, error) {
	a, err := readAnswer(line, secrets)
	switch {
	case err == nil && a.id == id:
		a.proven = true // what the process prints besides is met as a stray line by the next request
		return a, nil
	case c.answered > 0: // printed late: it may belong to any request before
		return nil, errStray
	case err != nil:
		return nil, fmt.Errorf("it printed a line that is not JSON: %s", strconv.Quote(excerpt(string(line), secrets)))
	case a.id != "":
		return nil, &mixed{"it printed a line with the id of another request"}
	}
	return a, nil
}

// silent ends the input of the process, and waits until it prints no more. What it prints is an error.
func (c *child) silent() error {
	c.spent = true
	_ = c.stdin.Close()
	timer := time.AfterFunc(killDelay, c.kill)
	defer timer.Stop()
	for {
		b, err := c.lines.ReadByte()
		switch {
		case err != nil: // its end, or that of the wait for it
			return nil
		case !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)):
			return &mixed{"it printed more than one line for one request on stdout"}
		}
	}
}

// errStray is the error of a process that printed something besides its answers to earlier requests.
var errStray = errors.New("it printed a line that answers no request")

// mixed is the error of a hook of whose lines skiff cannot tell which one is the answer.
type mixed struct{ what string }

// Error says what to do about it.
func (m *mixed) Error() string {
	return m.what + ": nothing of it is used; print logs to stderr, and repeat the id of the request in its answer"
}

// IsMixed says of an error of Call that the hook printed other lines than its answer. The next call for this parent
// will fail as this one, until the hook or the parent is another.
func IsMixed(err error) bool { return errors.As(err, new(*mixed)) }

// request is what a process is asked.
type request struct {
	member  []byte // with which each request begins: `{"hook":"sync","id":"`
	body    []byte
	limit   int // of the answer, in bytes
	alone   bool
	secrets []string
}

// appendLine makes one line of a request. Line breaks in JSON are white space, never part of a string.
func (r *request) appendLine(out []byte, id string) []byte {
	out = append(append(append(out, r.member...), id...), `",`...)
	out = append(out, bytes.TrimPrefix(r.body, []byte("{"))...)
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
		return unavailable{c.said.ended(fmt.Errorf("it does not take requests, or closed its output: %w", err))}
	}
	if c.err == nil {
		return unavailable{c.said.ended(errClean)}
	}
	return exited(c.err, c.said)
}

// answer is a line that a process printed.
type answer struct {
	line    []byte
	id      string // "": it has none
	proven  bool   // id is that of the request
	refused error  // {"later": SECONDS} or {"error": TEXT}; nil: the hook has answered
}

// hookError is the answer {"error": TEXT}.
type hookError struct{ said string }

// Error is what the hook said.
func (e *hookError) Error() string { return e.said }

// readAnswer reads a line. The error says that it is not JSON.
func readAnswer(line []byte, secrets []string) (*answer, error) {
	if !json.Valid(line) {
		return nil, errors.New("not JSON")
	}
	a := &answer{line: line}
	_ = kube.Members(line, func(name []byte, value kube.Raw) error { // what is no object is refused with the answer
		var text string
		var seconds float64
		switch string(name) {
		case "id":
			_ = json.Unmarshal(value, &a.id) // what is no text is none of ours
		case "later":
			if json.Unmarshal(value, &seconds) == nil && !bytes.Equal(value, []byte("null")) {
				a.refused = later(seconds)
			}
		case "error":
			if json.Unmarshal(value, &text) == nil && text != "" {
				a.refused = &hookError{excerpt(text, secrets)}
			}
		}
		return nil
	})
	return a, nil
}
