package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kubeconfig"
)

// FieldManager is skiff's name in managedFields.
const FieldManager = "skiff"

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
			all, err := definitions.All()
			if err != nil {
				return err
			}
			for _, d := range all {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "---\n%s", d.Text); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newCRDsInstall() *cobra.Command {
	var connection kubeconfig.Flags
	timeout := 30 * time.Second // even a busy server serves a new CRD within a few seconds
	wait := false
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install or update the definitions in a cluster",
		Long: `Applies the definitions (server-side apply, field manager skiff) and waits until the server serves
them. Changes by others are overwritten only in fields that this version sets differently. Running it again changes
nothing. A definition that has objects stored in a version which this skiff does not know is refused. One that is
being deleted cannot be installed: it is named with what holds it, or waited for with --wait.
Exit codes: 0 installed, 3 a definition is being deleted, 1 failed, 2 wrong usage.`,
		Example: `  skiff crds install
  skiff crds install --wait --timeout 5m      # after a deletion that has not ended
  skiff crds install --context prod --as admin`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return Usagef("--timeout %s: must be more than 0", timeout)
			}
			client, _, err := connect(connection, warnTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer client.Close()
			o := definitions.Options{Timeout: timeout, Wait: wait}
			err = definitions.Install(cmd.Context(), client, o, cmd.OutOrStdout())
			if errors.Is(err, definitions.ErrDeleting) {
				fmt.Fprintln(cmd.OutOrStdout(),
					"when these are gone, run `skiff crds install` again, or wait: skiff crds install --wait")
				return errDiffer
			}
			return err
		},
	}
	addConnectionFlags(cmd, &connection)
	cmd.Flags().BoolVar(&wait, "wait", wait, "wait for definitions that are being deleted to go, then install them")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout,
		"how long to wait until the server serves the definitions; with --wait, also for the end of deletions")
	return cmd
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
			differences, err := definitions.Diff(cmd.Context(), client)
			if err == nil {
				_, err = io.WriteString(cmd.OutOrStdout(), differenceText(differences))
			}
			if err == nil && len(differences) > 0 {
				err = errDiffer
			}
			return err
		},
	}
	addConnectionFlags(cmd, &connection)
	return cmd
}

// differenceText has a line for each field that installing the definitions would change.
func differenceText(differences []definitions.Difference) string {
	var text strings.Builder
	for _, d := range differences {
		if d.Missing {
			text.WriteString(d.Name + " is not installed; `skiff crds install` creates it, `skiff crds print` shows " +
				"it\n")
		}
		for _, path := range d.Changed {
			fmt.Fprintf(&text, "%s: %s\n", d.Name, path)
		}
		for _, path := range d.Removed {
			fmt.Fprintf(&text, "%s: %s (removed)\n", d.Name, path)
		}
		if d.Truncated {
			fmt.Fprintf(&text, "%s: and more\n", d.Name)
		}
	}
	return text.String()
}
