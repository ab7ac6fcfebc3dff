package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// newCopy makes the command of the init container of `skiff hooks manifests --runtime`: the image of skiff has no cp.
func newCopy() *cobra.Command {
	return &cobra.Command{
		Use:    "copy FILE",
		Hidden: true,
		Short:  "Copy this program to a file, for a container of another image",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return Usagef("copy: want the FILE to write, and nothing else")
			}
			if err := copyProgram(args[0]); err != nil {
				return fmt.Errorf("copy this program: %w", err)
			}
			return nil
		},
	}
}

// copyProgram makes the copy under another name first: a container that starts again must not meet half of one.
func copyProgram(to string) (err error) {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(own)
	if err != nil {
		return err
	}
	defer from.Close() // nothing was written
	copied, err := os.CreateTemp(filepath.Dir(to), ".skiff-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, from)
	err = errors.Join(err, copied.Chmod(0o755), copied.Close())
	if err == nil {
		err = os.Rename(copied.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(copied.Name()))
	}
	return nil
}
