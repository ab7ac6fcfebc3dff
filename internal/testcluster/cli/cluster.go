package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/manager"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
	"skiff/internal/testcluster/state"
)

// devOptions configure an embedded cluster.
type devOptions struct {
	listen     string // loopback address and port, port 0 for a free one
	kubeconfig string // file to write
	readyFile  string // file to write when the cluster is ready; "" = none
	faults     string // file with faults; "" = none
	// certFile and keyFile are the server's certificate. One that does not exist is made; where both are "", only in
	// memory.
	certFile, keyFile string
	api               apiserver.Options // its Token is made if it is not set
	simulate          simulate.Options
	copied            *state.State // of another cluster, to begin with; nil: none
	data              *dataDir     // what is kept of the cluster; nil: nothing
	log               logr.Logger
}

// simulateParts sets what is simulated.
func (o *devOptions) simulateParts(parts []string) {
	// Without its controller, deleted namespaces stay Terminating, as on a server without a controller manager.
	o.api.KeepNamespaces = !slices.Contains(parts, namespacesPart)
	o.api.Quotas = slices.Contains(parts, quotasPart)
	o.api.ProtectStorage = slices.Contains(parts, string(simulate.Volumes))
	// Users rarely want to see the reconciles of the simulation: two levels below skiff's own.
	o.simulate = simulate.Options{Log: o.log.V(2)}
	for _, p := range simulate.Parts() {
		if !slices.Contains(parts, string(p)) {
			o.simulate.Without = append(o.simulate.Without, p)
		}
	}
}

// devCluster is an API server in this process with HTTPS, a token and a kubeconfig, and the simulation of a cluster
// around it. run owns all its goroutines.
type devCluster struct {
	o        devOptions
	api      *apiserver.Server
	serving  io.Closer        // of api
	replicas []*apiserver.TLS // each of several API servers on a port of its own
	to       kube.Config      // how to connect to api
	faults   apiserver.FaultSet
	file     []byte // the content of o.kubeconfig
	ready    []byte // the content of o.readyFile, nil before it is written

	cluster *simulate.Cluster // set by run
	own     *kube.Client      // of the simulation, set by run: not for the faults of users

	requests manager.Requests // of the controllers, for metrics
}

// newDevCluster opens the port and writes the kubeconfig. The caller must call run, once.
func newDevCluster(o devOptions) (*devCluster, error) {
	if o.data != nil {
		if err := o.data.setup(&o); err != nil {
			return nil, err
		}
	}
	if o.api.Token == "" {
		o.api.Token = rand.Text()
	}
	cert, ca, err := o.certificate()
	if err != nil {
		return nil, err
	}
	set, err := readFaults(o.faults)
	if err != nil {
		return nil, err
	}
	o.api.Limits = set.Limits
	d := &devCluster{o: o, api: apiserver.New(o.api), faults: set}
	if err := d.begins(); err != nil {
		d.api.Close()
		return nil, err
	}
	tls, err := d.api.ListenTLSWith(o.listen, cert, ca)
	if err != nil {
		d.api.Close()
		if taken := cli.PortTaken(o.listen, err); taken != nil {
			err = taken
		}
		if o.data != nil {
			return nil, fmt.Errorf("--listen: %w: it is that of the last run, which kubeconfigs name; "+
				"--listen 127.0.0.1:0 takes a free one", err)
		}
		return nil, fmt.Errorf("--listen: %w: choose another port, or 0 for a free one", err)
	}
	d.serving = tls
	if o.data != nil {
		if err := o.data.remember(tls.URL); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	for n := 1; n <= o.api.Replicas && o.api.Replicas > 1; n++ {
		alone, err := d.api.ListenReplica(n, cert, ca)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--replicas: %w", err), d.close())
		}
		d.replicas = append(d.replicas, alone)
	}
	d.o.simulate.RootCA, d.o.simulate.Version = string(tls.CA), o.api.Features.Version()
	if o.api.CEL != nil {
		d.o.simulate.TypeCheck = d.api.TypeCheck
	}
	if err := d.writeKubeconfig(tls); err != nil {
		return nil, errors.Join(err, d.close())
	}
	// Read it now and only once: another process may overwrite the file later.
	env := kubeconfig.OSEnv(cli.WarnIn(o.log))
	if d.to, _, err = kubeconfig.Load(kubeconfig.Flags{Kubeconfig: o.kubeconfig}, env); err != nil {
		return nil, errors.Join(err, d.close(), d.removeFiles())
	}
	// The proxies of the environment are not for this machine.
	d.to.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return d, nil
}

