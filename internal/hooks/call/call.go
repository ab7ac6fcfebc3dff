// Package call asks a hook: it sends a request to a webhook or a program, and returns the answer as it came.
//
// A hook is the work of others. It may be gone, hang, answer without end, redirect elsewhere, or be killed halfway:
// each call ends within its timeout and reads a bounded answer, and its error names the hook and what came back, but
// no credentials. What is in a request and an answer is package wire; when to ask again is the caller's.
//
// Call runs on its caller's goroutine, several at a time. A Caller has connections and processes until Close, with
// the goroutines that package net/http and package exec run for these, and one for each process in lines mode.
package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

const (
	// defaultAnswer is how long an answer may be, unless Options say otherwise.
	defaultAnswer = 16 << 20
	// defaultWorkers is how many programs run at once, unless Options say otherwise.
	defaultWorkers = 6
	// defaultTimeout is what a webhook has by default.
	defaultTimeout = 10 * time.Second
	// maxLater is the longest wait that a hook can ask for. One that is overloaded knows sooner than that.
	maxLater = time.Hour
	// defaultLater is the wait where a hook does not say for how long.
	defaultLater = time.Second
	// maxCause is how much of a cause a hook gets: it goes into a header, and into an environment.
	maxCause = 512
	// maxSaid is how much of what a hook has said goes into an error, which may become an Event.
	maxSaid = 256
)

// Options are what all hooks of a process share.
type Options struct {
	Log logr.Logger
	// Workers is how many programs run at once; 0: 6, one for each worker of a controller, which keeps one free for
	// another namespace.
	Workers int
	// MaxAnswer is how many bytes an answer may have; 0: 16 MiB.
	MaxAnswer int
	// DryRun tells each hook that nothing will come of its answer: SKIFF_DRY_RUN=1, or Skiff-Dry-Run: true.
	DryRun bool
	// Alone has each process in lines mode asked once, and waits for its end: what it prints late is noticed.
	Alone bool
	// RunAs is the user that programs run as; nil: that of skiff.
	RunAs *process.ID
	// Credential reads a key of a Secret or a ConfigMap.
	Credential func(context.Context, spec.Reference) ([]byte, error)
	// At are where the webhooks of controllers are, by their name, instead of where these say: scheme, host and port,
	// and a path that comes before that of the webhook.
	At map[string]*url.URL
	// Dial opens the connections of webhooks; nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Call is one question to a hook.
type Call struct {
	Cause     string // what led to it
	Attempt   int    // how many calls for this parent have failed since one succeeded
	ParentUID string
	Body      []byte // the request
}

// Reply is what a hook has answered.
type Reply struct {
	Body []byte
	// Version is another one than before when the hook has changed: what the endpoint says in Skiff-Hook-Version, or
	// the files that the program is made of.
	Version string
}

// Later is the error of a hook that is to be called again after a while. It is no failure.
type Later struct {
	After time.Duration
	Why   string // "": the hook asks for it
}

// Error says why and when.
func (l *Later) Error() string {
	if l.Why == "" {
		return fmt.Sprintf("the hook asks to be called again in %s", l.After)
	}
	return fmt.Sprintf("%s: the hook is called again in %s", l.Why, l.After)
}

// later returns the error of a hook that asks for this many seconds.
func later(seconds float64) *Later {
	switch {
	case seconds >= maxLater.Seconds():
		return &Later{After: maxLater}
	case seconds > 0:
		return &Later{After: time.Duration(seconds * float64(time.Second))}
	}
	return &Later{After: defaultLater}
}

// unavailable marks the error of a hook that did not answer: the next call, for whatever parent, may fail as this
// one.
type unavailable struct{ error }

func (u unavailable) Unwrap() error { return u.error }

// IsUnavailable says of an error of Call that the hook could not be reached, did not answer in time, or said itself
// that it fails; false: it refused this request, or its answer cannot be used.
func IsUnavailable(err error) bool { return errors.As(err, new(unavailable)) }

// Brief says of an error of Call in a few words what the hook did, and nothing that the hook has said.
func Brief(err error) string {
	status, exit, ended := new(statusError), new(exec.ExitError), new(exitError)
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("status %d", status.code)
	case errors.As(err, &exit):
		text := exit.ProcessState.String() // "exit status 3", "signal: killed"
		if errors.As(err, &ended) && ended.place != "" {
			text += " at " + ended.place
		}
		return text
	case IsUnavailable(err):
		return "no answer"
	}
	return "wrong answer"
}

// Said returns what a hook said that went wrong, with its place in the hook, or where it said nothing the error.
func Said(err error) string {
	ended, wrong := new(exitError), new(hookError)
	switch {
	case errors.As(err, &ended) && ended.said != "":
		return ended.said
	case errors.As(err, &wrong):
		return wrong.said
	}
	return err.Error()
}

// Caller calls one hook. It is safe for concurrent use.
type Caller struct {
	where   string                 // "hook sync at http://host/path"
	place   atomic.Pointer[string] // of the address of a webhook: FILE:LINE, or the object; nil: --hook-url
	timeout time.Duration
	hook    endpoint
	close   func() // once
}

