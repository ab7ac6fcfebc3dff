// Package cli is the command line of skiff-dev: a Kubernetes test cluster on the user's machine. It turns flags
// into options of the embedded API server and of the simulation, and their results into text and an exit code.
//
// It contains the cluster and what is around it (kubeconfig, certificate, objects to start from, a command to run on
// it), the tour of `skiff-dev demo`, and the programs of `skiff-dev assets`. What it shares with the command line of
// skiff is in package cli. Whether the API server evaluates CEL is decided by the caller of Main.
//
// Main runs the command on its caller's goroutine; the API server, the simulation and the controllers have goroutines
// of their own, which have ended when Main returns.
package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
	"skiff/internal/testcluster/state"
)

// Main runs skiff-dev with a whole command line. A first element that names one of the programs of `skiff-dev assets`
// selects that. Main returns the exit code: 0 done, 1 failed, 2 wrong usage, or that of the command that `skiff-dev --
// COMMAND` ran. Cancelling ctx stops it; that is not a failure. With a cel, the API server evaluates CEL.
func Main(ctx context.Context, argv []string, stdout, stderr io.Writer, cel *apiserver.CEL) int {
	return cli.Execute(ctx, newRoot(cel), programArgs(argv), stdout, stderr)
}

func newRoot(cel *apiserver.CEL) *cobra.Command {
	root := newDev(cel)
	root.AddCommand(newStart(cel), newStop(), newList(), newHooks(cel), newDemo(), newRehearse(cel), newRequests(),
		newAssets(), etcdProgram(), apiServerProgram(cel))
	cli.Complete(root)
	return root
}

// withoutCEL is what the help of a build without CEL says of it.
const withoutCEL = `

This build does not evaluate CEL (rules in definitions, admission policies, conditions of webhooks) and refuses what
needs it. The released skiff-dev does, and so does the one that 'make skiff-dev' builds.`

// devFlags are the flags of skiff-dev without a subcommand.
type devFlags struct {
	controllers                   cli.ControllerFlags
	listen, kubeconfig, ready     string
	data                          string
	faults, version, gates, audit string
	bare, rbac                    bool
	replicas                      int
	simulate, crds, load, command []string
	cel                           *apiserver.CEL
}

