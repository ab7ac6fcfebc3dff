package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// repository is the root of skiff's module, seen from this package.
var repository = filepath.Join("..", "..", "..")

// The suite shares one control plane and one skiff binary. They are made by the first test that asks, so that -run
// builds and starts only what it needs; TestMain stops what was started.
var suite struct {
	dir     string // for what is not a cluster's
	cluster *Cluster
}

func TestMain(m *testing.M) {
	if os.Getenv(lineHookVariable) != "" {
		if err := lineHook(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "skiff-e2e-suite-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	suite.dir = dir
	// Parallel tests wait for the cluster most of the time; the usual one for each core would leave the machine idle.
	flag.Parse()
	if *parts > 1 {
		code, err := runParts(*parts, dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			code = 1
		}
		os.RemoveAll(dir)
		os.Exit(code)
	}
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := 0
	if *listFlag == "" {
		code = m.Run()
	} else if code, err = runList(m, *listFlag); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	if suite.cluster != nil {
		leaks, err := Leaks(suite.cluster.Dir)
		if err != nil || len(leaks) > 0 {
			fmt.Fprintln(os.Stderr, "e2e: secrets in what was printed:", leaks, err)
			code = 1
		}
	}
	failed := code != 0
	if suite.cluster != nil {
		suite.cluster.Close(failed)
		if failed {
			fmt.Fprintln(os.Stderr, "e2e: logs are kept in", suite.cluster.Dir)
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

var binaries = sync.OnceValues(func() (Binaries, error) { return BuildBinaries(context.Background(), ".") })

var kubectlPath = sync.OnceValues(func() (string, error) {
	bins, err := binaries()
	if err != nil {
		return "", err
	}
	return bins.kubectl(context.Background(), ".")
})

var skiffBinary = sync.OnceValues(func() (string, error) {
	return BuildProgram(context.Background(), "skiff", repository, suite.dir, "")
})

var skiffDevBinary = sync.OnceValues(func() (string, error) {
	return BuildProgram(context.Background(), "skiff-dev", repository, suite.dir, "")
})

var sharedCluster = sync.OnceValues(func() (*Cluster, error) {
	bins, err := binaries()
	if err != nil {
		return nil, err
	}
	c, err := StartCluster(context.Background(), bins, func(c *Cluster) error {
		role := c.path("operator-role.yaml")
		if err := os.WriteFile(role, []byte(grant("ClusterRole", "skiff-operator", operator.Name, allRights())),
			0o600); err != nil {
			return err
		}
		return applyFiles(c, role, filepath.Join(repository, "crds"))
	})
	suite.cluster = c
	return c, err
})

// applyFiles is kubectl apply -f for each file or directory, as the administrator.
func applyFiles(c *Cluster, paths ...string) error {
	path, err := kubectlPath()
	if err != nil {
		return err
	}
	kubectl, err := c.Kubectl(path, admin)
	if err != nil {
		return err
	}
	for _, p := range paths {
		r, err := kubectl.Run(context.Background(), "", "apply", "-f", p)
		if err != nil {
			return err
		}
		if r.Code != 0 {
			return errors.New("kubectl apply -f " + p + ": " + r.String())
		}
	}
	return nil
}

// ownCluster starts an API server of the test alone, with etcd and nothing else that writes.
func ownCluster(t *testing.T, flags ...string) *Cluster {
	t.Helper()
	cluster := must(StartControlPlane(t.Context(), must(binaries())(t), flags...))(t)
	t.Cleanup(func() { cluster.Close(t.Failed()) })
	return cluster
}

// newScope is a test on the shared cluster.
func newScope(t testing.TB) *Scope { return scopeOn(t, must(sharedCluster())(t)) }

// scopeOn is a test on a cluster.
func scopeOn(t testing.TB, c *Cluster) *Scope {
	t.Helper()
	return NewScope(t, c, must(c.Kubectl(must(kubectlPath())(t), admin))(t))
}

// must returns what a function returns without an error: must(os.ReadFile(path))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
