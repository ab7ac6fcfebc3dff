package cli

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/controller"
	"skiff/internal/kubeconfig"
	"skiff/internal/manager"
	"skiff/internal/operators/restart"
)

// restartFlags are the flags of `skiff restart`.
type restartFlags struct {
	connection       kubeconfig.Flags
	log              logFlags
	selector, budget string
	targets, on      []string
	debounce         time.Duration
	cooldown         time.Duration
	health           string
	watchIdleTimeout time.Duration
}

func newRestart() *cobra.Command {
	var f restartFlags
	cmd := &cobra.Command{
		Use:   "restart --selector SELECTOR --target KIND/NAME",
		Short: "Restart a workload whenever pods that it depends on are replaced",
		Long: `Watches pods and restarts workloads as 'kubectl rollout restart' does when something happens to one of them: a RestartTrigger
without a custom resource, for a sidecar or a small Deployment. It runs until SIGTERM or SIGINT.

A Role of two rules is enough: list and watch pods, get and patch the targets. What it has to remember is in the annotation
` + restart.StateAnnotation + ` of the first target, so that several may run at once, and a restart of skiff itself, loses and repeats
nothing. Pods that run already at the very first start never count.`,
		Example: `  skiff restart --selector app=redis-cluster --target deployment/predixy -n cache
  skiff restart -l app=redis --target statefulset/a --target deployment/b --on PodReplaced,PodIPChanged --cooldown 5m --budget 3/1h`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addConnectionFlags(cmd, &f.connection)
	f.log.add(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.connection.Namespace, "namespace", "n", "", "`namespace` of the pods and of the targets; without it the one of the kubeconfig context or of the pod")
	fs.StringVarP(&f.selector, "selector", "l", "", "label `selector` of the pods to watch (required)")
	fs.StringSliceVar(&f.targets, "target", nil, "`KIND/NAME` to restart: a deployment, statefulset or daemonset; several are restarted one after the other (required)")
	fs.StringSliceVar(&f.on, "on", []string{string(restart.NewPodRunning)}, "`reasons` to restart: NewPodRunning, PodReplaced, ContainerRestarted, PodIPChanged, PodDeleted")
	fs.DurationVar(&f.debounce, "debounce", restart.DefaultDebounce, "how long the pods must have been quiet before a restart")
	fs.DurationVar(&f.cooldown, "cooldown", restart.DefaultCooldown, "how far apart restarts are at least")
	fs.StringVar(&f.budget, "budget", "", "how many restarts there may be within a time, as `MAX/DURATION`, such as 5/1h (default no limit)")
	fs.StringVar(&f.health, "health-probe-bind-address", "0", "`host:port` on which to serve /healthz and /readyz; 0 means none")
	fs.DurationVar(&f.watchIdleTimeout, "watch-idle-timeout", 0, "renew a watch on which nothing has arrived for so long (default: a little longer than a watch lasts)")
	return cmd
}

// options checks the flags and makes the options of them, all but the namespace.
func (f *restartFlags) options() (restart.StandaloneOptions, error) {
	o := restart.StandaloneOptions{Selector: f.selector, Debounce: f.debounce, Cooldown: f.cooldown, WatchIdleTimeout: f.watchIdleTimeout}
	if f.selector == "" {
		return o, usagef("--selector: say which pods to watch, such as app=redis")
	}
	if len(f.targets) == 0 {
		return o, usagef("--target: say what to restart, such as deployment/web")
	}
	for _, text := range f.targets {
		t, err := restart.ParseTarget(text)
		if err != nil {
			return o, usagef("--target %w", err)
		}
		if !objectName.MatchString(t.Name) {
			return o, usagef("--target %q: %q is not the name of an object", text, t.Name)
		}
		if slices.Contains(o.Targets, t) {
			return o, usagef("--target: %s is there twice", t)
		}
		o.Targets = append(o.Targets, t)
	}
	var err error
	if o.On, err = restart.ParseReasons(f.on); err != nil {
		return o, usagef("--on: %w", err)
	}
	if o.Budget, o.Per, err = parseBudget(f.budget); err != nil {
		return o, err
	}
	if f.watchIdleTimeout < 0 {
		return o, usagef("--watch-idle-timeout %s: is negative", f.watchIdleTimeout)
	}
	return o, checkAddress("--health-probe-bind-address", f.health)
}

// objectName is what objects of most kinds can be called (RFC 1123 subdomain).
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// parseBudget reads "5/1h"; "" is no budget.
func parseBudget(text string) (limit int, per time.Duration, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(text, "/")
	limit, err = strconv.Atoi(first)
	if err == nil {
		per, err = time.ParseDuration(second)
	}
	if err != nil || limit < 1 || per <= 0 {
		return 0, 0, usagef("--budget %q: want MAX/DURATION, such as 5/1h", text)
	}
	return limit, per, nil
}

func (f *restartFlags) run(cmd *cobra.Command) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if o.Log, err = f.log.logger(cmd.ErrOrStderr()); err != nil {
		return err
	}
	client, namespace, err := connect(f.connection, func(msg string) { o.Log.Info("warning", "text", msg) })
	if err != nil {
		return err
	}
	defer client.Close()
	o.Namespace = namespace
	c, err := restart.NewStandalone(client, o)
	if err != nil {
		return usagef("--%w", err) // which begins with the name of an option, and the flags are called as they are
	}
	o.Log.Info("starting", "server", client.Server(), "namespace", namespace, "selector", f.selector, "targets", strings.Join(f.targets, ","))
	err = manager.New(manager.Options{Controllers: []*controller.Controller{c}, HealthAddr: f.health, Log: o.Log}).Run(cmd.Context())
	if err == nil {
		o.Log.Info("stopped")
	}
	return err
}
