package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// parts is how many processes share the tests, each with a control plane of its own. A test waits for its cluster most
// of the time, so several suites side by side take little longer than one of them.
var parts = flag.Int("parts", 1, "run the suite in so many processes side by side")

// listFlag is the directory of the tests that the parts share.
var listFlag = flag.String("list", "", "run the tests of this list that no other part takes: see runParts")

// lasting are the tests of a minute and more, in seconds on two cores. They are taken first, so that no part is left
// with one of them at the end. The figures need not be exact: the suite prints those of now.
var lasting = map[string]int{
	"TestAWebServerWhoseDeploymentCannotBeSeenIsUnknown": 140, // it is said after two minutes
	"TestChaosConverges":                                   60,
	"TestEachMissingVerbIsNamed":                           60,
	"TestGeneratedFieldsAreSetAndChangedAsOnTheRealServer": 180,
	"TestHostileServersCostOnlyWhatTheyAttack":             80,
	"TestKubectlSaysTheSameOfSkiffDevAndOfARealCluster":    70,
	"TestKubectlSeesTheSameEndsOfObjectsOnSkiffDev":        100,
	"TestKubectlSeesTheSameWorkloadsOnSkiffDev":            280,
	"TestOneTenantNeverCostsAnother":                       160,
	"TestRedis":                                            60,
	"TestRedisPodsThatEndAtOnce":                           60,
	"TestRestartTrigger":                                   60,
	"TestWebServer":                                        130, // node ports that are not freed
}

// usual is what any other test takes, in seconds. A part tells how long a test took that has told or more.
const usual, told = 10, 45 * time.Second

// long skips a test that only `make nightly` runs: it takes minutes, and what it finds is seldom due to one change.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes: make nightly runs it")
	}
}

// runParts runs the selected tests in n processes, prints what each has printed once it ends, and returns the exit
// code of the whole.
func runParts(n int, dir string) (code int, err error) {
	selected, err := selectedTests()
	if err != nil {
		return 0, err
	}
	list, err := writeList(dir, selected)
	if err != nil {
		return 0, err
	}
	group, err := NewGroup() // so that no part outlives this process
	if err != nil {
		return 0, err
	}
	defer group.Close()
	here, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("find the directory of the tests: %w", err)
	}
	start := time.Now()
	ended := make(chan *Process)
	n = min(n, len(selected))
	for i := range n {
		args := []string{"/bin/sh", "-c", `cd "$0" && exec "$@"`, here, os.Args[0]}
		flag.Visit(func(f *flag.Flag) { // those that were set
			args = append(args, "-"+f.Name+"="+f.Value.String())
		})
		args = append(args, "-parts=1", "-list="+list) // the last one counts
		p, err := group.Start(dir, fmt.Sprintf("part-%d", i+1), nil, args...)
		if err != nil {
			return 0, err
		}
		go func() {
			<-p.Done()
			ended <- p
		}()
	}
	for range n {
		p := <-ended
		out, err := os.ReadFile(p.LogPath)
		if err != nil {
			return 0, fmt.Errorf("read what %s has printed: %w", p.Name, err)
		}
		fmt.Printf("e2e: %s of %d ended after %s with exit code %d\n%s", p.Name, n,
			time.Since(start).Round(time.Second), p.ExitCode(), passed.ReplaceAll(out, nil))
		code = max(code, p.ExitCode())
		if p.ExitCode() < 0 { // killed by a signal
			code = max(code, 1)
		}
	}
	return code, nil
}

// passed is printed after each test of a list.
var passed = regexp.MustCompile(`(?m)^PASS\n`)

// writeList writes the tests, the longest first, to a file in a directory of its own, and returns that directory. Each
// part takes the next test that no other has taken: so none is done long before the others.
func writeList(dir string, names []string) (list string, err error) {
	seconds := func(name string) int { return cmp.Or(lasting[name], usual) }
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return seconds(b) - seconds(a) })
	list = filepath.Join(dir, "list")
	if err := os.Mkdir(list, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of the list of tests: %w", err)
	}
	if err := os.WriteFile(filepath.Join(list, listFile), []byte(strings.Join(names, "\n")), 0o600); err != nil {
		return "", fmt.Errorf("write the list of tests: %w", err)
	}
	return list, nil
}

const listFile = "tests.txt"

// eachOfList calls run for each test of a list that no other process has taken. A process takes a test by making a
// directory of its name.
func eachOfList(list string, run func(name string)) error {
	names, err := os.ReadFile(filepath.Join(list, listFile))
	if err != nil {
		return fmt.Errorf("read the list of tests: %w", err)
	}
	for _, name := range strings.Fields(string(names)) {
		switch err := os.Mkdir(filepath.Join(list, name), 0o700); {
		case err == nil:
			run(name)
		case !errors.Is(err, fs.ErrExist):
			return fmt.Errorf("take a test of the list: %w", err)
		}
	}
	return nil
}

// runList runs the tests of the list that no other part takes, all on the suite's one control plane, and returns the
// exit code. All of them share the time of -timeout.
func runList(m *testing.M, list string) (code int, err error) {
	timeout, start := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration), time.Now()
	err = eachOfList(list, func(name string) {
		began := time.Now()
		if timeout > 0 {
			left := max(time.Second, timeout-began.Sub(start))
			_ = flag.Set("test.timeout", left.String()) // it can be parsed
		}
		_ = flag.Set("test.run", "^"+name+"$") // any text can be set
		code = max(code, m.Run())
		if took := time.Since(began); took >= told {
			fmt.Printf("e2e: %s took %s\n", name, took.Round(time.Second))
		}
	})
	return code, err
}

// selectedTests are the names of the tests that -run selects. A part of a test cannot be given to a process.
func selectedTests() ([]string, error) {
	pattern := flag.Lookup("test.run").Value.String()
	if strings.Contains(pattern, "/") {
		return nil, errors.New("-parts goes with whole tests: -run has a slash")
	}
	out, err := exec.Command(os.Args[0], "-test.list="+cmp.Or(pattern, ".")).Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}
	var names []string
	for line := range bytes.Lines(out) {
		if name := string(bytes.TrimSpace(line)); testName.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("-run %s selects no test", pattern)
	}
	return names, nil
}

var testName = regexp.MustCompile(`^Test\w*$`)

// A part leaves alone what another takes meanwhile, and those that last come first.
func TestEachTestIsTakenByOnePart(t *testing.T) {
	names := []string{"TestA", "TestB", "TestKubectlSeesTheSameWorkloadsOnSkiffDev", "TestC", "TestRedis"}
	list := must(writeList(t.TempDir(), names))(t)
	var taken []string
	noError(t, eachOfList(list, func(name string) {
		taken = append(taken, name)
		if len(taken) == 2 {
			noError(t, eachOfList(list, func(name string) { taken = append(taken, name) }))
		}
	}))
	want := []string{names[2], names[4], names[0], names[1], names[3]}
	if !slices.Equal(taken, want) {
		t.Errorf("taken %v, want %v", taken, want)
	}
}
