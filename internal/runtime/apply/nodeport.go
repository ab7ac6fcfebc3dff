package apply

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// Node ports are the one thing that children of all owners share: each exists once in a cluster, and there are 2,768
// of them.

const (
	// portPatience is how long a node port that is taken is asked for again. The API server frees the port of a
	// deleted Service after it has sent the event of the deletion: a POST that follows at once comes too early, in
	// two of five cases (seen on v1.36, milliseconds). After seconds another Service has it.
	portPatience = 3 * time.Second
	// portRetry is the first wait in between. It doubles.
	portRetry = 10 * time.Millisecond
)

// portWait is the wait of one child for a node port.
type portWait struct {
	hash    string // of the declared state that asks for it
	since   time.Time
	next    time.Time // not before: it was refused for too long
	cause   string
	starved bool // no port in particular: the cluster has none left
}

// waitsForPort says whether the child has to wait for a node port before anything is sent again.
func (c *child) waitsForPort() bool {
	starved := false
	if t := c.mem.wrong; t != nil && t.port.hash == c.want.hash {
		if wait := time.Until(t.port.next); wait > 0 && !t.port.starved {
			c.conclude(PortTaken, wait, "%s", t.port.cause)
			return true
		}
		starved = t.port.starved
	}
	if starved || c.live == nil && c.allocatesNodePort() {
		if cause, wait := c.nodePorts.claim(); wait > 0 {
			c.conclude(NoNodePort, wait, "%s", cause)
			return true
		}
	}
	return false
}

// retriesPort says that the child was refused its node port a moment ago, and asks for it again.
func (c *child) retriesPort() bool {
	t := c.mem.wrong
	return t != nil && t.port.hash == c.want.hash && !t.port.since.IsZero() && time.Since(t.port.since) < portPatience
}

// portTaken is what follows when the server refuses a node port because another Service has it: it is asked for again
// for a moment, and then given up if it was only preferred (Child.Create).
func (c *child) portTaken(ctx context.Context, cause string) (met bool, err error) {
	p := &c.mem.trouble().port
	if p.hash != c.want.hash || p.since.IsZero() {
		*p = portWait{hash: c.want.hash, since: time.Now()}
	}
	if waited := time.Since(p.since); waited < portPatience {
		c.conclude(Conflict, max(waited, portRetry), "%s waits for its node port: %s", c, cause)
		return false, nil
	}
	if c.live == nil && c.want.create != nil {
		c.want.create = nil
		met, err = c.create(ctx)
		if c.outcome == Created {
			c.message = fmt.Sprintf("%s could not keep its node port (%s) and has another one", c, cause)
		}
		return met, err
	}
	p.next, p.cause = time.Now().Add(recheck), cause
	c.conclude(PortTaken, recheck, "%s", cause)
	return false, nil
}

// starved is what follows when the cluster has no free node port.
func (c *child) starved() {
	c.mem.trouble().port = portWait{hash: c.want.hash, starved: true}
	c.nodePorts.note(rangeIsFull)
	c.conclude(NoNodePort, recheck, rangeIsFull)
}

// allocatesNodePort says whether the server has to find a node port for the child when it is created.
func (c *child) allocatesNodePort() bool {
	if c.kind.resource.Kind != "Service" || c.kind.apiVersion != "v1" {
		return false
	}
	spec, _ := c.want.initial()["spec"].(map[string]any)
	if spec["type"] != "NodePort" &&
		(spec["type"] != "LoadBalancer" || spec["allocateLoadBalancerNodePorts"] == false) {
		return false
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if port, _ := p.(map[string]any); port["nodePort"] == nil {
			return true
		}
	}
	return false
}

// nodePortTaken returns why the server did not give a Service the node port that it asks for.
func nodePortTaken(err error) (string, bool) {
	if !kube.IsInvalid(err) {
		return "", false
	}
	for _, c := range kube.AsStatus(err).Details.Causes {
		if strings.HasSuffix(c.Field, ".nodePort") {
			return c.Message, true
		}
	}
	return "", false
}

// noNodePortLeft says that the whole range is in use. The server answers 500 (seen on v1.36), which is else worth a
// retry.
func noNodePortLeft(err error) bool {
	s := kube.AsStatus(err)
	return s != nil && strings.Contains(s.Message, rangeIsFull)
}

const rangeIsFull = "failed to allocate a nodePort: range is full"

// portShortage says that the cluster has no free node port. All who need one wait together: one of them tries once a
// minute.
type portShortage struct {
	mu    sync.Mutex // guards all below
	until time.Time  // zero: there are free ones, as far as is known
	cause string
}

// claim returns how long to wait, 0 for the one that is to try now.
func (x *portShortage) claim() (cause string, wait time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.until.IsZero() {
		return "", 0
	}
	if wait := time.Until(x.until); wait > 0 {
		return x.cause, wait
	}
	x.until = time.Now().Add(recheck)
	return "", 0
}

func (x *portShortage) note(cause string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until, x.cause = time.Now().Add(recheck), cause
}

// found ends the wait: a port was allocated.
func (x *portShortage) found() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until = time.Time{}
}
