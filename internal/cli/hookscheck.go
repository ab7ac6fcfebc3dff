package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/install/check"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

func newHooksCheck() *cobra.Command {
	var connection kubeconfig.Flags
	var files hookFiles
	var namespaces []string
	var election bool
	var electionIn, output string
	cmd := &cobra.Command{
		Use:   "check {-f FILE | --from-cluster}",
		Short: "Check whether a cluster has all that hook controllers need",
		Long: `Checks the files, then asks the API server what 'skiff hooks run' will need: whether it serves each
resource in the version that is named, whether parents have a status subresource, whether this user has each right of
the controllers, and whether the Secrets and ConfigMaps of webhooks have their keys. No hook is called: it checks
whether a program is there, and whether something listens at the address of a webhook, seen from this machine. It
changes nothing. Run it as skiff's own user: with its token, with --as, or in its pod. With --from-cluster it prints in
what skiff differs from metacontroller for these controllers, too.

Missing rights are printed as a role and its binding; -o yaml prints nothing else, for kubectl apply.

Exit codes: 0 nothing is missing, 3 something is missing, 1 failed (it could not find out), 2 wrong usage or an invalid
file.`,
		Example: `  skiff hooks check -f controller.yaml
  skiff hooks check -f webshop --as system:serviceaccount:skiff:skiff-hooks --watch-namespaces shop,blog`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNamespaces("--watch-namespaces", namespaces); err != nil {
				return err
			}
			if electionIn != "" && !namespaceName().MatchString(electionIn) {
				return Usagef("--leader-election-namespace: %q is not a valid namespace name", electionIn)
			}
			if output != "" && output != "yaml" {
				return Usagef("--output %q: want yaml, or omit the flag", output)
			}
			if err := files.check(); err != nil {
				return err
			}
			var controllers []*spec.Controller
			var err error
			if !files.cluster {
				if controllers, err = files.readValid(cmd); err != nil {
					return err
				}
			}
			client, namespace, err := connect(connection, warnTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer client.Close()
			if files.cluster {
				if controllers, err = files.declared(cmd, client); err != nil {
					return err
				}
			}
			o := check.Options{Client: client, Namespaces: sorted(namespaces), ClusterWide: files.rights()}
			if election {
				o.Election, o.ElectionNamespace = electionRights, cmp.Or(electionIn, namespace)
			}
			c := hooksCheck{client: client, namespaces: o.Namespaces, rightsOnly: output == "yaml",
				moved: files.cluster}
			return files.exit(c.print(cmd.Context(), cmd.OutOrStdout(), o, controllers), ExitDiffer)
		},
	}
	files.add(cmd)
	files.addCluster(cmd)
	addConnectionFlags(cmd, &connection)
	fs := cmd.Flags()
	ListVar(cmd, &namespaces, "watch-namespaces", nil,
		"`namespaces` to work in, separated by commas (default all)")
	fs.BoolVar(&election, "leader-elect", false, "check the rights of leader election, too")
	fs.StringVar(&electionIn, "leader-election-namespace", "",
		"`namespace` of the Lease (default: that of the kubeconfig context or the pod)")
	fs.StringVarP(&output, "output", "o", "", "`format`: yaml for the missing rights alone")
	InGroup(cmd, groupControllers, "watch-namespaces", "leader-elect", "leader-election-namespace")
	return cmd
}

// hooksCheck is one run of the command.
type hooksCheck struct {
	client     *kube.Client
	namespaces []string
	rightsOnly bool // print the missing rights alone
	moved      bool // the controllers may have been metacontroller's
	lines      []string
	missing    bool
}

// say adds a line to what is printed.
func (c *hooksCheck) say(ok bool, format string, args ...any) {
	c.missing = c.missing || !ok
	line := checkLine(ok, format, args...)
	if n := len(c.lines); n == 0 || c.lines[n-1] != line { // both keys of one Secret may be missing
		c.lines = append(c.lines, line)
	}
}

