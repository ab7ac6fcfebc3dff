package cli

import (
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/install/definitions"
	"skiff/internal/install/manifests"
	"skiff/internal/operators/restart"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/podpolicy"
)

// manifestsFlags are those of `skiff manifests`.
type manifestsFlags struct {
	controllers []string
	namespaced  []string
	selector    string
	namespace   string
	image       string
	replicas    int
	crds, rbac  bool
	policies    bool
	sources     sourceFlags
}

func newManifests() *cobra.Command {
	var f manifestsFlags
	cmd := &cobra.Command{
		Use:   "manifests [-- FLAGS OF skiff run]",
		Short: "Print the manifests that install skiff in a cluster",
		Long: `Prints all that a cluster needs to run skiff: the namespace, a service account with the rights that the
chosen controllers declare and no others, two replicas with leader election, and a PodDisruptionBudget. The pods keep
to the restricted Pod Security Standard.

With --namespaced, skiff works in these namespaces only, and all that is printed is namespaced: a Role in each of
them and no ClusterRole. The namespaces must exist.

The custom resource definitions are installed by 'skiff crds install', or printed too with --crds. Deleting
these manifests then deletes all custom resources, too. Arguments after -- are added to those of 'skiff run'.

With --policies, it prints admission policies and nothing else: with them, the API server (1.30 and later) refuses
a template that --template-policy does not allow, lists that are too long, and the annotation skiff.dev/adopt of a
user who may not create, patch and delete pods. They are cluster-scoped; with --namespaced or
--watch-namespace-selector they count in these namespaces.`,
		Example: `  skiff manifests --image registry.example.com/skiff:v1 | kubectl apply -f -
  skiff manifests --controllers webserver --namespaced shop,blog
  skiff manifests --controllers restart --restart-sources pods,configmaps
  skiff manifests -- --template-policy restricted -v 1
  skiff manifests --policies -- --template-policy restricted | kubectl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyAfterDash(cmd, args); err != nil {
				return err
			}
			if err := f.check(args); err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), args)
		},
	}
	fs := cmd.Flags()
	ListVar(cmd, &f.controllers, "controllers", ControllerNames(),
		"`names` of the controllers, separated by commas")
	ListVar(cmd, &f.namespaced, "namespaced", nil,
		"`namespaces` to work in, separated by commas, with a Role in each and no ClusterRole (default all)")
	fs.StringVar(&f.selector, "watch-namespace-selector", "",
		"label `selector` of the namespaces to work in; the ClusterRole is as for all")
	fs.StringVarP(&f.namespace, "namespace", "n", "",
		"`namespace` of skiff itself (default skiff, or the first of --namespaced)")
	fs.StringVar(&f.image, "image", "skiff", "`name` of the image, best with its digest (NAME@sha256:...)")
	fs.IntVar(&f.replicas, "replicas", 2, "how many pods; one works, the others stand by")
	fs.BoolVar(&f.rbac, "rbac-only", false, "leave out the Deployment and the PodDisruptionBudget")
	fs.BoolVar(&f.crds, "crds", false, "print the custom resource definitions, too")
	fs.BoolVar(&f.policies, "policies", false, "print the admission policies, and nothing else")
	f.sources.add(cmd)
	InGroup(cmd, groupControllers, "controllers", "namespaced", "watch-namespace-selector")
	return cmd
}

// check also sets the defaults.
func (f *manifestsFlags) check(runFlags []string) error {
	if err := checkControllers(f.controllers); err != nil {
		return err
	}
	if err := f.sources.check(); err != nil {
		return err
	}
	if err := checkNamespaces("--namespaced", f.namespaced); err != nil {
		return err
	}
	f.namespaced = slices.Compact(slices.Sorted(slices.Values(f.namespaced)))
	if f.policies && (f.crds || f.rbac) {
		return Usagef("--policies prints nothing else: leave out --crds and --rbac-only")
	}
	if len(f.namespaced) > 0 && f.selector != "" {
		return Usagef("--watch-namespace-selector and --namespaced: give one of them")
	}
	if err := checkSelector(f.selector, nil); err != nil {
		return err
	}
	switch {
	case f.namespace != "":
	case len(f.namespaced) > 0:
		f.namespace = f.namespaced[0]
	default:
		f.namespace = home
	}
	if err := checkNamespaces("--namespace", []string{f.namespace}); err != nil {
		return err
	}
	if problem := imageProblem(f.image); problem != "" {
		return Usagef("--image %q: %s", f.image, problem)
	}
	if f.replicas < 1 {
		return Usagef("--replicas %d: must be at least 1", f.replicas)
	}
	return checkRunFlags(newRun(), "skiff run", ownRunFlags, runFlags)
}

// onlyAfterDash refuses arguments before --.
func onlyAfterDash(cmd *cobra.Command, args []string) error {
	if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
		return Usagef("%s takes no arguments before --, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// ownRunFlags are flags of `skiff run` that the manifests set, with the flag of the manifests that decides.
var ownRunFlags = map[string]string{"controllers": "--controllers", "watch-namespaces": "--namespaced",
	"watch-namespace-selector": "--watch-namespace-selector before it", "leader-elect": "the manifests",
	"restart-sources":           "--restart-sources before it",
	"health-probe-bind-address": "the manifests", "metrics-bind-address": "the manifests"}

// checkRunFlags checks the arguments that are added to those of a command. own are those that the manifests decide.
func checkRunFlags(run *cobra.Command, name string, own map[string]string, args []string) error {
	if err := run.ParseFlags(args); err != nil {
		return Usagef("flags of %s after --: %w", name, err)
	}
	if rest := run.Flags().Args(); len(rest) > 0 {
		return Usagef("flags of %s after --: %q is no flag", name, rest[0])
	}
	for _, flag := range slices.Sorted(maps.Keys(own)) {
		if run.Flags().Changed(flag) {
			return Usagef("--%s after --: it is set by %s", flag, own[flag])
		}
	}
	return nil
}

func (f *manifestsFlags) print(out io.Writer, runFlags []string) error {
	if f.policies {
		text, err := f.admissionPolicies(runFlags)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	}
	var text strings.Builder
	if f.crds {
		all, err := definitions.All()
		if err != nil {
			return err
		}
		for _, d := range all {
			text.WriteString(d.Text + "---\n")
		}
	}
	install := manifests.Install{Account: manifests.Account{Namespace: f.namespace, Name: "skiff"},
		Command: []string{"run"}, Image: f.image, Replicas: f.replicas, Namespaces: f.namespaced,
		Rights: rightsOf(f.controllers, f.sources.Sources), Election: electionRights, Args: runFlags, RBACOnly: f.rbac,
		Memory: "128Mi", MemoryWhy: "18 MB when idle, of which 11 MB are the mapped binary; \"make figures\" " +
			"measures more. A mirror may take a\nthird of the limit: some 50,000 pods.",
		By: "# Printed by `skiff manifests`; its flags choose the controllers, the namespaces, the image.\n" +
			"# The custom resource definitions come first: `skiff crds install`.\n"}
	if sources := f.sources.argument(); sources != "" {
		install.Args = append([]string{sources}, install.Args...)
	}
	if !areDefault(f.controllers) {
		install.Args = append([]string{"--controllers=" + strings.Join(f.controllers, ",")}, install.Args...)
	}
	if f.selector != "" {
		install.Args = append([]string{"--watch-namespace-selector=" + f.selector}, install.Args...)
		install.Rights = append(install.Rights, controller.SelectRights...)
	}
	text.WriteString(install.YAML())
	_, err := io.WriteString(out, text.String())
	return err
}

// rightsOf are all that the named controllers need, where RestartTriggers may have these sources.
func rightsOf(controllers []string, s restart.Sources) []kube.Right {
	var out []kube.Right
	for _, op := range operators {
		if slices.Contains(controllers, op.name) {
			out = append(out, op.rightsFor(s)...)
		}
	}
	return out
}

// admissionPolicies is what --policies prints.
func (f *manifestsFlags) admissionPolicies(runFlags []string) (string, error) {
	run := newRun()
	if err := run.ParseFlags(runFlags); err != nil {
		return "", Usagef("flags of skiff run after --: %w", err)
	}
	name, err := run.Flags().GetString("template-policy")
	if err != nil {
		return "", err
	}
	if err := checkTemplatePolicy(name); err != nil {
		return "", err
	}
	p := manifests.Policies{Templates: templatesOf(f.controllers), TemplatePolicy: podpolicy.Policy(name)}
	if len(p.Templates) == 0 {
		return "", Usagef("--policies: none of these --controllers has a custom resource with a pod template; name " +
			"webserver or redis")
	}
	switch {
	case len(f.namespaced) > 0:
		p.Suffix = "-" + f.namespace
		p.Namespaces = labels.Requirements{{Key: "kubernetes.io/metadata.name", Operator: "In", Values: f.namespaced}}
	case f.selector != "":
		selector, err := labels.Parse(f.selector)
		if err != nil {
			return "", Usagef("--watch-namespace-selector %q: %w", f.selector, err)
		}
		p.Namespaces = selector.Requirements()
	}
	return p.YAML()
}

// templatesOf are the custom resources of the named controllers that have a pod template.
func templatesOf(controllers []string) (out []manifests.Template) {
	for _, op := range operators {
		if op.container != "" && slices.Contains(controllers, op.name) {
			out = append(out, manifests.Template{Resource: op.rights[0].Resource, Container: op.container})
		}
	}
	return out
}

// imageName matches what a container runtime takes for the name of an image: host, path, tag and digest.
const imageName = `^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]{0,127})?` +
	`(@sha256:[0-9a-f]{64})?$`

// imageProblem says what is wrong with the name of an image, "" if nothing is.
func imageProblem(image string) string {
	const form = "want [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]"
	rest, digest, digested := strings.Cut(image, "@")
	path, name := "", rest
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		path, name = rest[:i+1], rest[i+1:]
	}
	name, tag, tagged := strings.Cut(name, ":")
	switch {
	case regexp.MustCompile(imageName).MatchString(image):
		return ""
	case image == "":
		return "must not be empty; " + form
	case strings.ContainsAny(image, " \t\n"):
		return "an image name has no white space; " + form
	case strings.Contains(image, "://"):
		return "an image name has no scheme; " + form
	case digested && !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest):
		return "the digest after @ must be sha256: and 64 hexadecimal digits"
	case tagged && !regexp.MustCompile(`^\w[\w.-]{0,127}$`).MatchString(tag):
		return "the tag after : must be 1 to 128 letters, digits, '_', '.' or '-', and not begin with '.' or '-'"
	case strings.ToLower(path+name) != path+name:
		return "a repository name has only small letters; " + form
	}
	return form
}
