package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"skiff/internal/runtime/kube"
)

// version describes this binary.
type version struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func versionNow() version {
	v, commit := kube.Version()
	return version{v, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// versionLine is what `version` and --version of a program print.
func versionLine(program string) string {
	v := versionNow()
	return fmt.Sprintf("%s %s (commit %s, %s, %s)", program, v.Version, v.Commit, v.GoVersion, v.Platform)
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			switch output {
			case "":
				_, err = fmt.Fprintln(cmd.OutOrStdout(), versionLine(cmd.Root().Name()))
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(versionNow())
			default:
				return Usagef("--output %q: want json, or omit the flag", output)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`format`: json")
	return cmd
}
