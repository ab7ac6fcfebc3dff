package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/nearest"
)

func newStop() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "stop NAME [--delete]",
		Short: "Stop a cluster of skiff-dev start, and keep or delete it",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := existing(cmd, args)
			if err != nil {
				return err
			}
			return b.stop(cmd, remove)
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "delete the cluster: its objects, kubeconfig and log")
	return cmd
}

// existing returns the cluster of the one argument, which has to exist.
func existing(cmd *cobra.Command, args []string) (background, error) {
	b, err := backgroundNamed(cmd, args)
	if err != nil {
		return b, err
	}
	all, err := backgrounds()
	if err != nil || slices.Contains(all, b) {
		return b, err
	}
	var names []string
	for _, other := range all {
		names = append(names, other.name)
	}
	next := nearest.Ask(b.name, names, "", "")
	if next == "" {
		next = "skiff-dev list shows those that there are"
	}
	return b, cli.Usagef("there is no cluster %s: %s", b.name, next)
}

// stop ends the process of a cluster, and takes back what start has put elsewhere.
func (b background) stop(cmd *cobra.Command, remove bool) error {
	running := locked(b.dir)
	if running {
		if err := b.end(cmd.Context()); err != nil {
			return err
		}
	}
	how, err := b.started()
	if err != nil && !remove {
		return err
	}
	if how.Kubeconfig != "" {
		if err := b.unmergeContext(cmd.ErrOrStderr(), how); err != nil {
			return err
		}
		before := how
		how.Kubeconfig, how.Created = "", false
		if err := b.remember(how, before); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s is stopped; skiff-dev start %s goes on with it, stop %s --delete deletes it\n", b.name,
		b.name, b.name)
	switch {
	case remove:
		if other, err := foreign(b.dir); err != nil || other != "" {
			return errors.Join(err, fmt.Errorf("%s is no cluster: it has other files, such as %q: remove it yourself",
				b.dir, other))
		}
		if err := os.RemoveAll(b.dir); err != nil {
			return fmt.Errorf("delete %s: %w", b.name, err)
		}
		text = b.name + " is deleted\n"
	case !running:
		text = b.name + " is not running\n"
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// end sends SIGTERM to the process that has locked the directory, and waits for the end of the lock.
func (b background) end(ctx context.Context) error {
	asked := false
	for deadline := time.After(stopPatience); locked(b.dir); {
		pid := lockedBy(b.dir)
		if pid > 0 && !asked {
			if err := terminate(pid); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("stop %s: process %d: %w", b.name, pid, err)
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop %s: interrupted; process %d was asked to end", b.name, pid)
		case <-deadline:
			return fmt.Errorf("stop %s: process %d is still running after %s: see %s; kill -9 %d loses the last "+
				"seconds", b.name, pid, stopPatience, b.file(logFile), pid)
		case <-time.After(lookInterval):
		}
	}
	return nil
}

func newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the clusters of skiff-dev start",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := backgrounds()
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "there are no clusters: skiff-dev start NAME makes one")
				return nil
			}
			rows := [][]string{{"NAME", "STATUS", "SERVER", "AGE"}}
			for _, b := range all {
				rows = append(rows, b.row(time.Now()))
			}
			_, err = io.WriteString(cmd.OutOrStdout(), columns(rows))
			return err
		},
	}
}

// row is the line of a cluster in the list.
func (b background) row(now time.Time) []string {
	status := "stopped"
	if locked(b.dir) {
		status = "running"
		if _, err := os.Stat(b.file(readyFile)); err != nil {
			status = "starting"
		}
	}
	var id identity
	text, err := kubeconfig.ReadFile(b.file(identityFile))
	if err != nil || json.Unmarshal(text, &id) != nil || id.Format != identityFormat {
		return []string{b.name, status, "unknown", "unknown"}
	}
	return []string{b.name, status, kube.Printable("https://"+id.Address, maxWords), age(now.Sub(id.Created))}
}

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(0, d)/time.Second)
}

// columns aligns rows of words.
func columns(rows [][]string) string {
	text, widths := "", make([]int, len(rows[0]))
	for _, row := range rows {
		for i, word := range row {
			widths[i] = max(widths[i], len(word))
		}
	}
	for _, row := range rows {
		line := ""
		for i, word := range row {
			line += fmt.Sprintf("%-*s   ", widths[i], word)
		}
		text += strings.TrimRight(line, " ") + "\n"
	}
	return text
}
