package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

// statusFlags are the flags of `skiff status`.
type statusFlags struct {
	probes, page, token, output string
	namespace                   string
	watch, all                  bool
	leader                      leaderFlags
}

func newStatus() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [KIND/NAME]",
		Short: "Show how a running skiff is doing, and what needs attention",
		Long: `Asks a running skiff how it is: in one sentence, then what needs attention with the reason, the next step and
the time of the next try, and who leads; the queues and the watches where something is wrong with them, or with --all.
That is what its live page shows. Where only the probes are served, it shows /readyz; lines that begin with ! need
attention. With KIND/NAME, also in plural or with the short name, it tells of one object: how it is and since
when, its children, what the last runs wrote and why, and when the next one is.

Without a flag it asks each skiff on this machine that serves its probes on 127.0.0.1, ports 8081 to 8090: that is
where 'skiff run' serves them without a flag. They say where the live page is, if there is one. Where there is none, or
with a flag that chooses a cluster, it asks the one that leads in the cluster: it looks for its Lease, skiff or
skiff-hooks, and asks the pod that holds it, by way of the API server (list leases, get pods/proxy).

Exit codes: 0 all is well, 3 something needs attention, 1 failed (no skiff answers there), 2 wrong usage. --watch ends
with the code of what it showed last.`,
		Example: `  skiff status
  skiff status webserver/web -n shop
  skiff status --watch --debug-bind-address 127.0.0.1:8082       # or the URL of the page
  skiff status --context production                              # the one that leads there
  skiff status --health-probe-bind-address 10.0.3.7:8081
  kubectl exec -n skiff deploy/skiff -- /skiff status`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.leader.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.probes, "health-probe-bind-address", "",
		"`host:port` of the probes, as 'skiff run' was given it (default: each skiff on 127.0.0.1:8081 to 8090)")
	fs.StringVar(&f.page, "debug-bind-address", "",
		"`host:port` of the live page, as 'skiff run' was given it, or its URL")
	fs.StringVar(&f.token, "debug-token-file", "",
		"`file` with the token that the live page needs; it is sent to --debug-bind-address only")
	fs.StringVarP(&f.namespace, "namespace", "n", "default", "`namespace` of the object")
	fs.BoolVar(&f.all, "all", false, "show the queues and the watches also where all is as usual")
	fs.StringVarP(&f.output, "output", "o", "", "`format`: json")
	fs.BoolVarP(&f.watch, "watch", "w", false,
		"ask each second until stopped: a terminal shows the present state, anything else each change")
	return cmd
}

// oneObject refuses more than one argument.
func oneObject(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) < 2:
		return nil
	case len(args) == 2 && !strings.Contains(args[0]+args[1], "/"): // as kubectl takes it
		return Usagef("%s takes one object: want KIND/NAME, such as %s/%s", cmd.CommandPath(),
			kube.Printable(args[0], 100), kube.Printable(args[1], 100))
	}
	return Usagef("%s takes one object, got %.100q and %.100q", cmd.CommandPath(), args[0], args[1])
}

// asks checks the flags and returns what asks all that they name.
func (f *statusFlags) asks(cmd *cobra.Command, q *statusAsker) (func(context.Context) ([]*status, error), error) {
	given := cmd.Flags().Changed
	byProbes, byPage := given("health-probe-bind-address"), given("debug-bind-address")
	switch {
	case f.output != "" && f.output != "json":
		return nil, Usagef("--output %q: want json, or omit the flag", f.output)
	case !namespaceName().MatchString(f.namespace):
		return nil, Usagef("--namespace: %q is not a valid namespace name", f.namespace)
	case byProbes && byPage:
		return nil, Usagef("--health-probe-bind-address and --debug-bind-address: give one of them")
	case f.token != "" && !byPage:
		return nil, Usagef("--debug-token-file: give --debug-bind-address, too: a token is sent to no address that " +
			"was only found")
	case !byProbes && !byPage:
		return f.find(cmd, q)
	}
	flag, address, where, ask := "--health-probe-bind-address", f.probes, "probes", q.probes
	if byPage {
		at, err := pageAddress(f.page)
		if err != nil {
			return nil, Usagef("--debug-bind-address %q: %w", f.page, err)
		}
		flag, address, where, ask = "--debug-bind-address", at, "live page", q.page
	}
	if address == "" || address == "0" {
		return nil, Usagef("%s %q: want the HOST:PORT where skiff serves its %s", flag, address, where)
	}
	if err := CheckAddress(flag, address); err != nil {
		return nil, err
	}
	if f.leader.given(cmd) {
		return nil, Usagef("%s and a flag that chooses a cluster: give one of them", flag)
	}
	return func(ctx context.Context) ([]*status, error) {
		s, err := ask(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("ask skiff at %s for its status: %w", reachable(address), err)
		}
		return []*status{s}, nil
	}, nil
}

