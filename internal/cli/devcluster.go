package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"gopkg.in/yaml.v3"

	"skiff/internal/fakeapi"
	"skiff/internal/kube"
	"skiff/internal/kubeconfig"
	"skiff/internal/simulate"
)

// devOptions say what an embedded cluster is like.
type devOptions struct {
	listen     string // loopback address and port, port 0 for a free one
	kubeconfig string // file to write
	simulate   simulate.Options
	log        logr.Logger
}

// devCluster is an API server in this process with everything that makes it a cluster: HTTPS, a token, a kubeconfig,
// and simulated nodes. run owns all its goroutines.
type devCluster struct {
	o       devOptions
	api     *fakeapi.Server
	serving io.Closer   // of api
	to      kube.Config // how it is reached
	file    []byte      // what was written to o.kubeconfig
}

// newDevCluster opens the port and writes the kubeconfig. The caller runs the cluster, once.
func newDevCluster(o devOptions) (*devCluster, error) {
	token := rand.Text()
	d := &devCluster{o: o, api: fakeapi.New(fakeapi.Options{Token: token})}
	tls, err := d.api.ListenTLS(o.listen)
	if err != nil {
		d.api.Close()
		return nil, fmt.Errorf("--listen: %w", err)
	}
	d.serving = tls
	if err := d.writeKubeconfig(tls, token); err != nil {
		return nil, errors.Join(err, d.close())
	}
	// Read once: others may put something else there.
	env := kubeconfig.OSEnv(func(msg string) { o.log.Info("warning", "text", msg) })
	if d.to, _, err = kubeconfig.Load(kubeconfig.Flags{Kubeconfig: o.kubeconfig}, env); err != nil {
		return nil, errors.Join(err, d.close(), d.removeKubeconfig())
	}
	// those of the environment are not for this machine
	d.to.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return d, nil
}

// checkLoopback refuses addresses that others can reach: the server has one user, who may do everything.
func checkLoopback(flag, address string) error {
	if err := checkAddress(flag, address); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("%s %s: want HOST:PORT", flag, address)
	}
	addr, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return usagef("%s %s: only addresses of this machine itself, such as 127.0.0.1:6443, are served", flag,
			address)
	}
	return nil
}

// writeKubeconfig writes the file with which kubectl and skiff reach the server. Only this user may read it.
func (d *devCluster) writeKubeconfig(tls *fakeapi.TLS, token string) error {
	const name = "skiff-dev"
	type object = map[string]any
	var err error
	d.file, err = yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{object{"name": name, "cluster": object{"server": tls.URL,
			"certificate-authority-data": base64.StdEncoding.EncodeToString(tls.CA)}}},
		"users":    []any{object{"name": name, "user": object{"token": token}}},
		"contexts": []any{object{"name": name, "context": object{"cluster": name, "user": name}}},
	})
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	dir := filepath.Dir(d.o.kubeconfig)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}
	// A new file, renamed into place: the permissions of an old one would stay, and a reader could meet half of the
	// new one.
	f, err := os.CreateTemp(dir, ".skiff-dev-*")
	if err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}
	_, err = f.Write(d.file)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.o.kubeconfig)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--kubeconfig-out %s: %w", d.o.kubeconfig, err), os.Remove(f.Name()))
	}
	return nil
}

// removeKubeconfig removes the file, which leads nowhere now, unless something else has been written there since.
func (d *devCluster) removeKubeconfig() error {
	if text, err := os.ReadFile(d.o.kubeconfig); err != nil || !bytes.Equal(text, d.file) {
		return nil // not ours, or gone already
	}
	return os.Remove(d.o.kubeconfig)
}

func (d *devCluster) close() error {
	err := d.serving.Close()
	d.api.Close()
	return err
}

// connect makes a client of the cluster, which calls itself name where that is not empty.
func (d *devCluster) connect(name string) (*kube.Client, error) {
	to := d.to
	to.UserAgent = name
	return kube.New(to)
}

// run simulates the cluster while work runs, and gives work a context that ends when ctx does or when the simulation
// fails. Then it takes everything down, work's side first.
func (d *devCluster) run(ctx context.Context, work func(ctx context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// The nodes live longer than ctx: controllers that drain still want to see their cluster.
	simulating, stopSimulation := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSimulation()
	var nodes sync.WaitGroup
	var simulateErr error
	nodes.Go(func() {
		defer stop()
		simulateErr = d.simulate(simulating)
	})
	err := work(ctx)
	stopSimulation()
	nodes.Wait()
	return errors.Join(err, simulateErr, d.close(), d.removeKubeconfig())
}

func (d *devCluster) simulate(ctx context.Context) error {
	client, err := d.connect("skiff-simulate")
	if err != nil {
		return err
	}
	defer client.Close()
	return simulate.New(client, d.o.simulate).Run(ctx)
}
