package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
)

var leases = kube.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"}

// besideDev is what happens where `skiff run` starts on the cluster of a skiff-dev.
type besideDev struct {
	controllers []string // of skiff-dev
	holder      string   // holds the Lease before; "": there is none
	renews      bool     // and goes on
	// As whom the Lease is held meanwhile, and after the end of skiff-dev; "-": there is no Lease.
	meanwhile, after    string
	warnsRun, warnsSelf string // of whom the two are warned; "": of nobody
}

func TestASkiffThatRunsBesideTheControllersOfDevIsTold(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dev, redis := "skiff-dev_"+host, []string{"redis"}
	for name, test := range map[string]besideDev{
		"controllers":    {controllers: redis, meanwhile: dev, warnsRun: dev},
		"no controllers": {meanwhile: "-", after: "-"},
		"one was killed": {controllers: redis, holder: dev, meanwhile: dev, warnsRun: dev},
		"another leads": {controllers: redis, holder: "skiff-1_a", renews: true, meanwhile: "skiff-1_a",
			after: "skiff-1_a", warnsRun: "skiff-1_a", warnsSelf: "skiff-1_a"},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test.happens) })
	}
}

func (test besideDev) happens(t *testing.T) {
	d := pipeCluster()
	err := onDemoCluster(t.Context(), d, &actionLog{}, func(ctx context.Context, tour *tour) error {
		var own, other clitest.Buffer
		if test.holder != "" {
			renew(ctx, t, tour.client, test.holder)
		}
		var dev devFlags
		quiet := new(cobra.Command)
		quiet.SetOut(io.Discard)
		dev.controllers.Add(quiet)
		dev.controllers.Names = test.controllers
		err := cli.During(ctx, func(ctx context.Context) error {
			_, err := dev.work(ctx, quiet, d, tour.client, logTo(&own))
			return err
		}, func(ctx context.Context) error {
			time.Sleep(time.Second)
			if strings.Count(own.String(), `"started"`) != len(test.controllers) {
				t.Errorf("not all controllers of skiff-dev have started: %s", own.String())
			}
			if now := holderOf(ctx, t, tour.client); now != test.meanwhile {
				t.Errorf("the Lease is held by %s, want %s", now, test.meanwhile)
			}
			return test.run(ctx, t, tour.client, logTo(&other))
		})
		wantRival(t, "skiff run", other.String(), test.warnsRun)
		wantRival(t, "skiff-dev", own.String(), test.warnsSelf)
		if now := holderOf(ctx, t, tour.client); now != test.after {
			t.Errorf("after the end, the Lease is held by %q, want %q", now, test.after)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// run runs the controllers as `skiff run` does, for as long as the Leases are looked at, and a little longer.
func (test besideDev) run(ctx context.Context, t *testing.T, c *kube.Client, log logr.Logger) error {
	var flags cli.ControllerFlags
	flags.Add(new(cobra.Command))
	var renewing sync.WaitGroup
	defer renewing.Wait()
	running, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if test.renews {
		renewing.Go(func() {
			for running.Err() == nil {
				renew(ctx, t, c, test.holder)
				time.Sleep(time.Second)
			}
		})
	}
	return cli.RunControllers(running, cli.Cluster{Client: c}, flags, log)
}

func logTo(w io.Writer) logr.Logger {
	return funcr.New(func(_, line string) { fmt.Fprintln(w, line) }, funcr.Options{})
}

// wantRival checks that a log warns once of a holder of the Lease, or of none.
func wantRival(t *testing.T, who, log, holder string) {
	t.Helper()
	const lease = `"lease"="default/skiff"`
	want, text := 1, fmt.Sprintf(`"holder"=%q %s`, holder, lease)
	if holder == "" {
		want, text = 0, lease
	}
	if strings.Count(log, text) != want || strings.Count(log, lease) != want {
		t.Errorf("%s is to be warned of %q: %s", who, holder, log)
	}
}

// renew writes the Lease as a holder does.
func renew(ctx context.Context, t *testing.T, c *kube.Client, holder string) {
	t.Helper()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	err := c.Patch(ctx, leases, kube.Key{Namespace: "default", Name: "skiff"}, kube.ApplyPatch,
		object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": object{"name": "skiff", "namespace": "default"},
			"spec": object{"holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": now,
				"renewTime": now}}, nil,
		kube.WriteOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Errorf("renew the Lease: %v", err)
	}
}

// holderOf returns who holds the Lease, "-" where there is none.
func holderOf(ctx context.Context, t *testing.T, c *kube.Client) string {
	t.Helper()
	var lease object
	err := c.Get(ctx, leases, kube.Key{Namespace: "default", Name: "skiff"}, &lease)
	if err != nil && !kube.IsNotFound(err) {
		t.Error(err)
	}
	return at(lease, "spec holderIdentity")
}
