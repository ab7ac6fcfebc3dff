package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/operators/reload"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/manager"
)

// reloadFlags are the flags of the controllers that restart workloads when ConfigMaps and Secrets change.
type reloadFlags struct {
	reload.Options
	share string
}

func (f *reloadFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.share, "max-unavailable-workloads", reload.DefaultShare.String(),
		"how many `workloads` of a namespace and of the cluster reload has rolling at a time: a number, or 20%")
	fs.DurationVar(&f.Debounce, "reload-debounce", reload.DefaultDebounce,
		"reload restarts a workload when its ConfigMaps and Secrets have not changed for this long")
	fs.BoolVar(&f.Reloader, "reloader-annotations", false,
		"reload restarts for the annotations of Stakater's Reloader as well: see examples/reload/RELOADER.md")
	InGroup(cmd, groupControllers, "max-unavailable-workloads", "reload-debounce", "reloader-annotations")
}

// maxReloadDebounce refuses what must be a mistake in the unit.
const maxReloadDebounce = time.Hour

func (f *reloadFlags) check() (err error) {
	if f.Debounce < time.Second || f.Debounce > maxReloadDebounce {
		return Usagef("--reload-debounce %s: must be within 1s and %s", f.Debounce, maxReloadDebounce)
	}
	if f.Share, err = reload.ParseShare(f.share); err != nil {
		return Usagef("--max-unavailable-workloads %w", err)
	}
	return nil
}

// reloadAlone are the flags of `skiff reload`.
type reloadAlone struct {
	connection kubeconfig.Flags
	log        logFlags
	reload     reloadFlags
	targets    []string
	reload.Standalone
	servingFlags
}

func newReload() *cobra.Command {
	var f reloadAlone
	cmd := &cobra.Command{
		Use:   "reload [--target KIND/NAME]",
		Short: "Restart a workload whenever its ConfigMaps and Secrets change",
		Long: `Restarts workloads of one namespace when the ConfigMaps and Secrets that they have read change: as
'skiff run --controllers reload' does, for a sidecar or a small Deployment. It runs until SIGTERM or SIGINT.

With --target, these workloads are restarted, one after the other, and need no annotation: for all that their
containers refer to, or for --configmap and --secret alone. Without it, those with annotations are.

Its rights are to list and watch ConfigMaps and Secrets, and to list, watch and patch the workloads. Where one is named
alone, as in the first example, a Role may grant them for that name. The annotation ` + reload.StateAnnotation + ` of
a workload says what its pods run with, with --target one whose name ends in a hash over the sources: several
processes may run at once, and none loses a restart. A process that starts while another restarts the same workload
for the same source may restart it once more.`,
		Example: `  skiff reload --target deployment/web --configmap app --secret tls:tls.crt -n shop
  skiff reload --target statefulset/db --target deployment/web --cooldown 5m -n shop
  skiff reload -n shop`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addConnectionFlags(cmd, &f.connection)
	f.log.add(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.connection.Namespace, "namespace", "n", "",
		"`namespace` to work in (default that of the kubeconfig context or of the pod)")
	ListVar(cmd, &f.targets, "target", nil,
		"`KIND/NAME` to restart: a deployment, statefulset, daemonset or rollout; several follow one after the other")
	ListVar(cmd, &f.ConfigMaps, "configmap", nil, "`NAME` or NAME:KEY of a ConfigMap to restart the targets for")
	ListVar(cmd, &f.Secrets, "secret", nil, "`NAME` or NAME:KEY of a Secret to restart the targets for")
	fs.DurationVar(&f.Cooldown, "cooldown", reload.DefaultCooldown, "the least time between two restarts of a target")
	f.reload.add(cmd)
	f.servingFlags.add(cmd)
	return cmd
}

// flagsOfReload are the flags that fill the fields of reload.Standalone.
var flagsOfReload = map[string]string{"Targets": "target", "ConfigMaps": "configmap", "Secrets": "secret",
	"Cooldown": "cooldown"}

// check checks the flags and makes a reload.Standalone of them.
func (f *reloadAlone) check() error {
	if err := errors.Join(f.reload.check(), f.servingFlags.check()); err != nil {
		return err
	}
	f.Options = f.reload.Options
	for _, name := range f.targets {
		t, err := reload.ParseTarget(name)
		if err != nil {
			return Usagef("--target: %w", err)
		}
		f.Targets = append(f.Targets, t)
	}
	var bad reload.Mistake
	if errors.As(f.Validate(), &bad) {
		return Usagef("--%s: %w", flagsOfReload[bad.Field], bad)
	}
	return nil
}

func (f *reloadAlone) run(cmd *cobra.Command) error {
	for _, flag := range []string{"target", "configmap", "secret"} {
		if set := cmd.Flags().Lookup(flag); set.Changed && set.Value.String() == "[]" {
			return Usagef("--%s: it is empty: is a variable not set? Name one, or leave out the flag", flag)
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	on, log, err := inNamespace(cmd, f.connection, &f.log)
	if err != nil {
		return err
	}
	defer on.Client.Close()
	namespace := on.namespaces[0]
	setup := on.setup(&f.servingFlags, log)
	setup.Advice = ruleAdvice(f.Rights(), f.OnlyName)
	cs, err := reload.NewStandalone(setup, f.Standalone)
	if err != nil {
		return err
	}
	on.start(log, "namespace", namespace, "targets", strings.Join(f.targets, ","))
	looking, stop := context.WithCancel(cmd.Context())
	var look sync.WaitGroup
	look.Go(func() { f.warnOfAbsent(looking, on.Client, namespace, WarnIn(log)) })
	err = on.run(cmd.Context(), &f.servingFlags, manager.Options{Controllers: cs, History: setup.History, Log: log})
	stop()
	look.Wait()
	return err
}

// warnOfAbsent warns of targets and sources that do not exist now, which is right where they are yet to come.
func (f *reloadAlone) warnOfAbsent(ctx context.Context, c *kube.Client, namespace string, warn func(string)) {
	look := func(flag, named string, r kube.Resource, name string) {
		q := kube.Query{Resource: r, Namespace: namespace, FieldSelector: "metadata.name=" + name, Metadata: true}
		list, err := kube.List[*heading](ctx, c, q, kube.ListOptions{})
		if kube.IsNotFound(err) || err == nil && len(list.Items)+len(list.Bad) == 0 {
			warn(fmt.Sprintf("--%s %s: there is none in namespace %s now", flag, named, namespace))
		} // another line says that the server does not answer, or that a right is missing
	}
	for _, t := range f.Targets {
		look("target", t.String(), t.Resource(), t.Name)
	}
	for _, one := range f.ConfigMaps {
		name, _, _ := strings.Cut(one, ":")
		look("configmap", name, kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}, name)
	}
	for _, one := range f.Secrets {
		name, _, _ := strings.Cut(one, ":")
		look("secret", name, kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}, name)
	}
}

// heading is an object of which the identity alone is read.
type heading struct {
	kube.Meta `json:"metadata"`
}
