package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
)

// assetNames are the programs that envtest starts. Called by one of these names, skiff-dev does their work.
var assetNames = []string{"etcd", "kube-apiserver"}

// programArgs returns the arguments of a whole command line, whose first element is the name of the program: the links
// of `skiff-dev assets` become the hidden commands of their names.
func programArgs(argv []string) []string {
	if name := strings.TrimSuffix(filepath.Base(argv[0]), ".exe"); slices.Contains(assetNames, name) {
		args := []string{name}
		if version := versionOf(argv[0]); version != "" && name == "kube-apiserver" {
			args = append(args, "--kubernetes-version="+version)
		}
		return append(args, argv[1:]...)
	}
	return argv[1:]
}

func newAssets() *cobra.Command {
	return &cobra.Command{
		Use:   "assets DIR",
		Short: "Write etcd and kube-apiserver for envtest, as links to skiff-dev",
		Long: `Writes the programs that envtest starts, etcd and kube-apiserver, into a directory: links to this
binary, or copies where links cannot be made. With KUBEBUILDER_ASSETS set to the directory, test suites that use
envtest run on the embedded API server without a change.

They start a bare server, as envtest's do. In Go, what envtest lacks is simulated with
  env.ControlPlane.GetAPIServer().Configure().Append("simulate", "gc,namespaces")`,
		Example: `  skiff-dev assets bin/envtest
  KUBEBUILDER_ASSETS=$PWD/bin/envtest go test ./...`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("%s takes one directory", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("find the directory: %w", err)
			}
			if err := writeAssets(dir); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBEBUILDER_ASSETS='%s'\n", dir)
			return err
		},
	}
}

// writeAssets writes the links into a directory.
func writeAssets(dir string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find skiff-dev's own binary: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	for _, name := range assetNames {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(program, ".exe") {
			path += ".exe"
		}
		if err := link(program, path); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// link makes path a link to a program, or a copy of it where there are no links. It replaces links only: what else has
// this name may be a real etcd.
func link(program, path string) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink == 0:
		return errors.New("it exists and is not a link: remove it, or choose another directory")
	case err == nil:
		if err := os.Remove(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if os.Symlink(program, path) == nil || os.Link(program, path) == nil {
		return nil
	}
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
