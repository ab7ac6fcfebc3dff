package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"skiff/internal/kube"
)

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, commit := kube.Version()
			v := struct {
				Version   string `json:"version"`
				Commit    string `json:"commit"`
				GoVersion string `json:"goVersion"`
				Platform  string `json:"platform"`
			}{version, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			var err error
			switch output {
			case "":
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "skiff %s (commit %s, %s, %s)\n", v.Version, v.Commit, v.GoVersion, v.Platform)
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(v)
			default:
				return usagef("--output %q: want json, or leave it out", output)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`format`: json")
	return cmd
}
