package apply

import (
	"context"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// nodePorts are the node ports of the cluster, shared by the children of all owners. Each port exists once in a
// cluster, and there are 2,768 ports. All Services of an engine have the same nodePorts in Kind.scarce, other kinds
// have nil, for which every method does nothing.
type nodePorts struct {
	mu sync.Mutex // guards until
	// until is the end of a shortage; zero: as far as known, ports are free. All children in need of a port wait
	// together, and once a minute one of them tries.
	until time.Time
}

const (
	// portPatience is how long a taken node port is asked for again. The API server frees the port of a deleted
	// Service after sending the event of the deletion: a POST right after the event comes too early, in two of five
	// cases (seen on v1.36, milliseconds). After seconds another Service has the port.
	portPatience = 3 * time.Second
	// portRetry is the first wait between tries. It doubles.
	portRetry = 10 * time.Millisecond
)

// portWait is the wait of one child for a node port.
type portWait struct {
	hash    string // of the declared state with the port
	since   time.Time
	next    time.Time // no try before: the port was refused for too long
	cause   string
	starved bool // no port in particular: the cluster has no free port
}

// scarceFor returns the nodePorts of a kind, nil for a kind without node ports.
func scarceFor(r kube.Resource) *nodePorts {
	if r.Kind == "Service" && r.APIVersion() == "v1" {
		return new(nodePorts)
	}
	return nil
}

// holds says whether the child has to wait for a node port before the next request.
func (x *nodePorts) holds(c *child) bool {
	if x == nil {
		return false
	}
	starved := false
	if t := c.mem.wrong; t != nil && t.scarce.hash == c.want.hash {
		if wait := time.Until(t.scarce.next); wait > 0 && !t.scarce.starved {
			c.concludePort(PortTaken, wait, t.scarce.cause)
			return true
		}
		starved = t.scarce.starved
	}
	if starved || allocatesNodePort(c) {
		if wait := x.claim(); wait > 0 {
			c.concludePort(NoNodePort, wait, "")
			return true
		}
	}
	return false
}

// retries says whether the server refused the child's node port a moment ago, so that the next try is due.
func (x *nodePorts) retries(c *child) bool {
	t := c.mem.wrong
	return x != nil && t != nil && t.scarce.hash == c.want.hash && !t.scarce.since.IsZero() &&
		time.Since(t.scarce.since) < portPatience
}

// exhausted says whether the server refused a write because the cluster has no free node port.
func (x *nodePorts) exhausted(err error) bool { return x != nil && kube.IsNodePortsExhausted(err) }

// taken says whether the server refused a write because another Service has the node port. A Service of the child's
// name may be the holder: the API server allocates a port before checking the name (seen on v1.36). But the port of a
// child just deleted is most often only not free yet.
func (x *nodePorts) taken(err error) bool {
	_, taken := causeOfPort(err)
	return x != nil && taken
}

// refused handles a write that was exhausted or taken.
func (x *nodePorts) refused(ctx context.Context, c *child, err error) (met bool, _ error) {
	p := &c.mem.trouble().scarce
	if x.exhausted(err) {
		*p = portWait{hash: c.want.hash, starved: true}
		x.note()
		c.concludePort(NoNodePort, recheck, "")
		return false, nil
	}
	// A taken port is asked for again for a moment, and then given up if only preferred (Child.Create).
	cause, _ := causeOfPort(err)
	if p.hash != c.want.hash || p.since.IsZero() {
		*p = portWait{hash: c.want.hash, since: time.Now()}
	}
	if waited := time.Since(p.since); waited < portPatience {
		c.concludePort(Conflict, max(waited, portRetry), cause)
		return false, nil
	}
	if c.live == nil && c.want.create != nil {
		c.want.create = nil
		if x.holds(c) {
			return false, nil
		}
		met, err = c.create(ctx)
		if c.outcome == Created {
			c.problem = &health.Problem{Subject: c.String(), Quoted: cause,
				Public: "has another node port than before"}
		}
		return met, err
	}
	p.next, p.cause = time.Now().Add(recheck), cause
	c.concludePort(PortTaken, recheck, cause)
	return false, nil
}

// concludePort is conclude for a Service without its node port, with the cause given by the server.
func (c *child) concludePort(o Outcome, wait time.Duration, cause string) {
	public := "cannot have its node port"
	switch o {
	case Conflict:
		public = "waits for its node port"
	case NoNodePort:
		public = "has no node port, because the cluster has no free one"
	}
	c.conclude(o, wait, "%s", public)
	c.problem.Reason, c.problem.Quoted = NodePort, cause
}

// allocated ends a shortage, if the server had to find a port for the child's successful write.
func (x *nodePorts) allocated(c *child) {
	if x != nil && (c.mem.wrong != nil && c.mem.wrong.scarce.starved || allocatesNodePort(c)) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.until = time.Time{}
	}
}

// allocatesNodePort says whether the server has to find a node port for a Service that does not exist.
func allocatesNodePort(c *child) bool {
	if c.live != nil || c.other != nil { // also of no owner: it has its port
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

// causeOfPort returns why the server refused the node port of a Service.
func causeOfPort(err error) (cause string, taken bool) {
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

// claim returns how long a child has to wait for the end of the shortage, 0 for the child that is to try now.
func (x *nodePorts) claim() (wait time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.until.IsZero() {
		return 0
	}
	if wait := time.Until(x.until); wait > 0 {
		return wait
	}
	x.until = time.Now().Add(recheck)
	return 0
}

// note begins a shortage.
func (x *nodePorts) note() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until = time.Now().Add(recheck)
}
