package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// parts is how many processes share the tests, each with a control plane of its own. A test waits for its cluster most
// of the time, so several suites side by side take little longer than one of them.
var parts = flag.Int("parts", 1, "run the suite in so many processes side by side")

// lasting are the tests of a minute and more, in seconds on two cores. They are dealt out first, so that no part is
// left with two of them at the end. The figures need not be exact.
var lasting = map[string]int{
	"TestAWebServerWhoseDeploymentCannotBeSeenIsUnknown":   140, // it is said after two minutes
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
	"TestTheHooksOfOneTenantNeverCostAnother":              100,
	"TestTheRealControllersWorkOnSkiffDev":                 80,
}

// usual is what any other test takes, in seconds.
const usual = 10

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
	dealt := deal(selected, n)
	for i, names := range dealt {
		args := []string{"/bin/sh", "-c", `cd "$0" && exec "$@"`, here, os.Args[0]}
		flag.Visit(func(f *flag.Flag) { // those that were set
			args = append(args, "-"+f.Name+"="+f.Value.String())
		})
		args = append(args, "-parts=1", "-test.run=^("+strings.Join(names, "|")+")$") // the last one counts
		p, err := group.Start(dir, fmt.Sprintf("part-%d", i+1), nil, args...)
		if err != nil {
			return 0, err
		}
		go func() {
			<-p.Done()
			ended <- p
		}()
	}
	for range dealt {
		p := <-ended
		out, err := os.ReadFile(p.LogPath)
		if err != nil {
			return 0, fmt.Errorf("read what %s has printed: %w", p.Name, err)
		}
		fmt.Printf("e2e: %s of %d ended after %s with exit code %d\n%s", p.Name, len(dealt),
			time.Since(start).Round(time.Second), p.ExitCode(), out)
		code = max(code, p.ExitCode())
		if p.ExitCode() < 0 { // killed by a signal
			code = max(code, 1)
		}
	}
	return code, nil
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

// deal gives each test, the longest first, to the part that has least to do.
func deal(names []string, n int) [][]string {
	seconds := func(name string) int { return cmp.Or(lasting[name], usual) }
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return seconds(b) - seconds(a) })
	dealt, load := make([][]string, min(n, len(names))), make([]int, min(n, len(names)))
	for _, name := range names {
		i := slices.Index(load, slices.Min(load))
		dealt[i] = append(dealt[i], name)
		load[i] += seconds(name)
	}
	return dealt
}

func TestEachTestIsInOnePart(t *testing.T) {
	names := []string{"A", "B", "C", "D", "E"}
	for n := range 7 {
		if n == 0 {
			continue
		}
		all := slices.Concat(deal(names, n)...)
		slices.Sort(all)
		if !slices.Equal(all, names) {
			t.Errorf("%d parts have the tests %v", n, all)
		}
	}
}