// print runs all checks and prints the findings.
func (c *hooksCheck) print(ctx context.Context, out io.Writer, o check.Options,
	controllers []*spec.Controller) (err error) {
	if o.Definitions, err = definitions.Hooks(); err != nil { // only those that the rights name are compared
		return err
	}
	for _, controller := range controllers {
		o.Rights = append(o.Rights, spec.Rights(controller)...)
	}
	report, err := check.Run(ctx, o)
	if err != nil {
		return err
	}
	addNextSteps(&report, " --hooks")
	addAbsent(ctx, c.client, &report, o.Namespaces)
	for _, controller := range controllers {
		c.say(true, "%-11s %s", strings.ToLower(strings.TrimSuffix(controller.Kind, "Controller")), controller.Name)
		if err := c.resources(ctx, controller); err != nil {
			return err
		}
		for _, rival := range controller.Rivals(controllers) {
			c.say(false, "parents     %s has the parent resource %s, too, and each replaces the other's status: give "+
				"both a parentResource.labelSelector, or stop one", rival.Name, rival.Parents[0].GroupResource())
		}
		if err := c.references(ctx, controller); err != nil {
			return err
		}
		c.hooks(ctx, controller)
		for _, d := range spec.Differences(controller) {
			if c.moved {
				c.say(true, "differs     %s: %s: %s", controller.Name, d.Field, d.What)
			}
		}
	}
	report.OK = report.OK && !c.missing
	text := strings.Join(c.lines, "") + checkText(report, false, "")
	if c.rightsOnly {
		text = report.Manifest
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if !report.OK {
		return errDiffer
	}
	return nil
}

// resources checks whether the server has the parents and children of a controller.
func (c *hooksCheck) resources(ctx context.Context, controller *spec.Controller) error {
	type rule struct {
		spec.Type
		needsStatus bool
		rolls       bool // its ControllerRevisions are in its namespace
	}
	var rules []rule
	for _, p := range controller.Parents {
		rules = append(rules, rule{p.Type, controller.IsComposite(), controller.Rolls()})
	}
	for _, child := range controller.Children {
		rules = append(rules, rule{Type: child.Type})
	}
	for _, r := range rules {
		found, served, err := discovery.Find(ctx, c.client, r.Group(), r.Version(), r.Resource)
		if err != nil && !served {
			return err
		}
		name := r.GroupResource() + " " + r.Version()
		switch {
		case err != nil:
			c.say(false, "resource    %v", err)
		case !served || found.Plural != r.Resource:
			next := "apply its definition, or correct apiVersion and resource"
			if near := discovery.NearestPlural(ctx, c.client, r.Group(), r.Version(), r.Resource); near != "" {
				next = "did you mean " + near + "?"
			}
			c.say(false, "resource    %s is not served: %s", name, next)
		case r.needsStatus && !found.Status:
			c.say(false, "resource    %s has no status subresource: add `subresources: {status: {}}` to its "+
				"definition", name)
		case r.rolls && found.ClusterScoped:
			c.say(false, "resource    %s is cluster-scoped: rolling updates need parents with a namespace; use "+
				"InPlace or Recreate", name)
		case found.ClusterScoped && len(c.namespaces) > 0:
			c.say(false, "resource    %s is cluster-scoped: leave out --watch-namespaces", name)
		default:
			c.say(true, "resource    %s is served", name)
		}
	}
	return nil
}

// references checks whether the keys are there that webhooks need.
func (c *hooksCheck) references(ctx context.Context, controller *spec.Controller) error {
	for _, r := range controller.References() {
		resource, key := r.Object()
		var object struct {
			Data map[string]kube.Raw `json:"data"`
		}
		name := fmt.Sprintf("%s %s", resource.Kind, key)
		err := c.client.Get(ctx, resource, key, &object)
		switch {
		case kube.IsNotFound(err):
			c.say(false, "credential  %s does not exist", name)
		case kube.IsForbidden(err):
			c.say(false, "credential  %s may not be read: `skiff hooks role` prints a role for it", name)
		case err != nil:
			return err
		case object.Data[r.Key] == nil:
			c.say(false, "credential  %s has no key %s", name, r.Key)
		default:
			c.say(true, "credential  %s has the key %s", name, r.Key)
		}
	}
	return nil
}

// hooks checks whether the programs are there, and whether something listens where webhooks are.
func (c *hooksCheck) hooks(ctx context.Context, controller *spec.Controller) {
	var seen []string
	for _, h := range controller.Hooks() {
		if h.Exec != nil {
			c.program(h.Name, h.Hook)
			continue
		}
		u, err := url.Parse(h.Webhook.URL)
		if err != nil || slices.Contains(seen, u.Host) {
			continue // package spec has checked the URL; a host is tried once
		}
		seen = append(seen, u.Host)
		c.endpoint(ctx, h.Name, controller.Places[h.Name], u)
	}
}

func (c *hooksCheck) program(name string, h *spec.Hook) {
	e, program := h.Exec, h.Exec.Command[0]
	if _, err := exec.LookPath(program); err != nil {
		c.say(false, "hook        %s: the program cannot be run: %v", name, errors.Unwrap(err))
		return
	}
	if info, err := os.Stat(e.Dir); e.Dir != "" && (err != nil || !info.IsDir()) {
		c.say(false, "hook        %s: dir %s is no directory of this machine", name, e.Dir)
		return
	}
	if script := call.MissingScript(e); script != "" {
		c.say(false, "hook        %s: %s is there, its script is not: %s does not exist", name, program, script)
		return
	}
	there := []string{program}
	for _, file := range call.Files(h) {
		if file != program {
			there = append(there, file)
		}
	}
	c.say(true, "hook        %s: %s is there", name, strings.Join(there, " with "))
}

// dialTimeout is how long a connection to a webhook may take: in a cluster, milliseconds.
const dialTimeout = 3 * time.Second

func (c *hooksCheck) endpoint(ctx context.Context, name, place string, u *url.URL) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	address := net.JoinHostPort(u.Hostname(), port)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		why := kube.Printable(err.Error(), maxSelected)
		if lookup := (*net.DNSError)(nil); errors.As(err, &lookup) {
			why += " (the name of a Service is known within the cluster only)"
		}
		if place != "" {
			name += ": " + place
		}
		c.say(false, "hook        %s: nothing answers at %s, seen from here: %s", name, address, why)
		return
	}
	_ = conn.Close() // nothing was sent
	c.say(true, "hook        %s: something listens at %s", name, address)
}
