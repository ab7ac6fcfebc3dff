package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/operators/restart"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/manager"
	"skiff/internal/runtime/nearest"
)

// restartFlags are the flags of `skiff restart`.
type restartFlags struct {
	connection       kubeconfig.Flags
	log              logFlags
	selector, budget string
	targets, on      []string
	debounce         time.Duration
	cooldown         time.Duration
	floors           floorFlags
	servingFlags
}

func newRestart() *cobra.Command {
	var f restartFlags
	cmd := &cobra.Command{
		Use:   "restart --selector SELECTOR --target KIND/NAME",
		Short: "Restart a workload whenever pods that it depends on are replaced",
		Long: `Watches pods, and restarts workloads as 'kubectl rollout restart' does when one of the pods is replaced: a
RestartTrigger without a custom resource, for a sidecar or a small Deployment. It runs until SIGTERM or SIGINT.

A Role of two rules is enough: list and watch pods, get and patch the targets. Its state is in the annotation
` + restart.StateAnnotation + ` of the first target: several processes may run at once, and none loses or repeats a
restart when it is restarted itself. Pods that run already at the first start never count.`,
		Example: `  skiff restart --selector app=redis-cluster --target deployment/predixy -n cache
  skiff restart -l app=redis --target statefulset/a --target deployment/b --on PodReplaced,PodIPChanged \
    --cooldown 5m --budget 3/1h`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addConnectionFlags(cmd, &f.connection)
	f.log.add(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.connection.Namespace, "namespace", "n", "",
		"`namespace` of the pods and of the targets (default that of the kubeconfig context or of the pod)")
	fs.StringVarP(&f.selector, "selector", "l", "", "label `selector` of the pods to watch (required)")
	ListVar(cmd, &f.targets, "target", nil,
		"`KIND/NAME` to restart: a deployment, statefulset or daemonset; several follow one after the other "+
			"(required)")
	ListVar(cmd, &f.on, "on", []string{restart.NewPodRunning.String()},
		"`reasons` to restart: NewPodRunning, PodReplaced, ContainerRestarted, PodIPChanged, PodDeleted")
	fs.DurationVar(&f.debounce, "debounce", restart.DefaultDebounce,
		"restart when the pods have not changed for this long")
	fs.DurationVar(&f.cooldown, "cooldown", restart.DefaultCooldown, "the least time between two restarts")
	fs.StringVar(&f.budget, "budget", "",
		"the most restarts within a time, as `MAX/DURATION`: 5/1h (default no limit)")
	f.floors.add(cmd)
	f.servingFlags.add(cmd)
	return cmd
}

// spec checks the flags and makes a trigger's spec of them.
func (f *restartFlags) spec() (s restart.Spec, err error) {
	if f.selector == "" {
		return s, Usagef("--selector: say which pods to watch, such as app=redis")
	}
	if len(f.targets) == 0 {
		return s, Usagef("--target: say what to restart, such as deployment/web")
	}
	for _, text := range f.targets {
		t, err := parseTarget(text)
		if err != nil {
			return s, Usagef("--target %w", err)
		}
		s.Targets = append(s.Targets, t)
	}
	for _, name := range f.on {
		if restart.Reason(name) == restart.ConfigChanged {
			return s, Usagef("--on %s: only pods are watched here; for ConfigMaps and Secrets, run `skiff reload`",
				name)
		}
		s.Source.Reasons = append(s.Source.Reasons, restart.Reason(name))
	}
	if s.Source.Selector, err = labels.Parse(f.selector); err != nil {
		return s, Usagef("--selector %q: %w", f.selector, err)
	}
	debounce, cooldown := f.debounce.String(), f.cooldown.String()
	s.Debounce, s.Cooldown = &debounce, &cooldown
	if s.Budget, err = parseBudget(f.budget); err != nil {
		return s, err
	}
	if err := s.Validate(); err != nil {
		return s, Usagef("--%s", flagOfField.Replace(err.Error()))
	}
	return s, errors.Join(f.servingFlags.check(), f.floors.check())
}

// flagOfField turns the field that an error of restart.Spec.Validate begins with into a flag.
var flagOfField = strings.NewReplacer("spec.source.reasons", "on", "spec.targets", "target",
	"spec.source.", "", "spec.", "")

// targetKinds are the kinds of targets by their names in kubectl.
var targetKinds = map[string]string{
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
	"statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
}

// parseTarget reads a target in kubectl's form: KIND/NAME, the kind in any case, in the plural or by its short name.
func parseTarget(text string) (restart.TargetRef, error) {
	word, name, _ := strings.Cut(text, "/")
	kind := targetKinds[strings.ToLower(word)]
	switch {
	case name == "":
		return restart.TargetRef{}, fmt.Errorf("%.100q: want KIND/NAME, such as deployment/web", text)
	case kind == "":
		question := nearest.Ask(word, []string{"deployment", "statefulset", "daemonset"}, "", "/"+name)
		if question != "" {
			return restart.TargetRef{}, fmt.Errorf("%.100q: %s", text, question)
		}
		return restart.TargetRef{}, fmt.Errorf("%.100q: only a deployment, statefulset or daemonset can be restarted",
			text)
	case !kube.ValidName(name):
		return restart.TargetRef{}, fmt.Errorf("%.100q: %.100q is not the name of an object", text, name)
	}
	return restart.TargetRef{Kind: kind, Name: name}, nil
}

// parseBudget reads "5/1h"; "" is no budget.
func parseBudget(text string) (*restart.BudgetSpec, error) {
	if text == "" {
		return nil, nil
	}
	first, second, ok := strings.Cut(text, "/")
	limit, err := strconv.ParseInt(first, 10, 32)
	if err != nil || limit < 1 || !ok {
		return nil, Usagef("--budget %q: want MAX/DURATION, such as 5/1h", text)
	}
	return &restart.BudgetSpec{Max: int32(limit), Per: second}, nil
}

func (f *restartFlags) run(cmd *cobra.Command) error {
	spec, err := f.spec()
	if err != nil {
		return err
	}
	on, log, err := inNamespace(cmd, f.connection, &f.log)
	if err != nil {
		return err
	}
	defer on.Client.Close()
	namespace := on.namespaces[0]
	setup := on.setup(&f.servingFlags, log)
	setup.Advice = ruleAdvice(spec.Rights(), func(kube.Resource) string { return "" })
	c, err := restart.NewStandalone(setup, spec, f.floors.Floors)
	if err != nil {
		return err
	}
	on.start(log, "namespace", namespace, "selector", f.selector, "targets", strings.Join(f.targets, ","))
	warn := WarnIn(log)
	if f.debounce < f.floors.Debounce {
		warn(fmt.Sprintf("--debounce %s is raised to %s, see --min-debounce", f.debounce, f.floors.Debounce))
	}
	if f.cooldown < f.floors.Cooldown {
		warn(fmt.Sprintf("--cooldown %s is raised to %s, see --min-cooldown", f.cooldown, f.floors.Cooldown))
	}
	looking, stop := context.WithCancel(cmd.Context())
	var look sync.WaitGroup
	look.Go(func() { warnOfNoPods(looking, on.Client, namespace, f.selector, warn) })
	err = on.run(cmd.Context(), &f.servingFlags, manager.Options{Controllers: []*controller.Controller{c},
		History: setup.History, Log: log})
	stop()
	look.Wait()
	return err
}

// warnOfNoPods warns of a selector that selects no pod now, which is right where they are yet to come.
func warnOfNoPods(ctx context.Context, c *kube.Client, namespace, selector string, warn func(string)) {
	path, err := (kube.Resource{Version: "v1", Plural: "pods"}).Path(namespace, "")
	if err != nil {
		return
	}
	body, err := c.Raw(ctx, http.MethodGet, path, url.Values{"limit": {"1"}, "labelSelector": {selector}})
	var list struct {
		Items []kube.Raw `json:"items"`
	}
	if err != nil || kube.Unmarshal(body, &list) != nil || len(list.Items) > 0 {
		return // another line says that the server does not answer, or that a right is missing
	}
	text := fmt.Sprintf("--selector %s: no pod in namespace %s matches it now", selector, namespace)
	if emptyValue.MatchString(selector) {
		text += "; is a value missing after the =?"
	}
	warn(text)
}

// emptyValue finds a label without a value.
var emptyValue = regexp.MustCompile(`=\s*(,|$)`)
