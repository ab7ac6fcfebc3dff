package cli

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/leader"
	"skiff/internal/runtime/manager"
	"skiff/internal/runtime/page"
)

// Cluster is what the controllers of a process work on.
type Cluster struct {
	Client     *kube.Client
	Context    string            // of the kubeconfig; "": none
	elector    *leader.Elector   // nil: without leader election
	Requests   *manager.Requests // those of the client, for metrics
	namespaces []string          // empty: all
	selector   string            // of namespaces; "": none
	lease      string            // name of the Lease that skiffs of this kind hold; "": none is looked for
	// Renewals holds the Lease for controllers without an election, so that other skiffs find the process; nil: no
	// Lease is held.
	Renewals *kube.Client
}

// reach makes the clients of a process that runs controllers: check is as for electionFlags.elector. done closes them.
func reach(server kubeconfig.Flags, election *electionFlags, check func(user string) string, log logr.Logger) (
	on Cluster, done func(), err error) {
	cfg, namespace, err := connection(server, WarnIn(log))
	if err != nil {
		return on, nil, err
	}
	on.Context = cfg.Context
	if on.Client, on.Requests, err = observed(&cfg); err != nil {
		return on, nil, err
	}
	elector, end, err := election.elector(cfg, namespace, check, log)
	if err != nil {
		on.Client.Close()
		return on, nil, err
	}
	on.elector = elector
	return on, func() {
		end()
		on.Client.Close()
	}, nil
}

// inNamespace connects a command that works in one namespace. The caller closes the client.
func inNamespace(cmd *cobra.Command, to kubeconfig.Flags, lf *logFlags) (on Cluster, log logr.Logger, err error) {
	if log, err = lf.logger(cmd.ErrOrStderr()); err != nil {
		return on, log, err
	}
	cfg, namespace, err := connection(to, WarnIn(log))
	if err != nil {
		return on, log, err
	}
	on = Cluster{Context: cfg.Context, namespaces: []string{namespace}}
	on.Client, on.Requests, err = observed(&cfg)
	return on, log, err
}

// start bounds the memory of the process and logs the configuration.
func (on Cluster) start(log logr.Logger, about ...any) {
	limitMemory(log)
	version, _ := kube.Version()
	log.Info("starting", append([]any{"version", version, "server", on.Client.Server()}, about...)...)
}

// setup is what all controllers of the process have in common.
func (on Cluster) setup(f *servingFlags, log logr.Logger) controller.Setup {
	s := controller.Setup{Client: on.Client, Namespaces: on.namespaces, NamespaceSelector: on.selector,
		WatchIdleTimeout: f.watchIdleTimeout, Elected: on.elector != nil, History: f.history(), Advice: advice,
		Log: log}
	if on.elector != nil {
		s.Client = on.Client.Guard(on.elector.Held) // also in a process that was stopped while another took over
	}
	return s
}

// run runs the parts in o until ctx ends, or a part fails.
func (on Cluster) run(ctx context.Context, f *servingFlags, o manager.Options) error {
	o.Client, o.Requests, o.Elector, o.LogState = on.Client, on.Requests, on.elector, logState(ctx)
	o.Place = page.Place{Context: on.Context, Server: on.Client.Server(), Process: processName(),
		Namespaces: on.scope()}
	if on.elector != nil {
		o.ElectionLog = events.New(events.Options{Client: on.Client, Controller: "skiff.dev/leader-election",
			Log: o.Log})
	}
	var other rival
	more := o.Attention
	o.Attention = func() []health.Problem {
		if more == nil {
			return other.attention()
		}
		return slices.Concat(more(), other.attention())
	}
	end := on.meetRivals(ctx, &other, o.Log)
	err := manager.New(f.options(o)).Run(ctx)
	end()
	if err == nil {
		o.Log.Info("stopped")
	}
	return flagOf(err)
}

// scope says which namespaces it is about.
func (on Cluster) scope() string {
	switch {
	case len(on.namespaces) > 0:
		return strings.Join(on.namespaces, ",")
	case on.selector != "":
		return "selected by " + on.selector
	}
	return "all"
}

// processName says which process this is, for people: the pod, or the machine and the number.
func processName() string {
	host, err := os.Hostname()
	switch {
	case err != nil:
		return fmt.Sprint("process ", os.Getpid())
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "": // the kubelet names the machine as the pod
		return "pod " + host
	}
	return fmt.Sprintf("process %d on %s", os.Getpid(), host)
}

// limitMemory makes the memory limit of the process's control group that of the Go runtime, less a tenth for what Go
// does not count: garbage is then collected more often when memory gets short, instead of an OOM kill. GOMEMLIMIT in
// the environment wins.
func limitMemory(log logr.Logger) {
	limit, limited := cache.MemoryLimit()
	if !limited || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	log.V(1).Info("memory limit set", "bytes", limit/10*9)
}