// endpoint is what a hook is called through.
type endpoint interface {
	call(ctx context.Context, c Call) (Reply, error)
	version() string // "": only an answer says it
	// explain adds to the error of a call what is known of its cause.
	explain(err error) error
	close()
}

// New returns the Caller of one hook of a controller. Nothing is called, and no credential read, before the first
// Call.
func New(controller *spec.Controller, hook wire.Hook, h *spec.Hook, o Options) (*Caller, error) {
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = defaultAnswer
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if h.Webhook != nil {
		w, err := newWebhook(h.Webhook, o, o.At[controller.Name])
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", hook, err)
		}
		c := newCaller(fmt.Sprintf("hook %s at %s", hook, w.shown), h.Timeout, w)
		if o.At[controller.Name] == nil {
			place := cmp.Or(controller.Places[string(hook)], controller.Kind+" "+controller.Name)
			c.place.Store(&place)
		}
		return c, nil
	}
	if h.Exec == nil || len(h.Exec.Command) == 0 {
		return nil, fmt.Errorf("hook %s: it has neither a webhook nor a command", hook)
	}
	p := newProgram(controller.Name, hook, h.Exec, o)
	where := fmt.Sprintf("hook %s (%s)", hook, kube.Printable(h.Exec.Command[0], maxSaid))
	if h.Exec.Mode == spec.Lines {
		return newCaller(where, h.Timeout, newPool(p)), nil
	}
	return newCaller(where, h.Timeout, newOneshot(p)), nil
}

func newCaller(where string, timeout time.Duration, hook endpoint) *Caller {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &Caller{where: where, timeout: timeout, hook: hook, close: sync.OnceFunc(hook.close)}
}

// Version returns what Reply.Version of a call would be now. "": the hook is a webhook, of which only the next answer
// says it.
func (c *Caller) Version() string { return c.hook.version() }

// Moved takes note of another place of the address, which itself is the same; "": the place is not known.
func (c *Caller) Moved(place string) {
	if place != "" && c.place.Load() != nil {
		c.place.Store(&place)
	}
}

// Call asks the hook. An error is a *Later, or says what is wrong.
func (c *Caller) Call(ctx context.Context, question Call) (Reply, error) {
	question.Cause = ascii(question.Cause)
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.hook.call(limited, question)
	if err != nil && ctx.Err() == nil {
		err = c.hook.explain(err)
	}
	var wait *Later
	switch {
	case err == nil:
		return reply, nil
	case errors.As(err, &wait):
		return Reply{}, wait
	case ctx.Err() != nil:
		return Reply{}, fmt.Errorf("%s: %w", c.where, context.Cause(ctx))
	case limited.Err() != nil:
		err = unavailable{fmt.Errorf("no answer within %s%s", c.timeout, said(err))}
	}
	dial := new(net.OpError)
	if err = fmt.Errorf("%s: %w", c.where, err); errors.As(err, &dial) && dial.Op == "dial" {
		u := &Unreached{Err: err}
		if place := c.place.Load(); place != nil {
			u.place = *place
		}
		err = u
	}
	return Reply{}, err
}

// Unreached is the error of a call of a webhook at whose address nothing answers.
type Unreached struct {
	Err   error
	place string
}

// Error has the place of the address, and the next step.
func (u *Unreached) Error() string {
	if u.place == "" {
		return u.Err.Error() + "; start it, or correct --hook-url"
	}
	return u.place + ": " + u.Err.Error() + "; start it, or correct the url"
}

// Next is the next step with the place of the address.
func (u *Unreached) Next() string {
	if u.place == "" {
		return "start it, or correct --hook-url"
	}
	return "start it, or correct the url of " + u.place
}

func (u *Unreached) Unwrap() error { return u.Err }

// said returns what a program said before its time was over.
func said(err error) string {
	var exit *exitError
	if errors.As(err, &exit) && exit.said != "" {
		return ": " + exit.said
	}
	return ""
}

// Close waits for the calls that are under way, and ends what the Caller has opened and started. No call may follow.
func (c *Caller) Close() { c.close() }

// ascii returns a text as it may stand in a header and an environment: printable ASCII of at most maxCause bytes.
// What else is in it is escaped.
func ascii(s string) string {
	var out strings.Builder
	for i, r := range s {
		text := string(r)
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			text = fmt.Sprintf(`\x%02x`, s[i])
		case r > 0xffff:
			text = fmt.Sprintf(`\U%08x`, r)
		case r >= 0x7f || r < ' ':
			text = fmt.Sprintf(`\u%04x`, r)
		}
		if out.Len()+len(text) > maxCause {
			break
		}
		out.WriteString(text)
	}
	return out.String()
}

// excerpt returns the beginning of what a hook has said, for an error.
func excerpt(text string, secrets []string) string {
	return kube.Printable(process.Redact(strings.TrimSpace(text), secrets), maxSaid)
}
