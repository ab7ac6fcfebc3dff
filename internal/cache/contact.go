package cache

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/go-logr/logr"

	"skiff/internal/kube"
)

// contact is what is known of the connection to the server. An outage breaks all watches of a process at once, and a
// token that expires has all of them refused: that is one line of the log, not one per watch. The zero value is ready.
type contact struct {
	mu    sync.Mutex      // guards the rest
	made  bool            // the server has answered once
	away  map[*scope]bool // the scopes whose watch is to be renewed; those of an outage are here before it is told
	told  map[string]bool // the classes of problems that were told since all was well
	flood flood
}

// common says that an error is about the connection to the server, and not about one resource.
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

// tell logs a problem that is common, once until all watches work again.
func (c *contact) tell(log logr.Logger, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	class := problemClass(err)
	if c.told[class] {
		return
	}
	if c.told == nil {
		c.told = map[string]bool{}
	}
	c.told[class] = true
	next := hint(err)
	message := fmt.Sprintf("lost contact with the API server; %s being renewed", watches(len(c.away)))
	noAnswer := errors.As(err, new(*kube.NoAnswerError))
	switch {
	case errors.As(err, new(*kube.CredentialError)):
		message = "there is no credential for the API server, trying again"
		if c.made {
			message += fmt.Sprintf("; %s being renewed", watches(len(c.away)))
		}
	case kube.IsUnauthorized(err):
		message = "the server refused the token or client certificate (401)"
	case !noAnswer:
		message = "connections to the API server break off, trying again"
	case !c.made:
		message = "cannot reach the API server, trying again"
		if next == hintNothing {
			next = "check --server or the kubeconfig"
		}
	}
	if ok, _ := c.flood.pass("contact"); ok {
		log.Error(err, message, "hint", next)
	}
}

// back notes that the server answers a scope.
func (c *contact) back(log logr.Logger, sc *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = true
	delete(c.away, sc)
	if len(c.away) > 0 {
		return
	}
	if len(c.told) > 0 {
		if ok, _ := c.flood.pass("back"); ok {
			log.Info("in contact with the API server again")
		}
	}
	c.told = nil
}

// forget drops a scope that is no longer watched.
func (c *contact) forget(sc *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.away, sc); len(c.away) == 0 {
		c.told = nil
	}
}

func watches(n int) string {
	if n == 1 {
		return "1 watch is"
	}
	return fmt.Sprintf("%d watches are", n)
}
