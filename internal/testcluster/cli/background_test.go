package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
)

func TestTheNameOfAClusterIsChecked(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, args := range [][]string{{"start", "../x"}, {"start", "A"}, {"start", "-"}, {"start"}, {"start", "a", "b"},
		{"start", "a", "--", "ls"}, {"stop", "a/b"}, {"stop", ""}, {"stop", strings.Repeat("a", 51)}} {
		skiffDev(t, args...).Want(t, cli.ExitUsage, "skiff-dev "+args[0])
	}
	skiffDev(t, "start", "a", "--data", "b").Want(t, cli.ExitUsage, "--data: the cluster has a directory of its own")
	skiffDev(t, "start", "a", "--replicas", "0").Want(t, cli.ExitUsage, "--replicas 0")
	skiffDev(t, "list").Want(t, cli.ExitDone, "there are no clusters")
}

// A directory of a process that was killed has its process ID, which another process may have by now.
func TestAClusterRunsIfItsLockIsHeld(t *testing.T) {
	root := t.TempDir()
	t.Setenv("XDG_STATE_HOME", root)
	dir := filepath.Join(root, "skiff-dev", "lab")
	f, _ := startData(t, dir, "--bare")
	if out := skiffDev(t, "list").Stdout; !strings.Contains(out, "lab    starting   https://127.0.0.1:") {
		t.Error(out) // its ready file is elsewhere
	}
	f.Stop()
	for name, text := range map[string]string{lockFile: "1\n", readyFile: "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := skiffDev(t, "list").Stdout; !strings.Contains(out, "lab    stopped   https://127.0.0.1:") {
		t.Error(out)
	}
	if r := skiffDev(t, "stop", "lab"); r.Stdout != "lab is not running\n" {
		t.Error(r)
	}
	skiffDev(t, "stop", "lba").Want(t, cli.ExitUsage, "there is no cluster lba: did you mean lab?")
	skiffDev(t, "stop", "other").Want(t, cli.ExitUsage, "there is no cluster other: skiff-dev list shows")

	foreign := filepath.Join(root, "skiff-dev", "notes")
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "todo"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	skiffDev(t, "stop", "notes", "--delete").Want(t, cli.ExitFailed, `it has other files, such as "todo"`)
	skiffDev(t, "stop", "lab", "--delete").Want(t, cli.ExitDone)
	if entries, err := os.ReadDir(filepath.Join(root, "skiff-dev")); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestTheFlagsOfStartAreThoseOfItsProcess(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	cmd := newStart(nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		got = passedFlags(cmd)
		return nil
	}
	cmd.SetArgs([]string{"a", "--bare", "--crds", "x", "--crds", "/y,z", "--simulate", "gc,pods", "--audit-log=-",
		"--merge-context", "-v", "1"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	want := "--audit-log=- --bare=true --crds=" + here + "/x --crds=/y,z --simulate=gc,pods --verbosity=1"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

func TestAnAgeHasOneUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 90 * time.Second: "90s", 3 * time.Minute: "3m",
		5 * time.Hour: "5h", 50 * time.Hour: "2d"} {
		if got := age(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
