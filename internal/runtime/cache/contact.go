package cache

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// contact is the state of the connection to the server. An outage breaks all watches of a process at once, and with
// an expired token all are refused: a line of the log for all, not for each watch. The zero value is ready.
type contact struct {
	mu      sync.Mutex      // guards the rest
	made    bool            // the server has answered once
	away    map[*scope]bool // the scopes whose watch is to be renewed; those of an outage are here before the log line
	refused bool            // a request beside the watches had no accepted credential
	logged  map[string]bool // the problems logged since all was well
}

// common says that an error is about the connection to the server, and not about a single resource.
func common(err error) bool {
	return errors.As(err, new(*kube.NoAnswerError)) || brokeOff(err) || kube.IsUnauthorized(err)
}

// brokeOff says that the connection of a list or watch ended in the middle. The server may answer all the same.
func brokeOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(*net.OpError))
}

// lost notes that the watch of a scope has to be renewed.
func (c *contact) lost(sc *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away == nil {
		c.away = map[*scope]bool{}
	}
	c.away[sc] = true
}

// log logs a common problem, once until all watches work again. A broken connection is no problem until the break
// lasts: package manager logs a server that answers nothing, and lasting says that only watches are concerned. A
// problem already logged there is no warning again.
func (c *contact) log(o *Options, err error, lasting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	message, next := "lost contact with the API server; renewing "+watches(len(c.away)), health.OfError(err).Next
	class, quiet, outage := "lost", false, true
	switch refused, _ := kube.Refused(err); {
	case kube.IsUnauthorized(err):
		message, class, outage = refused+", trying again", refused, false
	case errors.As(err, new(*kube.CredentialError)):
		message, class = "there is no credential for the API server, trying again", "credential"
	case next != "":
		message, class = "cannot reach the API server, trying again", problemClass(err)
	case !c.made:
		message, class, next = "cannot reach the API server, trying again", "start", o.Advice.Server
	case lasting:
		message, class = "cannot renew "+watches(len(c.away))+", trying again", "lasting"
		outage = false
	default:
		quiet = true
	}
	if c.logged[class] {
		return
	}
	if c.logged == nil {
		c.logged = map[string]bool{}
	}
	c.logged[class] = true
	if quiet {
		o.Log.Info(message, "reason", err.Error())
		return
	}
	values := []any{"error", err}
	if next != "" {
		values = append([]any{"hint", next}, values...)
	}
	if !outage || o.Client.FirstToLog() {
		c.logged[loud] = true
		values = kube.Warn(values...)
	}
	o.Log.Info(message, values...)
}

// loud is in contact.logged after a line at level WARN: then the end is logged, too.
const loud = "WARN"

// back notes an answer of the server to a scope.
func (c *contact) back(log logr.Logger, sc *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = true
	delete(c.away, sc)
	c.wellLocked(log)
}

// answered notes the result of a request other than a list or watch. While all watches are open, only such a request
// shows that a credential is not accepted any more.
func (c *contact) answered(o *Options, err error) {
	if err != nil {
		c.mu.Lock()
		c.refused = true
		c.mu.Unlock()
		c.log(o, err, false)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused {
		c.refused = false
		c.wellLocked(o.Log)
	}
}

// wellLocked ends the logged problems once all watches work, and requests beside the watches.
func (c *contact) wellLocked(log logr.Logger) {
	if len(c.away) > 0 || c.refused {
		return
	}
	if c.logged[loud] {
		log.Info("in contact with the API server again")
	}
	c.logged = nil
}

// forget drops a scope no longer watched.
func (c *contact) forget(sc *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.away, sc); len(c.away) == 0 {
		c.logged = nil
	}
}

func watches(n int) string {
	if n == 1 {
		return "1 watch"
	}
	return fmt.Sprintf("%d watches", n)
}