func newDev(cel *apiserver.CEL) *cobra.Command {
	f := devFlags{controllers: cli.ControllerFlags{AllowNone: true}, cel: cel}
	f.controllers.ServeAllSources()
	f.controllers.ServePage()
	f.controllers.ServeProbes()
	cmd := &cobra.Command{
		Use:   "skiff-dev [flags] [-- COMMAND ARGS...]",
		Short: "A Kubernetes test cluster on this machine, with simulated nodes and skiff's controllers",
		Long: `Runs a Kubernetes API server inside this process, served over HTTPS on the loopback interface, with
simulated nodes (their pods run no containers), the custom resource definitions and the controllers. It writes a
kubeconfig for kubectl and skiff. Without --data, everything is lost when the process ends.

With --data, changes are written to the disk after a few seconds, and at the end. The next run with the same directory
has all objects with their resourceVersions, and the same port, certificate and token: the same kubeconfig works. It
does not have the history of changes (a watch from before gets 410), snapshots, faults and recorded requests. Events
expire after an hour, as always.

With a COMMAND it runs the command once everything is ready, with KUBECONFIG set (and USE_EXISTING_CLUSTER=true, for
envtest), stops when the command exits, and exits with its code. Without one, 'skiff status' shows how the controllers
are doing: the probes are served on 127.0.0.1:8081, or on the next port that is free.

The controllers hold the Lease skiff in the namespace default: a 'skiff run' on this cluster warns of them, and with
--leader-elect it stands by. Use --controllers none to run your own.`,
		Example: `  skiff-dev
  skiff-dev start lab                                       # in the background, until skiff-dev stop lab
  skiff-dev demo                                            # a tour of what the controllers do
  skiff-dev requests -f                                     # what it is asked, in another terminal
  skiff-dev --listen 127.0.0.1:6443 --kubeconfig-out ./dev.kubeconfig
  skiff-dev --bare --crds config/crd -- go test ./...       # an API server for tests, and nothing else
  skiff-dev --controllers none --load testdata -- pytest    # with the simulated cluster`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash == 0 && len(args) == 0:
				return cli.Usagef("no command after --")
			case dash != 0 && len(args) > 0:
				return cli.Usagef("%w (a command to run goes after --)", cli.UnknownCommand(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.command = args
			f.controllers.HeedProbesFlag(cmd)
			if len(args) > 0 { // which may want these ports itself
				f.controllers.NoProbes()
			}
			return f.run(cmd)
		},
	}
	if cel == nil {
		cmd.Long += withoutCEL
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig-out", "", "`file` to write the kubeconfig to, removed at the end, "+
		"but with --data (default kubeconfig in the directory of --data; without that skiff/dev.kubeconfig in the "+
		"user's cache directory, or dev-PID.kubeconfig while another skiff-dev uses that; a temporary file with a "+
		"COMMAND)")
	fs.StringVar(&f.data, "data", "", "`directory` to keep the cluster in, and its kubeconfig; it may be new")
	fs.StringVar(&f.ready, "ready-file", "", "`file` to write when everything is ready, removed at the end: one line "+
		"of JSON with url, kubeconfig, pid and, with --replicas, replicas")
	cli.InGroup(cmd, cli.GroupCluster, "data")
	cli.InGroup(cmd, cli.GroupServing, "kubeconfig-out")
	cli.InGroup(cmd, cli.GroupAdvanced, "ready-file")
	cli.NoFlag(cmd, "port", "see --listen 127.0.0.1:PORT")
	cli.NoFlag(cmd, "persist", "see --data DIR")
	cli.NoFlag(cmd, "kubeconfig", "see --kubeconfig-out FILE, which is written")
	return cmd
}

// add adds the flags that 'skiff-dev start' has, too.
func (f *devFlags) add(cmd *cobra.Command) {
	f.controllers.Add(cmd)
	fs := cmd.Flags()
	fs.Lookup("controllers").Usage += ", or none"
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "loopback `address` to serve on; port 0 picks a free port")
	fs.BoolVar(&f.bare, "bare", false, "only the API server: short for --simulate none --controllers none, and "+
		"without skiff's custom resource definitions")
	fs.BoolVar(&f.rbac, "rbac", false, "have the stored roles and bindings decide what users may do: impersonated "+
		"ones (kubectl --as), those of client certificates, and system:anonymous")
	cli.ListVar(cmd, &f.simulate, "simulate", []string{"all"}, "`parts` of the cluster to simulate, separated by "+
		"commas: "+strings.Join(partNames(), ", ")+", all or none")
	fs.StringArrayVar(&f.crds, "crds", nil,
		"`path` of a file with custom resource definitions to install, or of a directory with some among other "+
			"objects; can be repeated")
	fs.StringArrayVar(&f.load, "load", nil, "`path` of a file or directory with objects to create (without their "+
		"status), or of a file of 'skiff-dev rehearse --save'; can be repeated")
	fs.StringVar(&f.version, "kubernetes-version", "", versionHelp)
	fs.StringVar(&f.gates, "feature-gates", "", gatesHelp)
	fs.StringVar(&f.faults, "faults", "", "`file` with faults to inject once everything is ready, in the form of "+
		"PUT /skiff/faults")
	fs.StringVar(&f.audit, "audit-log", "", "`file` to append an audit event of each request to, in the form of "+
		"kube-apiserver's log at the level Metadata; - is stdout")
	fs.IntVar(&f.replicas, "replicas", 1, "`number` of API servers to simulate: connections go to them in turn, "+
		"the ready file has an address for each, and a fault can select one")
	cli.InGroup(cmd, cli.GroupCluster, "bare", "crds", "kubernetes-version", "load", "rbac", "simulate")
	cli.InGroup(cmd, cli.GroupServing, "listen")
	cli.InGroup(cmd, cli.GroupAdvanced, "audit-log", "faults", "feature-gates", "replicas")
}

// Parts of the simulation that the API server does itself: it empties deleted namespaces, and counts what quotas
// limit.
const namespacesPart, quotasPart = "namespaces", "quotas"

// partNames are the values of --simulate, besides all and none.
func partNames() []string {
	names := []string{namespacesPart, quotasPart}
	for _, p := range simulate.Parts() {
		names = append(names, string(p))
	}
	return names
}

// simulatedParts returns the parts that a value of --simulate means.
func simulatedParts(value []string) ([]string, error) {
	switch {
	case slices.Equal(value, []string{"all"}):
		return partNames(), nil
	case slices.Equal(value, []string{"none"}):
		return nil, nil
	}
	for _, part := range value {
		if !slices.Contains(partNames(), part) {
			instead := cli.Instead(part, partNames())
			if strings.HasPrefix(instead, "choose") {
				instead += ", or use all or none alone"
			}
			return nil, cli.Usagef("--simulate: unknown part %q: %s", part, instead)
		}
	}
	return value, nil
}

// maxReplicas is more than any cluster has API servers.
const maxReplicas = 16

