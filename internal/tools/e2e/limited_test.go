package e2e

import (
	"fmt"
	"testing"
	"time"
)

// limitedSkiff is a skiff with the memory limit of examples/install.yaml, one process after the other.
type limitedSkiff struct {
	*testing.T
	c      *Cluster
	name   string
	args   []string
	group  *MemoryGroup // nil: not permitted here
	skiff  *Skiff
	starts int
}

func limited(t *testing.T, c *Cluster, name string, args ...string) *limitedSkiff {
	w := &limitedSkiff{T: t, c: c, name: name, args: args}
	var err error
	if w.group, err = NewMemoryGroup("skiff-e2e-"+name, tenantLimit); err != nil {
		t.Logf("not in a control group of %d MiB, only with %s: %v", tenantLimit>>20, tenantGo, err)
	}
	return w
}

// end kills it.
func (w *limitedSkiff) end() {
	if w.skiff != nil {
		if w.Failed() {
			w.Log(w.skiff.Tail(40))
		}
		if err := w.skiff.Kill(); err != nil {
			w.Error(err)
		}
	}
	if w.group != nil {
		if err := w.group.Close(); err != nil {
			w.Error(err)
		}
	}
}

// start starts skiff, and returns how long it took to be ready.
func (w *limitedSkiff) start() time.Duration {
	w.Helper()
	binary := must(skiffBinary())(w)
	kubeconfig := must(w.c.Kubeconfig(admin))(w)
	port := must(freePort())(w)
	w.starts++
	argv := append([]string{binary}, w.args...)
	argv = append(argv, "--kubeconfig", kubeconfig, "--health-probe-bind-address="+loopback(port))
	if w.group != nil {
		argv = w.group.Command(argv...)
	}
	began := time.Now()
	p := must(w.c.Start(fmt.Sprintf("skiff-%s-%d", w.name, w.starts),
		[]string{"KUBECONFIG=", "HOME=" + w.c.Dir, tenantGo}, argv...))(w)
	w.skiff = &Skiff{Process: p, probes: "http://" + loopback(port)}
	Eventually(w, 2*time.Minute, "skiff is ready", func() (bool, string) {
		w.alive()
		err := w.skiff.Ready()
		return err == nil, errorText(err)
	})
	return time.Since(began)
}

// alive fails when skiff has ended.
func (w *limitedSkiff) alive() {
	w.Helper()
	if w.skiff.Exited() {
		w.Fatalf("skiff has ended with code %d\n%s", w.skiff.ExitCode(), w.skiff.Tail(40))
	}
}

// peak is what skiff has taken at most.
func (w *limitedSkiff) peak() int64 {
	w.Helper()
	w.alive()
	u := must(w.skiff.Usage())(w)
	return u.Peak
}

func (w *limitedSkiff) hold() {
	w.Helper()
	end := time.After(tenantHold)
	select {
	case <-end:
	case <-w.skiff.Done():
	}
	w.alive()
}
