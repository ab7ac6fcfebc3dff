package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary the skiff-dev binary where a test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("SKIFF_TEST_RUN_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// command prepares a skiff-dev process.
func command(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	// The process is killed when the test takes too long, so that nothing is left behind.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	// The race detector otherwise waits a second at the end of each process.
	cmd.Env = []string{"SKIFF_TEST_RUN_MAIN=1", "GORACE=atexit_sleep_ms=0", "HOME=" + t.TempDir(),
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	return cmd
}

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		out  string // of stdout and stderr
	}{
		{"version", 0, "skiff-dev "},
		{"--help", 0, "This build does not evaluate CEL"},
		{"--bare -- sh -c true", 0, ""},
		{"--bare -- false", 1, ""},
		{"--nope", 2, "skiff-dev: unknown flag: --nope\nrun 'skiff-dev --help'\n"},
		{"dmeo", 2, `skiff-dev: unknown command "dmeo" for skiff-dev: did you mean demo?`},
	} {
		cmd := command(t, os.Args[0], strings.Fields(tt.args)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.out) {
			t.Errorf("skiff-dev %s: exit code %d, output %q; want %d, %q", tt.args, code, out, tt.code, tt.out)
		}
	}
}

func TestALinkOfTheAssetsIsTheProgramOfItsName(t *testing.T) {
	assets := t.TempDir()
	if out, err := command(t, os.Args[0], "assets", assets).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := command(t, filepath.Join(assets, "etcd"), "--help").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "skiff-dev in place of etcd") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheCommandEndsWhenSkiffDevIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a command with its parent")
	}
	cmd := command(t, os.Args[0], "--bare", "--", "sh", "-c", "echo started; exec sleep 60")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "started" {
		t.Fatalf("the command did not start: %q", lines.Text())
	}
	began := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the end of the command, which has stdout open
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the command goes on for %s", took)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("skiff-dev was killed and exits with 0")
	}
}

func TestAClusterInTheBackgroundIsKeptUntilItIsDeleted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no flock")
	}
	home := t.TempDir()
	run := func(want string, args ...string) string {
		t.Helper()
		cmd := command(t, os.Args[0], args...)
		cmd.Env = append(cmd.Env, "HOME="+home)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("skiff-dev %s: %v: %s; want %s", args, err, out, want)
		}
		return string(out)
	}
	t.Cleanup(func() { // also after a failure
		cmd := command(t, os.Args[0], "stop", "lab", "--delete")
		cmd.Env = append(cmd.Env, "HOME="+home)
		_ = cmd.Run()
	})
	dir := filepath.Join(home, ".local", "state", "skiff-dev", "lab")
	run("export KUBECONFIG='"+filepath.Join(dir, "kubeconfig")+"'", "start", "lab", "--bare", "--merge-context")
	run("# lab is running already", "start", "lab")
	list := run("lab    running   https://127.0.0.1:", "list")
	config, err := os.ReadFile(filepath.Join(home, ".kube", "config"))
	if err != nil || strings.Count(string(config), "skiff-dev-lab") != 5 {
		t.Errorf("%s, %v", config, err)
	}
	run("lab is stopped", "stop", "lab")
	if _, err := os.Stat(filepath.Join(home, ".kube", "config")); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig that start made is still there: %v", err)
	}
	run("lab    stopped", "list")
	run("# lab is ready", "start", "lab") // with --bare, and on the same port
	if again := run("lab    running", "list"); strings.Fields(again)[6] != strings.Fields(list)[6] {
		t.Errorf("%s\nand before\n%s", again, list)
	}
	run("lab is deleted", "stop", "lab", "--delete")
	run("there are no clusters", "list")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestAClusterThatCannotStartSaysWhyAndLeavesNothingBehind(t *testing.T) {
	home := t.TempDir()
	cmd := command(t, os.Args[0], "start", "lab", "--crds", "none")
	cmd.Env = append(cmd.Env, "HOME="+home)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "none: no such file or directory") {
		t.Errorf("%v: %s", err, out)
	}
	if entries, _ := filepath.Glob(filepath.Join(home, ".local", "state", "skiff-dev", "*")); len(entries) > 0 {
		t.Error(entries)
	}
}
