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

// maxBuffer is the largest buffer kept for the next request: larger requests are rare.
const maxBuffer = 256 << 10

// child is a process in lines mode.
type child struct {
	stdin    io.WriteCloser
	stdout   *os.File
	lines    bufio.Reader // of stdout
	said     *stderr
	files    string // the version of the files at the start
	epoch    int    // pool.restarts at the start
	answered int
	spent    bool // gets no other request, as the answer did not repeat the id; or Options.Alone
	cancel   context.CancelFunc
	done     chan struct{} // closed at the end of the process
	err      error         // of the end; valid once done is closed
	buffer   []byte
}

// kill ends the process, and thereby a waiting call. A process that does not obey is killed after killDelay.
func (c *child) kill() {
	c.cancel()
	_ = c.stdin.Close() // both may be closed
	_ = c.stdout.Close()
}

// ask sends a request as a line and returns the answering line. After an error other than noRoom the process is of no
// use.
//
// A line counts as the answer only if no other request can have caused the line: either the line repeats the id of the
// request, or the process has had no other request, gets none later, and prints nothing else.
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

// accept reads a line as the answer to the request with the id.
func (c *child) accept(line []byte, id string, secrets []string) (*answer, error) {
	a, err := readAnswer(line, secrets)
	switch {
	case err == nil && a.id == id:
		a.proven = true // any other line is a stray line for the next request
		return a, nil
	case c.answered > 0: // printed late, perhaps for an earlier request
		return nil, errStray
	case err != nil:
		return nil, fmt.Errorf("it printed a line that is not JSON: %s; print to stderr what is no answer",
			strconv.Quote(excerpt(string(line), secrets)))
	case a.id != "":
		return nil, &mixed{"it printed a line with the id of another request"}
	}
	return a, nil
}

// silent ends the input of the process, and waits for the end of the output. More output is an error.
func (c *child) silent() error {
	c.spent = true
	_ = c.stdin.Close()
	timer := time.AfterFunc(killDelay, c.kill)
	defer timer.Stop()
	for {
		b, err := c.lines.ReadByte()
		switch {
		case err != nil: // the end of the process, or of the wait
			return nil
		case !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)):
			return &mixed{"it printed more than one line for one request on stdout"}
		}
	}
}

// errStray is the error of a process that printed something besides the answers to earlier requests.
var errStray = errors.New("it printed a line that answers no request")

// mixed is the error of a hook whose answer cannot be told from other lines.
type mixed struct{ what string }

// Error has the next step, too.
func (m *mixed) Error() string {
	return m.what + ": nothing of it is used; print logs to stderr, and repeat the id of the request in its answer"
}

// IsMixed says of an error of Call whether the hook printed other lines than the answer. The next call for the parent
// will fail, too, until the hook or the parent changes.
func IsMixed(err error) bool { return errors.As(err, new(*mixed)) }

// request is a question to a process.
type request struct {
	member  []byte // the beginning of each request: `{"hook":"sync","id":"`
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

// noRoom is the error of Room.Take about an answer that was read to the end.
type noRoom struct{ error }

func (n noRoom) Unwrap() error { return n.error }

// readLine returns the next line, without the line break. A line without room is read to the end, and dropped.
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

// ending returns the error of a process that did not take or answer a request: how the process ended, if so.
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
	id      string // "": none
	proven  bool   // id is the request's
	refused error  // {"later": SECONDS} or {"error": TEXT}; nil: the hook has answered
}

// hookError is the answer {"error": TEXT}.
type hookError struct{ said string }

// Error is the text of the hook.
func (e *hookError) Error() string { return e.said }

// readAnswer reads a line, which must be JSON.
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
			_ = json.Unmarshal(value, &a.id) // no string: not an id of skiff
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
