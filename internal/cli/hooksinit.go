package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/scaffold"
)

func newHooksInit() *cobra.Command {
	var lang, kind, group string
	cmd := &cobra.Command{
		Use:   "init DIRECTORY",
		Short: "Write the files that a new hook controller starts from",
		Long: `Writes a controller that works into a new directory: the definition of a custom resource (crd.yaml), the
controller and a hook that makes a Deployment and a Service of each object (hook/), an example (example/), a test
(test.sh, test/), a Dockerfile and a README. The hook is in the language of --lang. It overwrites nothing.`,
		Example: `  skiff hooks init webshop --lang python
  skiff-dev hooks webshop`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return Usagef("want the DIRECTORY of the new controller, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			language := scaffold.Language(lang)
			if language == "" {
				return Usagef("--lang %q: name the language of the hook: %s", lang,
					Instead(lang, scaffold.Languages()))
			}
			names, err := scaffold.NamesOf(args[0], kind, group)
			if err != nil {
				return Usagef("--%w", err)
			}
			files, err := scaffold.Write(args[0], language, names)
			if err != nil {
				return err
			}
			for _, name := range files {
				fmt.Fprintf(cmd.OutOrStdout(), "%s/%s\n", strings.TrimSuffix(args[0], "/"), name)
			}
			if strings.HasPrefix(strings.ToLower(lang), "t") {
				fmt.Fprintln(cmd.OutOrStdout(), "\nThe hook is JavaScript. For TypeScript rename it to hook.mts, "+
					"also in hook/controller.yaml: Node 22.18 and later run it as it is.")
			}
			fmt.Fprintf(cmd.OutOrStdout(), "\nTry it on a cluster of this machine:\n\n  skiff-dev hooks %s\n", args[0])
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&lang, "lang", "", "`language` of the hook: "+strings.Join(scaffold.Languages(), ", ")+
		" (js, ts, bash and python3 are understood, too)")
	fs.StringVar(&kind, "kind", "", "`kind` of the custom resource (default: the name of the directory, as WebShop)")
	fs.StringVar(&group, "group", "example.com", "API `group` of the custom resource, a domain of yours")
	return cmd
}
