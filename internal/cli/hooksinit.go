package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/scaffold"
)

func newHooksInit() *cobra.Command {
	var lang, kind, group string
	cmd := &cobra.Command{
		Use:   "init DIRECTORY",
		Short: "Write the files that a new hook controller starts from",
		Long: `Writes a controller that works into a new directory: the definition of a custom resource, the
controller, a hook that makes a Deployment and a Service of each object, an example, a test, a Dockerfile and a README.
The hook is in the language of --lang. It overwrites nothing.`,
		Example: `  skiff hooks init webshop --lang python
  skiff-dev --crds webshop -- skiff hooks run -f webshop`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return Usagef("want the DIRECTORY of the new controller, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if known := scaffold.Languages(); !slices.Contains(known, lang) {
				return Usagef("--lang %q: name the language of the hook, one of %s", lang, strings.Join(known, ", "))
			}
			names, err := scaffold.NamesOf(args[0], kind, group)
			if err != nil {
				return Usagef("--%w", err)
			}
			files, err := scaffold.Write(args[0], lang, names)
			if err != nil {
				return err
			}
			for _, name := range files {
				fmt.Fprintf(cmd.OutOrStdout(), "%s/%s\n", strings.TrimSuffix(args[0], "/"), name)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&lang, "lang", "", "`language` of the hook: "+strings.Join(scaffold.Languages(), ", "))
	fs.StringVar(&kind, "kind", "", "`kind` of the custom resource (default: the name of the directory, as WebShop)")
	fs.StringVar(&group, "group", "example.com", "API `group` of the custom resource, a domain of yours")
	return cmd
}
