package cel

import (
	"os"
	"os/exec"
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
