package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/hooks/spec"
	"skiff/internal/operators/restart"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/plan"
	"skiff/internal/runtime/podpolicy"
)

// exitBlocked is the exit code of `skiff plan` where something is in the way.
const exitBlocked = 4

// planFlags are the flags of `skiff plan`.
type planFlags struct {
	connection     kubeconfig.Flags
	names          []string
	namespaces     []string
	selector       string
	templatePolicy string
	floors         floorFlags
	mirrorMiB      int
	objectKiB      int
	files          []string
	output         string
	full           bool
	showSecrets    string
	hooks          planHooks
}

func newPlan() *cobra.Command {
	f := planFlags{}
	cmd := &cobra.Command{
		Use:   "plan [KIND/NAME ...]",
		Short: "Show what the controllers would write, without writing",
		Long: `Runs each controller once for each object, and sends every write as a dry run: nothing changes. What the
server answers is compared with what is there, field by field. Run the new version's 'skiff plan' before an upgrade, or
'skiff plan -f FILE' before FILE is applied.

  +  create       ~  change       -  delete       -+  replace: delete, and create again
  !  blocked: what is in the way, and the next step
  =  held: it differs, and is left so (paused, or OnDelete)

Read rights are enough: where a dry run is refused, what would be sent is compared here, and the output says so.

Exit codes: 0 nothing to write, 3 there are writes, 4 something is blocked, 1 an object could not be planned or the
server cannot be reached, 2 wrong usage.`,
		Example: `  skiff plan                                 # all objects of all controllers
  skiff plan webserver/web -n shop
  skiff plan -f web.yaml                     # as it would be after 'kubectl apply -f web.yaml'
  skiff plan -o json | jq -r 'select(.op).name'`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	addConnectionFlags(cmd, &f.connection)
	fs := cmd.Flags()
	fs.StringVarP(&f.connection.Namespace, "namespace", "n", "",
		"`namespace` of KIND/NAME, and of objects in FILE without one (default that of the kubeconfig context)")
	fs.StringSliceVar(&f.names, "controllers", ControllerNames(), "`names` of the controllers, separated by commas")
	fs.StringSliceVar(&f.namespaces, "watch-namespaces", nil,
		"`namespaces` to plan in, separated by commas (default all)")
	fs.StringVar(&f.selector, "watch-namespace-selector", "", "label `selector` of the namespaces to plan in")
	fs.StringVar(&f.templatePolicy, "template-policy", podpolicy.Policy("").String(),
		"`which` pods a WebServer or a Redis may have: baseline, restricted or any")
	f.floors.add(cmd)
	fs.IntVar(&f.mirrorMiB, "mirror-memory-mib", 0, "how many `MiB` the objects of one resource may take in memory")
	fs.IntVar(&f.objectKiB, "max-object-kib", cache.DefaultObjectBytes>>10,
		"how many `KiB` one object may take in memory")
	fs.StringArrayVarP(&f.files, "file", "f", nil,
		"`file` or directory with objects as they would be; only these are planned")
	fs.StringVarP(&f.output, "output", "o", "text", "`format`: text or json")
	fs.BoolVar(&f.full, "full", false, "print all fields of what is created")
	fs.StringVar(&f.showSecrets, "show-secrets", "",
		"print the values of Secrets; `always`: also into a file or a pipe")
	fs.Lookup("show-secrets").NoOptDefVal = "terminal"
	f.hooks.add(cmd)
	InGroup(cmd, groupControllers, "controllers", "watch-namespaces", "watch-namespace-selector", "template-policy")
	InGroup(cmd, GroupAdvanced, "mirror-memory-mib", "max-object-kib")
	return cmd
}

// check refuses flags that make no sense.
func (f *planFlags) check() error {
	if err := checkNamespaces("--watch-namespaces", f.namespaces); err != nil {
		return err
	}
	if err := checkSelector(f.selector, f.namespaces); err != nil {
		return err
	}
	if err := checkTemplatePolicy(f.templatePolicy); err != nil {
		return err
	}
	switch {
	case f.output != "text" && f.output != "json":
		return Usagef("-o %q: want text or json", f.output)
	case !slices.Contains([]string{"", "terminal", "always"}, f.showSecrets):
		return Usagef("--show-secrets=%s: want --show-secrets or --show-secrets=always", f.showSecrets)
	case f.objectKiB < 1:
		return Usagef("--max-object-kib %d: must be at least 1", f.objectKiB)
	case f.mirrorMiB < 0:
		return Usagef("--mirror-memory-mib %d: must not be negative", f.mirrorMiB)
	}
	return errors.Join(f.floors.check(), f.hooks.check())
}

// secretsShown says whether the values of Secrets go to stdout.
func (f *planFlags) secretsShown(stdout io.Writer) bool {
	return f.showSecrets == "always" || f.showSecrets == "terminal" && isTerminal(stdout)
}

// isTerminal says whether a person reads what is written.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (f *planFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	targets, err := planTargets(args)
	if err != nil {
		return err
	}
	objects, err := f.read()
	if err != nil {
		return err
	}
	hooks, err := f.hooks.read(cmd)
	if err != nil {
		return err
	}
	own, chosen, err := f.choose(cmd, hooks)
	if err != nil {
		return err
	}
	client, namespace, err := connect(f.connection, warnTo(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer client.Close()
	server, err := serverVersion(cmd.Context(), client)
	if err != nil {
		return err
	}
	if f.hooks.files.cluster {
		if hooks, err = f.hooks.files.declared(cmd.Context(), client); err != nil {
			return err
		}
		if own, chosen, err = f.choose(cmd, hooks); err != nil {
			return err
		}
	}
	p := plan.New(plan.Options{Client: client, Full: f.full, ShowSecrets: f.secretsShown(cmd.OutOrStdout()),
		Books:    []kube.Resource{spec.Revisions},
		Managers: []string{apply.Manager, restart.Manager, f.hooks.manager}})
	setup := f.setup(p.Client())
	controllers := f.controllers(setup, own, targets)
	others, end := f.hooks.controllers(cmd.Context(), p, setup, client, chosen)
	defer end()
	for _, c := range others {
		if targets.concern(c.Resource()) {
			controllers = append(controllers, c)
		}
	}
	if err := targets.have(controllers); err != nil {
		return err
	}
	proposals, err := proposals(objects, controllers, namespace)
	if err != nil {
		return err
	}
	if len(proposals) > 0 {
		targets = proposedTargets(proposals)
	}
	out, err := p.Run(cmd.Context(), controllers, proposals, targets.wants(namespace))
	if err != nil {
		return err
	}
	if err := f.print(cmd, out, server); err != nil {
		return err
	}
	if err := targets.missing(namespace); err != nil {
		return err
	}
	if exit := out.Summary().Exit(); exit != ExitDone {
		return ExitCode(exit)
	}
	return nil
}

func (f *planFlags) print(cmd *cobra.Command, out *plan.Plan, server string) error {
	w := cmd.OutOrStdout()
	if f.output == "json" {
		version, _ := kube.Version()
		return out.JSON(w, version, server)
	}
	_, err := io.WriteString(w, out.Text(isTerminal(w) && os.Getenv("NO_COLOR") == ""))
	return err
}

// serverVersion asks the server for its version: whether there is one at all is known then.
func serverVersion(ctx context.Context, client *kube.Client) (string, error) {
	body, err := client.Raw(ctx, "GET", "/version", nil)
	if err != nil {
		return "", err
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "", fmt.Errorf("read the version of the server: %w", err)
	}
	return kube.Text(v.GitVersion), nil
}

// setup is what all controllers have in common.
func (f *planFlags) setup(client *kube.Client) controller.Setup {
	return controller.Setup{Client: client, Namespaces: sorted(f.namespaces), NamespaceSelector: f.selector,
		MirrorBytes: int64(f.mirrorMiB) << 20, ObjectBytes: int64(f.objectKiB) << 10,
		MinDebounce: f.floors.minDebounce, MinCooldown: f.floors.minCooldown,
		TemplatePolicy: podpolicy.Policy(f.templatePolicy), Advice: advice,
		Mirrors: cache.NewMirrors(), Log: logr.Discard()}
}

// controllers makes those of skiff's own controllers that are asked for.
func (f *planFlags) controllers(setup controller.Setup, names []string, targets planned) (
	out []*controller.Controller) {
	if f.selector != "" {
		out = append(out, controller.SelectNamespaces(setup))
	}
	for _, op := range operators {
		if slices.Contains(names, op.name) && targets.concern(op.rights[0].Resource) {
			out = append(out, op.new(setup, nil))
		}
	}
	return out
}
