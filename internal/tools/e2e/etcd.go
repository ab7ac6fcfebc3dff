package e2e

import (
	"context"
	"fmt"
	"net/http"
)

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
