package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
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

// hooksFlag is --hooks: whether a command is about the definitions of hook controllers.
type hooksFlag bool

func (f *hooksFlag) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar((*bool)(f), "hooks", false,
		"the definitions of hook controllers (group metacontroller.k8s.io), in place of skiff's own")
}

func (f hooksFlag) definitions() ([]definitions.Definition, error) {
	if f {
		return definitions.Hooks()
	}
	return definitions.All()
}

func newCRDsPrint() *cobra.Command {
	var hooks hooksFlag
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the definitions as YAML",
		Example: `  skiff crds print | kubectl apply --server-side -f -
  skiff crds print --hooks`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := hooks.definitions()
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
	hooks.add(cmd)
	return cmd
}

func newCRDsInstall() *cobra.Command {
	var connection kubeconfig.Flags
	var hooks hooksFlag
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
  skiff crds install --context prod --as admin
  skiff crds install --hooks                  # for skiff hooks run --from-cluster, and for rolling updates`,
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
			all, err := hooks.definitions()
			if err != nil {
				return err
			}
			o := definitions.Options{Timeout: timeout, Wait: wait}
			err = definitions.Install(cmd.Context(), client, all, o, cmd.OutOrStdout())
			if errors.Is(err, definitions.ErrDeleting) {
				fmt.Fprintln(cmd.OutOrStdout(),
					"when these are gone, run the same command again, or wait for it: add --wait")
				return errDiffer
			}
			return mayNotInstall(err, hooks)
		},
	}
	addConnectionFlags(cmd, &connection)
	hooks.add(cmd)
	cmd.Flags().BoolVar(&wait, "wait", wait, "wait for definitions that are being deleted to go, then install them")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout,
		"how long to wait until the server serves the definitions; with --wait, also for the end of deletions")
	return cmd
}

func newCRDsDiff() *cobra.Command {
	var connection kubeconfig.Flags
	var hooks hooksFlag
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
			all, err := hooks.definitions()
			if err != nil {
				return err
			}
			differences, err := definitions.Diff(cmd.Context(), client, all)
			if err == nil {
				_, err = io.WriteString(cmd.OutOrStdout(), differenceText(differences, hooks))
			}
			if err == nil && len(differences) > 0 {
				err = errDiffer
			}
			return err
		},
	}
	addConnectionFlags(cmd, &connection)
	hooks.add(cmd)
	return cmd
}

// differenceText has a line for each field that installing the definitions would change.
func differenceText(differences []definitions.Difference, hooks hooksFlag) string {
	var text strings.Builder
	flag := ""
	if hooks {
		flag = " --hooks"
	}
	for _, d := range differences {
		if d.Missing {
			fmt.Fprintf(&text, "%s is not installed; `skiff crds install%[2]s` creates it, `skiff crds print%[2]s` "+
				"shows it\n", d.Name, flag)
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

// mayNotInstall says who installs definitions where this user may not. Which right is missing says `skiff check`.
func mayNotInstall(err error, hooks hooksFlag) error {
	if !kube.IsForbidden(err) || kube.ForbiddenUser(err) == "" {
		return err
	}
	flag := ""
	if hooks {
		flag = " --hooks"
	}
	return fmt.Errorf("%s may not install definitions; an administrator runs: skiff crds install%[2]s (or: skiff "+
		"crds print%[2]s | kubectl apply --server-side -f -)", kube.ForbiddenUser(err), flag)
}