// begins gives the server the objects of a copy, before anything runs on it.
func (d *devCluster) begins() error {
	if d.o.data != nil {
		return d.o.data.resume(d.api)
	}
	if d.o.copied == nil {
		return nil
	}
	known, err := d.o.copied.Import(d.api)
	if err != nil {
		return fmt.Errorf("--load: %w", err)
	}
	d.o.simulate.Copied, d.o.simulate.Nodes = known.Copied, known.Nodes
	return nil
}

// checkLoopback refuses addresses that other machines can reach: the only user of the server may do everything.
func checkLoopback(flag, address string) error {
	if err := cli.CheckAddress(flag, address); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return cli.Usagef("%s %s: want HOST:PORT", flag, address)
	}
	addr, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return cli.Usagef("%s %s: must be a loopback address such as 127.0.0.1:6443", flag, address)
	}
	return nil
}

// waitReady waits until the simulation follows the server and has given the namespace default its ServiceAccount.
func (d *devCluster) waitReady(ctx context.Context, client *kube.Client) error {
	account := kube.Resource{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount"}
	for {
		err := d.cluster.Ready()
		if err == nil && !slices.Contains(d.o.simulate.Without, simulate.ServiceAccounts) {
			var found struct{ kube.Meta }
			err = client.Get(ctx, account, kube.Key{Namespace: "default", Name: "default"}, &found)
			if err != nil && !kube.IsNotFound(err) {
				return err
			}
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the simulated cluster: %w", err)
		case <-time.After(5 * time.Millisecond): // it takes some 50 ms
		}
	}
}

// begin waits until the cluster is ready, makes what it has now the state that a reset brings back, and injects the
// faults of --faults.
func (d *devCluster) begin(ctx context.Context, client *kube.Client) error {
	if err := d.waitReady(ctx, client); err != nil {
		return err
	}
	d.api.SetStart()
	if err := d.api.SetFaults(d.faults); err != nil {
		return fmt.Errorf("--faults: %s: %w", d.o.faults, err)
	}
	return nil
}

// writeReadyFile tells other programs that the cluster can be used.
func (d *devCluster) writeReadyFile() error {
	if d.o.readyFile == "" {
		return nil
	}
	var replicas []string
	for _, alone := range d.replicas {
		replicas = append(replicas, alone.URL)
	}
	line, err := json.Marshal(struct {
		URL        string   `json:"url"`
		Kubeconfig string   `json:"kubeconfig"`
		PID        int      `json:"pid"`
		Replicas   []string `json:"replicas,omitempty"`
	}{d.to.Server, d.o.kubeconfig, os.Getpid(), replicas})
	if err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	d.ready = append(line, '\n')
	return replaceFile("--ready-file", d.o.readyFile, d.ready)
}

func (d *devCluster) close() error {
	err := d.serving.Close()
	for _, s := range d.replicas {
		err = errors.Join(err, s.Close())
	}
	d.api.Close()
	return err
}

// connect returns a client of the cluster. name is its user agent; it is empty for that of the controllers.
func (d *devCluster) connect(name string) (*kube.Client, error) {
	to := d.to
	to.UserAgent = name
	if name == "" {
		to.OnExchange = d.requests.Observe
	}
	return kube.New(to)
}

// forControllers is the cluster as skiff's controllers in this process have it.
func (d *devCluster) forControllers(client *kube.Client) cli.Cluster {
	return cli.Cluster{Client: client, Context: contextName, Requests: &d.requests, Renewals: d.own}
}

// run simulates the cluster while work runs, which gets a client with a user agent (see connect). The context of work
// is cancelled when ctx is done or the simulation fails. When work has returned, run stops everything and removes the
// files: controllers that finish their last reconciles still need a cluster.
func (d *devCluster) run(ctx context.Context, agent string,
	work func(ctx context.Context, client *kube.Client) error) error {
	own, err := d.connect(apiserver.Simulation)
	client, err2 := d.connect(agent)
	if err = errors.Join(err, err2); err == nil {
		d.cluster, d.own = simulate.New(own, d.o.simulate), own
		saved := d.save()
		err = cli.During(ctx, d.cluster.Run, func(ctx context.Context) error { return work(ctx, client) })
		client.Close()
		own.Close()
		err = errors.Join(err, d.close(), saved(), d.removeFiles())
		return err
	}
	return errors.Join(err, d.close(), d.removeFiles())
}
