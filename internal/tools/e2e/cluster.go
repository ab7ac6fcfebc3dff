package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Cluster is one real control plane on loopback, with its own etcd, ports, certificates and directory.
type Cluster struct {
	Dir    string // logs, data, kubeconfigs; removed by Close unless told to keep it
	Server string // URL of the API server
	CAFile string
	Admin  *API // as a cluster administrator

	bins      Binaries
	flags     []string // of the API server, besides its own
	group     *Group
	etcdURL   string
	port      int
	apiserver *Process
	audit     auditLog

	loops       []string   // of the controller manager
	controllers []*Process // the controller manager, the scheduler and kwok

	mu        sync.Mutex // guards processes: parallel tests start programs of their own
	processes []*Process // all that were started, for the logs
}

// startLimit bounds the start of each component. Seen: 3 s for all of them on an idle machine of two cores. It only
// ends what will never work, so it is long enough for a machine that is busy with something else.
const startLimit = 4 * time.Minute

// StartControlPlane starts etcd and a kube-apiserver and nothing else that writes: no controllers, no nodes.
// That is what the differential test needs.
//
// The API server gets the flags besides its own.
func StartControlPlane(ctx context.Context, bins Binaries, flags ...string) (_ *Cluster, err error) {
	c := &Cluster{bins: bins, flags: flags, loops: kubeControllers}
	if c.Dir, err = os.MkdirTemp("", "skiff-e2e-"); err != nil {
		return nil, fmt.Errorf("make the cluster's directory: %w", err)
	}
	if c.group, err = NewGroup(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, c.Tails(20))
			c.Close(true)
		}
	}()
	if err := c.startEtcd(ctx); err != nil {
		return nil, err
	}
	if err := c.prepareAPIServer(); err != nil {
		return nil, err
	}
	return c, c.StartAPIServer(ctx)
}

// StartCluster starts a control plane and, once prepare has run, the controller manager, the scheduler and kwok with
// one node. prepare is the place to install CRDs: the garbage collector learns the kinds that exist when it starts at
// once, and later ones only every 30 s.
func StartCluster(ctx context.Context, bins Binaries, prepare func(*Cluster) error) (*Cluster, error) {
	c, err := StartControlPlane(ctx, bins)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(prepare(c), c.startControllers(ctx)); err != nil {
		err = fmt.Errorf("%w\n%s", err, c.Tails(20))
		c.Close(true)
		return nil, err
	}
	return c, nil
}

// Close stops everything. Nothing in the cluster is worth a clean shutdown.
func (c *Cluster) Close(keepDir bool) {
	c.group.Close()
	if !keepDir {
		os.RemoveAll(c.Dir)
	}
}

// Start runs a program beside the control plane, in its directory and its process group.
func (c *Cluster) Start(name string, env []string, argv ...string) (*Process, error) {
	p, err := c.group.Start(c.Dir, name, env, argv...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p, nil
}

// Tails are the last n lines of each component's log, with its path.
func (c *Cluster) Tails(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, seen := "", map[string]bool{}
	for _, p := range c.processes {
		if !seen[p.LogPath] { // a restarted program goes on with its log
			text += p.Tail(n)
		}
		seen[p.LogPath] = true
	}
	return text
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// waitFor polls ready until it returns nil, p ends, or startLimit has passed.
func waitFor(ctx context.Context, p *Process, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("start %s: it ended with exit code %d", p.Name, p.ExitCode())
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready within %s: %w", p.Name, startLimit, err)
		case <-tick.C:
		}
	}
}

// freePort is a loopback port that nothing listens on now. It is below those that the kernel gives to connections,
// from 32768 on (Linux, ip_local_port_range): one of these may be taken before the server that is to have it listens.
func freePort() (int, error) {
	const first, last, tries = 10_000, 32_767, 100 // from above what services have by convention
	var err error
	for range tries {
		port := first + rand.IntN(last-first+1)
		var l net.Listener
		if l, err = net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