func (f *statusFlags) run(cmd *cobra.Command, args []string) error {
	q := newStatusAsker(statusTimeout)
	defer q.close()
	if f.token != "" {
		token, err := kubeconfig.ReadToken(f.token)
		if err != nil {
			return Usagef("--debug-token-file: %w", err)
		}
		q.token, q.tokenFile = token, f.token
	}
	ask, err := f.asks(cmd, q)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(args) == 1 {
		t, err := readTarget(args[0], f.namespace)
		if err == nil && f.watch {
			err = Usagef("--watch: give no object, or omit the flag")
		}
		if err != nil {
			return err
		}
		return f.runObject(cmd.Context(), q, ask, t, out)
	}
	if f.watch {
		q.timeout = watchStatusTimeout
		return f.follow(cmd.Context(), ask, out)
	}
	all, err := ask(cmd.Context())
	if err != nil {
		return Ended(cmd.Context(), err)
	}
	if err := f.write(out, all); err != nil {
		return err
	}
	return worst(all)
}

// write writes some of them one after the other.
func (f *statusFlags) write(out io.Writer, all []*status) error {
	if f.output == "json" {
		for _, s := range all {
			if err := s.writeJSON(out, f.watch); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := io.WriteString(out, f.textOfAll(all, out))
	return err
}

// textOfAll is what some of them say for people.
func (f *statusFlags) textOfAll(all []*status, out io.Writer) string {
	w := newStatusText(out)
	w.all = f.all
	for i, s := range all {
		if i > 0 {
			w.WriteByte('\n')
		}
		w.show(s)
	}
	return w.String()
}

// Coloured says whether the reader of an output sees colours.
func Coloured(out io.Writer) bool { return isTerminal(Direct(out)) && os.Getenv("NO_COLOR") == "" }

// find returns a function that asks the skiffs on this machine, or where none runs, the leading skiff of the cluster.
func (f *statusFlags) find(cmd *cobra.Command, q *statusAsker) (func(context.Context) ([]*status, error), error) {
	if err := f.leader.check(); err != nil {
		return nil, err
	}
	var own string // the namespace of the kubeconfig's context
	ofCluster := func(ctx context.Context) (_ []*status, err error) {
		if q.cluster == nil {
			q.cluster, own, err = connect(f.leader.connection, warnTo(cmd.ErrOrStderr()))
		}
		if err != nil {
			return nil, err
		}
		return f.leader.ask(ctx, q, own)
	}
	if f.leader.given(cmd) {
		return ofCluster, nil
	}
	return func(ctx context.Context) ([]*status, error) {
		addresses := probeAddresses()
		if all := q.find(ctx, addresses); len(all) > 0 {
			return all, nil
		}
		all, err := ofCluster(ctx)
		if err != nil {
			return nil, fmt.Errorf("no skiff answers on %s to %s, and none was found in a cluster: %w; start `skiff "+
				"run`, or name where it serves its probes (--health-probe-bind-address) or its live page "+
				"(--debug-bind-address)", addresses[0], addresses[len(addresses)-1], err)
		}
		return all, nil
	}, nil
}

// find asks each skiff at some of the addresses.
func (q *statusAsker) find(ctx context.Context, addresses []string) []*status {
	answers := make([]*status, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() {
			if s, err := q.probes(ctx, address); err == nil {
				answers[i] = s // else another program has this port, or none
			}
		})
	}
	asking.Wait()
	var found []*status
	for _, s := range answers {
		if s != nil {
			found = append(found, s)
		}
	}
	return found
}
