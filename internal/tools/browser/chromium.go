package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// programs are the names under which distributions have Chromium.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// answerTimeout bounds one command: Chromium answers within milliseconds, if it is not starting on a busy machine.
const answerTimeout = 20 * time.Second

// chromium is a browser that runs.
type chromium struct {
	cmd   *exec.Cmd
	send  *os.File
	dir   string        // its profile
	ended chan struct{} // closed after the last message

	mu      sync.Mutex // guards all below, and writing
	last    int        // number of a command
	waiting map[int]chan<- message
	tabs    map[string]*tab // by session
}

// message is one of the DevTools protocol: a command, an answer or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// errNone is the error where there is no browser.
var errNone = errors.New("no Chromium is installed (looked for " + strings.Join(programs, ", ") + "); on Debian: " +
	"apt-get install chromium")

// start starts a browser. end ends it with all of its processes.
func start() (*chromium, error) {
	var program string
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return nil, errNone
	}
	dir, err := os.MkdirTemp("", "skiff-browser-")
	if err != nil {
		return nil, err
	}
	commands, send, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	receive, events, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &chromium{send: send, dir: dir, ended: make(chan struct{}), waiting: map[int]chan<- message{},
		tabs: map[string]*tab{}}
	c.cmd = exec.Command(program, "--headless=new", "--remote-debugging-pipe", "--user-data-dir="+dir,
		"--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1440,900", "about:blank")
	if os.Geteuid() == 0 {
		c.cmd.Args = append(c.cmd.Args, "--no-sandbox") // Chromium refuses root otherwise; it loads skiff's page alone
	}
	c.cmd.ExtraFiles = []*os.File{commands, events} // 3 and 4, as the protocol wants them
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = c.cmd.Start()
	_ = commands.Close() // the child has its own
	_ = events.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), os.RemoveAll(dir))
	}
	go c.receive(receive)
	return c, nil
}

// end kills the browser and waits for its end.
func (c *chromium) end() error {
	err := syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	_ = c.cmd.Wait() // killed
	_ = c.send.Close()
	<-c.ended
	return errors.Join(err, os.RemoveAll(c.dir))
}

// receive hands out what the browser sends until its end.
func (c *chromium) receive(in io.ReadCloser) {
	defer close(c.ended)
	defer in.Close()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m) != nil {
			continue // the answer is missed by the one that waits for it
		}
		c.mu.Lock()
		answer, t := c.waiting[m.ID], c.tabs[m.Session]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m
		case t != nil:
			t.observe(m)
		}
	}
}

// call sends a command and decodes its answer into result, unless that is nil.
func (c *chromium) call(session, method string, params map[string]any, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	m := message{ID: c.last, Session: session, Method: method, Params: text}
	line, err := json.Marshal(m)
	if err == nil {
		c.waiting[m.ID] = answer
		_, err = c.send.Write(append(line, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case got := <-answer:
		if got.Error != nil {
			return fmt.Errorf("%s: %s", method, got.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(got.Result, result)
	case <-c.ended:
		return fmt.Errorf("%s: the browser has ended", method)
	case <-time.After(answerTimeout):
		return fmt.Errorf("%s: no answer within %s", method, answerTimeout)
	}
}
