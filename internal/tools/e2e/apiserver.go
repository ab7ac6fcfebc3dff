package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
)

// auditPolicy logs every request of a test or of skiff, once when it is answered; a watch also when it starts. The
// components' own requests are left out: they are most of the traffic and no test asks for them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [component-controller-manager, component-scheduler, component-kwok, "system:apiserver", "system:anonymous"]
- level: Metadata
`

// prepareAPIServer chooses the port and writes the files that the API server reads. Both stay the same over restarts.
func (c *Cluster) prepareAPIServer() (err error) {
	if c.port, err = freePort(); err != nil {
		return err
	}
	c.Server = "https://" + loopback(c.port)
	if err := writeServiceAccountKeys(c.path("sa.key"), c.path("sa.pub")); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	return c.SetUsers(clusterUsers)
}

// SetUsers replaces the token file. The API server reads it when it starts.
func (c *Cluster) SetUsers(users []User) error {
	if err := os.WriteFile(c.path("tokens.csv"), []byte(tokenFile(users)), 0o600); err != nil {
		return fmt.Errorf("write the token file: %w", err)
	}
	return nil
}

// StartAPIServer starts the API server, for the first time or again, and returns when /readyz says ok.
func (c *Cluster) StartAPIServer(ctx context.Context) (err error) {
	certs := c.path("certs")
	flags := slices.Clone(c.flags)
	if c.bins.Version != "" { // skiff-dev in its place refuses what it does not have
		// It is on by default on some distributions.
		flags = append(flags, "--enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	}
	c.apiserver, err = c.Start("kube-apiserver", nil, append([]string{c.bins.apiserver,
		"--etcd-servers", c.etcdURL,
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", fmt.Sprint(c.port),
		"--cert-dir", certs, // it makes a self-signed certificate there the first time and keeps it
		"--service-account-key-file", c.path("sa.pub"), "--service-account-signing-key-file", c.path("sa.key"),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--token-auth-file", c.path("tokens.csv"), "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.96.0.0/16",
		"--disable-admission-plugins", "ServiceAccount", // no controller makes the default accounts
		"--audit-policy-file", c.path("audit-policy.yaml"), "--audit-log-path", c.path("audit.log"),
		"--allow-privileged"}, flags...)...)
	if err != nil {
		return err
	}
	c.CAFile = filepath.Join(certs, "apiserver.crt")
	return waitFor(ctx, c.apiserver, func() error {
		if c.Admin == nil {
			api, err := NewAPI(c.Server, c.CAFile, admin.Token)
			if err != nil {
				return err // the certificate is not there yet
			}
			c.Admin = api
		}
		return c.Admin.Ready(ctx)
	})
}

// RestartAPIServer kills the API server with kill -9, so that every connection to it breaks, calls away unless that is
// nil, and starts it again. When it returns, all that is not skiff works again: left to themselves, the controller
// manager and the others may need more than a minute until they look at the next object (seen on a slow machine), and
// a test that has a clock running would blame skiff.
func (c *Cluster) RestartAPIServer(ctx context.Context, away func()) error {
	if err := c.apiserver.Kill(); err != nil {
		return err
	}
	if away != nil {
		away()
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	return c.restartControllers(ctx)
}

// startEtcd starts a one-member etcd and returns when it is healthy.
func (c *Cluster) startEtcd(ctx context.Context) error {
	client, err := freePort()
	if err != nil {
		return err
	}
	peer, err := freePort()
	if err != nil {
		return err
	}
	c.etcdURL = "http://" + loopback(client)
	p, err := c.Start("etcd", nil, c.bins.etcd,
		"--data-dir", c.path("etcd"),
		"--listen-client-urls", c.etcdURL, "--advertise-client-urls", c.etcdURL,
		"--listen-peer-urls", "http://"+loopback(peer), "--initial-advertise-peer-urls", "http://"+loopback(peer),
		"--initial-cluster", "default=http://"+loopback(peer),
		"--unsafe-no-fsync", // the data dies with the test
		"--log-level", "warn")
	if err != nil {
		return err
	}
	return waitFor(ctx, p, func() error {
		resp, err := http.Get(c.etcdURL + "/health")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET /health: %s", resp.Status)
		}
		return nil
	})
}
