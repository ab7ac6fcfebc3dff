package cel

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// What skiff-dev reads before main it reads at each start, also where no policy needs it: the schemas of all built-in
// kinds took 80 of 139 ms. What initialization allocates says the same as its time, and is the same on each machine.
func TestAStartReadsNoSchemas(t *testing.T) {
	again := exec.Command(os.Args[0], "-test.run=^$")
	again.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	line := regexp.MustCompile(`init skiff/internal/testcluster/cel @.*, (\d+) bytes`).FindSubmatch(out)
	if line == nil {
		t.Fatalf("no line about this package in %s", out)
	}
	const limit = 1 << 20 // it takes 0.2 MB with the types of admission alone, and 20 MB with all schemas
	if n, _ := strconv.Atoi(string(line[1])); n > limit {
		t.Errorf("%d bytes are allocated before main, more than %d", n, limit)
	}
}

// The linker leaves out the methods that nothing calls, unless one call of reflect may be of any method: then
// skiff-dev has 66 MB. Where such a call came in, `go build -ldflags=-dumpdep` prints it with the mark
// <ReflectMethod>.
func TestWhatNothingCallsIsNotInSkiffDev(t *testing.T) {
	program := filepath.Join(t.TempDir(), "skiff-dev")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "grpcnotrace", "-trimpath", "-ldflags", "-s -w",
		"-o", program, "./skiff-dev")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 55e6 // it has 50 MB
	if info.Size() > limit {
		t.Errorf("skiff-dev has %d bytes, more than %d", info.Size(), int(limit))
	}
}
