// Package call sends a request to a hook, a webhook or a program, and returns the answer undecoded.
//
// A hook is foreign code, and may be gone, hang, answer without end, redirect elsewhere, or be killed halfway. So each
// call ends within a timeout and reads a bounded answer; an error names the hook and quotes the answer, but no
// credentials. Package wire has the contents of requests and answers; the caller decides when to ask again.
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
	// defaultTimeout applies where a hook sets no timeout.
	defaultTimeout = 10 * time.Second
	// maxLater is the longest wait that a hook can ask for: an overloaded hook recovers sooner.
	maxLater = time.Hour
	// defaultLater is the wait where a hook does not say for how long.
	defaultLater = time.Second
	// maxCause is how much of a cause a hook gets, in a header or in the environment.
	maxCause = 512
	// maxSaid is how much of a hook's output goes into a log line, or an error, which may become an Event.
	maxSaid = 256
)

// Options are what all hooks of a process share.
type Options struct {
	Log logr.Logger
	// Workers is how many programs run at once; 0: 6, for the workers of a controller, with a spare worker for another
	// namespace.
	Workers int
	// MaxAnswer is how many bytes an answer may have; 0: 16 MiB.
	MaxAnswer int
	// DryRun tells each hook that the answer is not applied: SKIFF_DRY_RUN=1, or Skiff-Dry-Run: true.
	DryRun bool
	// Alone has each process in lines mode asked once, and waits for the end, to notice late lines.
	Alone bool
	// RunAs is the user that programs run as; nil: that of skiff.
	RunAs *process.ID
	// Credential reads a key of a Secret or a ConfigMap.
	Credential func(context.Context, spec.Reference) ([]byte, error)
	// At replaces the addresses of webhooks, by the name of the controller: scheme, host and port, and a path to put
	// before the path of the webhook.
	At map[string]*url.URL
	// Dial opens the connections of webhooks; nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Call is one question to a hook.
type Call struct {
	Cause     string // why the hook is called
	Attempt   int    // failed calls for the parent since the last success
	ParentUID string
	Body      []byte // the request
}

// Reply is the answer of a hook.
type Reply struct {
	Body []byte
	// Version changes with the hook: the header Skiff-Hook-Version, or a hash of the program's files, in lines mode
	// with the restarts.
	Version string
}

// Later is the error of a hook that is to be called again after a while, which is no failure.
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

// later returns the error of a hook that asks for a wait of so many seconds.
func later(seconds float64) *Later {
	switch {
	case seconds >= maxLater.Seconds():
		return &Later{After: maxLater}
	case seconds > 0:
		return &Later{After: time.Duration(seconds * float64(time.Second))}
	}
	return &Later{After: defaultLater}
}

// unavailable marks the error of a hook that did not answer: the next call, for any parent, may fail, too.
type unavailable struct{ error }

func (u unavailable) Unwrap() error { return u.error }

// IsUnavailable says of an error of Call whether the hook could not be reached, did not answer in time, or failed;
// false: the hook refused the request, or the answer cannot be used.
func IsUnavailable(err error) bool { return errors.As(err, new(unavailable)) }

// Brief describes an error of Call in a few words, without the words of the hook.
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

// Said returns the hook's own message, with the place in the hook, or without a message the text of the error.
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
	field   string // of timeout, in the controller
	hook    endpoint
	close   func() // once
}

// endpoint is what a hook is called through.
type endpoint interface {
	call(ctx context.Context, c Call) (Reply, error)
	version() string // "": known from answers only
	// explain adds a known cause to the error of a call.
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
		c.field = fmt.Sprintf("hooks.%s.webhook.timeout", hook)
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
	var e endpoint = newOneshot(p)
	if h.Exec.Mode == spec.Lines {
		e = newPool(p)
	}
	c := newCaller(where, h.Timeout, e)
	c.field = fmt.Sprintf("hooks.%s.exec.timeout", hook)
	return c, nil
}

func newCaller(where string, timeout time.Duration, hook endpoint) *Caller {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &Caller{where: where, timeout: timeout, hook: hook, close: sync.OnceFunc(hook.close)}
}

// Version returns the Reply.Version of a call made now; "": the hook is a webhook, whose answers alone tell.
func (c *Caller) Version() string { return c.hook.version() }

// Moved takes note of a new place of the unchanged address; "": the place is not known.
func (c *Caller) Moved(place string) {
	if place != "" && c.place.Load() != nil {
		c.place.Store(&place)
	}
}

// Call asks the hook. An error is a *Later or a failure.
func (c *Caller) Call(ctx context.Context, question Call) (Reply, error) {
	question.Cause = ascii(question.Cause)
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout,
		fmt.Errorf("no answer within %s (answer sooner, or raise %s)", c.timeout, c.field))
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
		err = unavailable{fmt.Errorf("%w%s", context.Cause(limited), said(err))}
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

// said returns the message of a program whose time is over.
func said(err error) string {
	var exit *exitError
	if errors.As(err, &exit) && exit.said != "" {
		return ": " + exit.said
	}
	return ""
}

// Close waits for the calls under way, and ends all connections and processes. No call may follow.
func (c *Caller) Close() { c.close() }

// ascii returns a text fit for a header and an environment: printable ASCII of at most maxCause bytes, all else
// escaped.
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

// excerpt returns the beginning of a hook's output, for an error.
func excerpt(text string, secrets []string) string {
	return kube.Printable(process.Redact(strings.TrimSpace(text), secrets), maxSaid)
}