// check checks the flags and applies --bare to those that were not set.
func (f *devFlags) check(cmd *cobra.Command) error {
	if f.bare {
		for name, value := range map[string]*[]string{"simulate": &f.simulate,
			"controllers": &f.controllers.Names} {
			if !cmd.Flags().Changed(name) {
				*value = []string{"none"}
			}
		}
	}
	if err := f.controllers.Check(); err != nil {
		return err
	}
	var err error
	if f.simulate, err = simulatedParts(f.simulate); err != nil {
		return err
	}
	if f.replicas < 1 || f.replicas > maxReplicas {
		return cli.Usagef("--replicas %d: want a number from 1 to %d", f.replicas, maxReplicas)
	}
	return checkLoopback("--listen", f.listen)
}

func (f *devFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(cmd); err != nil {
		return err
	}
	log, err := f.controllers.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	input, err := cli.Until(cmd.Context(), f.read)
	if err != nil {
		return cli.Ended(cmd.Context(), err)
	}
	data, err := openData(f, cmd, input)
	if err != nil {
		return err
	}
	defer data.close()
	remove, err := f.chooseKubeconfig()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	o, err := f.options(log)
	if err != nil {
		return err
	}
	o.copied, o.data = input.copied, data
	closeLog, err := cli.Until(cmd.Context(), func() (func() error, error) { // a FIFO waits for a reader
		return f.openAudit(&o, cmd.OutOrStdout())
	})
	if err != nil {
		return cli.Ended(cmd.Context(), err)
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	d, err := cli.Until(cmd.Context(), func() (*devCluster, error) { return newDevCluster(o) })
	if err != nil {
		return cli.Ended(cmd.Context(), err)
	}
	var commandErr error
	err = d.run(cmd.Context(), "", func(ctx context.Context, client *kube.Client) (err error) {
		if err := f.prepare(ctx, d, client, input.objects); err != nil {
			return cli.Ended(ctx, err)
		}
		commandErr, err = f.work(ctx, cmd, d, client, log)
		return err
	})
	if err == nil && commandErr != nil {
		return commandErr
	}
	return err
}

// input is what the files of --crds and --load have.
type input struct {
	copied  *state.State // nil: there is no copy of a cluster among them
	objects []manifest   // definitions first
}

func (f *devFlags) read() (in input, err error) {
	if in.objects, err = readCRDs(f.crds); err != nil {
		return in, err
	}
	copied, load, err := readState(f.load)
	if err != nil {
		return in, err
	}
	objects, err := readManifests("--load", load)
	return input{copied, append(in.objects, objects...)}, err
}

func (f *devFlags) options(log logr.Logger) (devOptions, error) {
	set, err := featuresOf(f.version, f.gates)
	o := devOptions{listen: f.listen, kubeconfig: f.kubeconfig, readyFile: f.ready, faults: f.faults, log: log,
		api: apiserver.Options{RBAC: f.rbac, CEL: f.cel, Replicas: f.replicas, Features: set}}
	o.simulateParts(f.simulate)
	return o, err
}

// prepare installs and creates what the flags ask for, and waits until the simulation works.
func (f *devFlags) prepare(ctx context.Context, d *devCluster, client *kube.Client, objects []manifest) error {
	if !f.bare || len(f.controllers.Names) > 0 {
		if err := definitions.Ensure(ctx, client, 30*time.Second); err != nil {
			return err
		}
	}
	if !slices.Contains(d.o.simulate.Without, simulate.Volumes) && d.o.copied == nil && !d.o.data.resumed() &&
		!slices.ContainsFunc(objects, func(m manifest) bool { return simulate.IsDefaultClass(m.object) }) {
		if err := d.cluster.CreateDefaultClass(ctx); err != nil {
			return err
		}
	}
	if err := loadManifests(ctx, client, objects); err != nil {
		return err
	}
	if err := d.begin(ctx, client); err != nil {
		return err
	}
	return d.writeReadyFile()
}

// work runs the controllers, until ctx is done or, with a command, until that exits.
func (f *devFlags) work(ctx context.Context, cmd *cobra.Command, d *devCluster, client *kube.Client,
	log logr.Logger) (commandErr, err error) {
	controllers := func(ctx context.Context) error {
		if len(f.controllers.Names) == 0 {
			<-ctx.Done()
			return nil
		}
		return cli.RunControllers(ctx, d.forControllers(client), f.controllers, log)
	}
	if len(f.command) == 0 {
		intro := func(page string) { printDevIntro(cmd.OutOrStdout(), d, f, page) }
		if !f.controllers.OnPage(intro) || len(f.controllers.Names) == 0 {
			intro("none")
		}
		return nil, controllers(ctx)
	}
	err = cli.During(ctx, controllers, func(ctx context.Context) error {
		commandErr = runCommand(ctx, f.command, f.kubeconfig, cmd.InOrStdin(), cmd.OutOrStdout(),
			cli.Direct(cmd.ErrOrStderr()))
		return nil
	})
	return commandErr, err
}
