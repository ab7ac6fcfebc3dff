package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/install/definitions"
	"skiff/internal/install/uninstall"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

func newUninstall() *cobra.Command {
	var connection kubeconfig.Flags
	var o uninstall.Options
	var yes bool
	wait := 2 * time.Minute // the garbage collector of a busy cluster takes that long to let go of many objects
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete skiff's custom resources and their definitions",
		Long: `Shows what there is to delete; with --yes, deletes it and waits until it is gone: first it takes skiff's
finalizers off, so that nothing is left in Terminating, then it deletes the custom resources, then their definitions.
What they own (Deployments, Services, pods) goes before them, unless --keep-children is given.

Stop skiff before: it would set its finalizer again. Its own Deployment, service account and roles are deleted as they
were applied: skiff manifests | kubectl delete -f -. Where its namespace stays, so does its Lease: kubectl delete lease
skiff.`,
		Example: `  skiff uninstall                        # changes nothing
  skiff uninstall --yes
  skiff uninstall --yes --keep-children  # the Deployments, Services and pods go on without skiff
  skiff uninstall --yes -n shop          # the custom resources of one namespace, and no definitions`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait <= 0 {
				return Usagef("--timeout %s: must be more than 0", wait)
			}
			client, _, err := connect(connection, warnTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer client.Close()
			o.Client, o.Namespace = client, connection.Namespace
			if o.Resources, err = customResources(); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !yes {
				return showUninstall(cmd.Context(), o, out)
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), wait, fmt.Errorf("not done within %s", wait))
			defer cancel()
			o.Did = func(what string) { fmt.Fprintln(out, what) }
			if err := uninstall.Do(ctx, o); err != nil {
				return fmt.Errorf("uninstall: %w", err)
			}
			_, err = fmt.Fprintln(out, "done")
			return err
		},
	}
	addConnectionFlags(cmd, &connection)
	fs := cmd.Flags()
	fs.BoolVar(&yes, "yes", false, "do it; without this flag nothing is changed")
	fs.BoolVar(&o.KeepDefinitions, "keep-definitions", false, "delete the custom resources only")
	fs.BoolVar(&o.KeepChildren, "keep-children", false,
		"leave what the custom resources own in the cluster, without an owner")
	fs.StringVarP(&connection.Namespace, "namespace", "n", "",
		"`namespace` of the custom resources, whose definitions stay then (default all namespaces)")
	fs.DurationVar(&wait, "timeout", wait, "how long to wait until all is gone")
	return cmd
}

// customResources are the resources that the embedded CRDs define, in their served version.
func customResources() ([]kube.Resource, error) {
	all, err := definitions.All()
	if err != nil {
		return nil, err
	}
	var out []kube.Resource
	for _, d := range all {
		out = append(out, d.Defines)
	}
	return out, nil
}

// showUninstall prints what there is to delete.
func showUninstall(ctx context.Context, o uninstall.Options, out io.Writer) error {
	found, err := uninstall.Look(ctx, o)
	if err != nil {
		return err
	}
	var b strings.Builder
	any := false
	for _, f := range found {
		name := f.Resource.GroupResource()
		for _, one := range f.Objects {
			any = true
			fmt.Fprintf(&b, "would delete %s %s", name, one.Key)
			if o.KeepChildren {
				b.WriteString(", and keep what it owns")
			}
			if len(one.Ours) > 0 {
				b.WriteString("; its finalizer " + kube.Text(strings.Join(one.Ours, ", ")) + " is removed first")
			}
			if len(one.Others) > 0 {
				b.WriteString("; it WAITS for " + kube.Text(strings.Join(one.Others, ", ")) +
					", a finalizer that is not skiff's")
			}
			b.WriteByte('\n')
		}
	}
	for _, f := range found {
		if f.Definition {
			any = true
			fmt.Fprintf(&b, "would delete the definition %s\n", f.Resource.GroupResource())
		}
	}
	if any {
		b.WriteString("nothing was changed; --yes does it\n")
	} else {
		b.WriteString("there is nothing to delete\n")
	}
	_, err = io.WriteString(out, b.String())
	return err
}
