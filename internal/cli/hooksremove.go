package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

func newHooksRemove() *cobra.Command {
	var connection kubeconfig.Flags
	var files hookFiles
	cmd := &cobra.Command{
		Use:   "remove -f FILE [NAME...]",
		Short: "Take the finalizers of hook controllers off their parents",
		Long: `A controller with a finalize hook puts a finalizer on its parents, and nothing takes that off once the
controller does not run any more: the parents then cannot be deleted. This takes it off all parents of the controllers
in the files, or of those that are named. Stop the controllers first: one that runs puts it on again. The children and
all else stay as they are. Running it again changes nothing.`,
		Example: `  skiff hooks remove -f controller.yaml
  skiff hooks remove -f controllers webshop`,
		RunE: func(cmd *cobra.Command, names []string) error {
			controllers, err := files.read(cmd)
			if err != nil {
				return err
			}
			for _, name := range names {
				if !slices.ContainsFunc(controllers, func(c *spec.Controller) bool { return c.Name == name }) {
					return Usagef("there is no controller %q in %s", name, strings.Join(files.paths, ", "))
				}
			}
			client, _, err := connect(connection, warnTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer client.Close()
			for _, c := range controllers {
				if len(names) > 0 && !slices.Contains(names, c.Name) {
					continue
				}
				if err := removeFinalizers(cmd.Context(), client, c, cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addConnectionFlags(cmd, &connection)
	files.add(cmd)
	return cmd
}

// metadata is what is read of a parent.
type metadata struct {
	kube.Meta `json:"metadata"`
}

// removeFinalizers takes the finalizer of a controller off its parents, one line each.
func removeFinalizers(ctx context.Context, client *kube.Client, c *spec.Controller, out io.Writer) error {
	finalizer := reconcile.Finalizer(c)
	for _, p := range c.Parents {
		r, found, err := discovery.Find(ctx, client, p.Group(), p.Version(), p.Resource)
		if err != nil {
			return err
		}
		if !found {
			fmt.Fprintf(out, "%s: the server does not have it, so that there are no parents\n", p.GroupResource())
			continue
		}
		parents, err := kube.List[*metadata](ctx, client, kube.Query{Resource: r.Resource}, kube.ListOptions{})
		if err != nil {
			return err
		}
		n := 0
		for _, parent := range parents.Items {
			if !slices.Contains(parent.Finalizers, finalizer) {
				continue
			}
			rest := slices.DeleteFunc(parent.Finalizers, func(f string) bool { return f == finalizer })
			patch := map[string]any{"metadata": map[string]any{"uid": parent.UID,
				"resourceVersion": parent.ResourceVersion, "finalizers": rest}}
			err := client.Patch(ctx, r.Resource, parent.Key(), kube.MergePatch, patch, nil,
				kube.WriteOptions{FieldManager: FieldManager})
			switch {
			case kube.IsNotFound(err): // it has gone meanwhile
				continue
			case kube.IsConflict(err):
				return fmt.Errorf("%s %s has changed meanwhile; run this again: %w", r.Kind, parent.Key(), err)
			case err != nil:
				return err
			}
			n++
			fmt.Fprintf(out, "%s %s: took off %s\n", r.Kind, parent.Key(), finalizer)
		}
		if n == 0 {
			fmt.Fprintf(out, "%s: none of %d has the finalizer %s\n", r, len(parents.Items), finalizer)
		}
	}
	return nil
}
