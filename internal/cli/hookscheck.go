package cli

import (
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
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check whether a cluster has all that hook controllers need",
		Long: `Checks the files, then asks the API server what 'skiff hooks run' will need: whether it serves each
resource in the version that is named, whether parents have a status subresource, whether this user has each right of
the controllers, and whether the Secrets and ConfigMaps of webhooks have their keys. No hook is called: it checks
whether a program is there, and whether something listens at the address of a webhook, seen from this machine. It
changes nothing. Run it as skiff's own user: with its token, with --as, or in its pod.

Exit codes: 0 nothing is missing, 3 something is missing, 1 failed (it could not find out), 2 wrong usage or an invalid
file.`,
		Example: `  skiff hooks check -f controller.yaml
  skiff hooks check -f webshop --as system:serviceaccount:skiff:skiff-hooks --watch-namespaces shop,blog`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNamespaces("--watch-namespaces", namespaces); err != nil {
				return err
			}
			controllers, err := files.read(cmd)
			if err != nil {
				return err
			}
			client, _, err := connect(connection, warnTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer client.Close()
			c := hooksCheck{client: client, namespaces: sorted(namespaces)}
			return c.print(cmd.Context(), cmd.OutOrStdout(), controllers)
		},
	}
	files.add(cmd)
	addConnectionFlags(cmd, &connection)
	cmd.Flags().StringSliceVar(&namespaces, "watch-namespaces", nil,
		"`namespaces` to work in, separated by commas (default all)")
	InGroup(cmd, groupControllers, "watch-namespaces")
	return cmd
}

// hooksCheck is one run of the command.
type hooksCheck struct {
	client     *kube.Client
	namespaces []string
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

// print checks all of it and prints what it found.
func (c *hooksCheck) print(ctx context.Context, out io.Writer, controllers []*spec.Controller) error {
	o := check.Options{Client: c.client, Namespaces: c.namespaces}
	var err error
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
	for _, controller := range controllers {
		c.say(true, "%-11s %s", strings.ToLower(strings.TrimSuffix(controller.Kind, "Controller")), controller.Name)
		if err := c.resources(ctx, controller); err != nil {
			return err
		}
		if err := c.references(ctx, controller); err != nil {
			return err
		}
		c.hooks(ctx, controller)
	}
	report.OK = report.OK && !c.missing
	if _, err := io.WriteString(out, strings.Join(c.lines, "")+checkText(report, false)); err != nil {
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
	}
	var rules []rule
	for _, p := range controller.Parents {
		rules = append(rules, rule{p.Type, controller.IsComposite()})
	}
	for _, child := range controller.Children {
		rules = append(rules, rule{child.Type, false})
	}
	for _, r := range rules {
		_, version, ok := strings.Cut(r.APIVersion, "/")
		if !ok {
			version = r.APIVersion
		}
		found, served, err := discovery.Find(ctx, c.client, r.Group(), version, r.Resource)
		if err != nil && !served {
			return err
		}
		name := r.GroupResource() + " " + version
		switch {
		case err != nil:
			c.say(false, "resource    %v", err)
		case !served || found.Plural != r.Resource:
			c.say(false, "resource    %s is not served: install its definition, or correct apiVersion and resource",
				name)
		case r.needsStatus && !found.Status:
			c.say(false, "resource    %s has no status subresource: add `subresources: {status: {}}` to its "+
				"definition", name)
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
		resource := kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}
		if r.ConfigMap {
			resource = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
		}
		var object struct {
			Data map[string]kube.Raw `json:"data"`
		}
		name := fmt.Sprintf("%s %s/%s", resource.Kind, r.Namespace, r.Name)
		err := c.client.Get(ctx, resource, kube.Key{Namespace: r.Namespace, Name: r.Name}, &object)
		switch {
		case kube.IsNotFound(err):
			c.say(false, "credential  %s does not exist", name)
		case kube.IsForbidden(err):
			c.say(false, "credential  %s may not be read: `skiff hooks role` prints the role", name)
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
	for _, h := range []struct {
		name string
		hook *spec.Hook
	}{{"sync", controller.Sync}, {"finalize", controller.Finalize}, {"customize", controller.Customize}} {
		switch {
		case h.hook == nil:
		case h.hook.Exec != nil:
			c.program(h.name, h.hook.Exec)
		default:
			u, err := url.Parse(h.hook.Webhook.URL)
			if err != nil || slices.Contains(seen, u.Host) {
				continue // package spec has checked the URL; a host is tried once
			}
			seen = append(seen, u.Host)
			c.endpoint(ctx, h.name, u)
		}
	}
}

func (c *hooksCheck) program(name string, e *spec.Exec) {
	program := e.Command[0]
	if _, err := exec.LookPath(program); err != nil {
		c.say(false, "hook        %s: the program cannot be run: %v", name, errors.Unwrap(err))
		return
	}
	if info, err := os.Stat(e.Dir); e.Dir != "" && (err != nil || !info.IsDir()) {
		c.say(false, "hook        %s: dir %s is no directory of this machine", name, e.Dir)
		return
	}
	c.say(true, "hook        %s: %s is there", name, program)
}

// dialTimeout is how long a connection to a webhook may take: in one cluster it takes milliseconds.
const dialTimeout = 3 * time.Second

func (c *hooksCheck) endpoint(ctx context.Context, name string, u *url.URL) {
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
		c.say(false, "hook        %s: nothing answers at %s, seen from here: %s", name, address, why)
		return
	}
	_ = conn.Close() // nothing was sent
	c.say(true, "hook        %s: something listens at %s", name, address)
}
