package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"skiff/crds"
	"skiff/internal/install/check"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

// FieldManager is skiff's name in managedFields.
const FieldManager = "skiff"

var crdResource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

// definition is one embedded CRD.
type definition struct {
	name   string
	text   string         // YAML, with its comments
	object map[string]any // the same, parsed
}

// definitions parses the embedded CRDs.
func definitions() ([]definition, error) {
	var out []definition
	for _, text := range crds.All() {
		d := definition{text: string(text)}
		if err := yaml.Unmarshal(text, &d.object); err != nil {
			return nil, fmt.Errorf("parse embedded CRD: %w", err)
		}
		d.name, _ = lookup(d.object, "metadata", "name").(string)
		if d.name == "" {
			return nil, fmt.Errorf("parse embedded CRD: it has no name")
		}
		out = append(out, d)
	}
	return out, nil
}

func newCRDs() *cobra.Command {
	return group(&cobra.Command{
		Use:   "crds",
		Short: "Print, install or compare the custom resource definitions",
		Long: `The custom resource definitions of this version of skiff. Install them before 'skiff run'; installing
them needs more permissions than running skiff.`,
	}, newCRDsPrint(), newCRDsInstall(), newCRDsDiff())
}

func newCRDsPrint() *cobra.Command {
	return &cobra.Command{
		Use:     "print",
		Short:   "Print the definitions as YAML",
		Example: `  skiff crds print | kubectl apply --server-side -f -`,
		Args:    NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := definitions()
			if err != nil {
				return err
			}
			for _, d := range all {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "---\n%s", d.text); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newCRDsDiff() *cobra.Command {
	var connection kubeconfig.Flags
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what 'skiff crds install' would change",
		Long: `Asks the server what 'skiff crds install' would change (a dry run) and prints the fields, one a line.
'skiff crds print | kubectl diff --server-side -f -' shows their values, too.
Exit codes: 0 nothing would change, 3 something would, 1 failed, 2 wrong usage.`,
		Example: `  skiff crds diff || skiff crds install`,
		Args:    NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, _, err := connect(connection, warnTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer client.Close()
			return diffCRDs(cmd.Context(), client, cmd.OutOrStdout())
		},
	}
	addConnectionFlags(cmd, &connection)
	return cmd
}

// diffCRDs prints what InstallCRDs would change, and returns errDiffer if it would change something.
func diffCRDs(ctx context.Context, c *kube.Client, out io.Writer) error {
	all, err := definitions()
	if err != nil {
		return err
	}
	result := error(nil)
	for _, d := range all {
		if err := keepsStored(ctx, c, d); err != nil {
			return fmt.Errorf("skiff crds install would refuse CRD %s: %w", d.name, err)
		}
		text, err := diffCRD(ctx, c, d)
		if err != nil {
			return fmt.Errorf("compare CRD: %w", err)
		}
		if text == "" {
			continue
		}
		result = errDiffer
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return result
}

// diffCRD returns what installing a definition would change, "" for nothing.
func diffCRD(ctx context.Context, c *kube.Client, d definition) (string, error) {
	key := kube.Key{Name: d.name}
	var live, planned map[string]any
	if err := c.Get(ctx, crdResource, key, &live); kube.IsNotFound(err) {
		return d.name + " is not installed; `skiff crds install` creates it, `skiff crds print` shows it\n", nil
	} else if err != nil {
		return "", err
	}
	o := kube.WriteOptions{FieldManager: FieldManager, Force: true, DryRun: true}
	if err := c.Patch(ctx, crdResource, key, kube.ApplyPatch, d.object, &planned, o); err != nil {
		return "", err
	}
	changed, more, err := check.Differences(planned, live)
	if err != nil {
		return "", err
	}
	removed, less, err := check.Differences(live, planned)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, path := range changed {
		fmt.Fprintf(&text, "%s: %s\n", d.name, path)
	}
	for _, path := range removed {
		if !slices.Contains(changed, path) {
			fmt.Fprintf(&text, "%s: %s (removed)\n", d.name, path)
		}
	}
	if more > len(changed) || less > len(removed) {
		fmt.Fprintf(&text, "%s: and more\n", d.name)
	}
	return text.String(), nil
}
