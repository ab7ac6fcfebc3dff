package internal_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// `make fuzz` lets pass that Go fails a target at the end of its time, and nothing else. The logs are Go 1.26's.
func TestMakeFuzzTellsFindingsFromTheEndOfTheTime(t *testing.T) {
	const progress = "fuzz: elapsed: 3s, execs: 900 (300/sec), new interesting: 0 (total: 1)\n" +
		"fuzz: elapsed: 3s, execs: 900 (0/sec), new interesting: 0 (total: 1)\n"
	const fail, end = "--- FAIL: FuzzX (3.08s)\n", "FAIL\nexit status 1\nFAIL\tskiff/internal/x\t3.2s\n"
	makefile, err := filepath.Abs(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		log    string
		passes bool // what go says
		want   bool
	}{
		"all is well":         {progress + "PASS\nok  \tskiff/internal/x\t3.2s\n", true, true},
		"the end of the time": {progress + fail + "    context deadline exceeded\n" + end, false, true},
		"a finding": {progress + fail + "    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: no\n    \n" +
			"    Failing input written to testdata/fuzz/FuzzX/02f97e34d4d3d707\n" + end, false, false},
		"a finding with the same text, at the end of the time": {progress + fail + "    context deadline exceeded\n" +
			"    Failing input written to testdata/fuzz/FuzzX/02f97e34d4d3d707\n" + end, false, false},
		"a seed that fails with the same text": {"failure while testing seed corpus entry: FuzzX/seed#0\n" + progress +
			fail + "    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: context deadline exceeded\n    \n" + end,
			false, false},
		"a build that fails": {"x_test.go:9: undefined: y\nFAIL\tskiff/internal/x [build failed]\n", false, false},
		"an input that runs for ever": {"fuzz: elapsed: 3s, execs: 1 (0/sec), new interesting: 0 (total: 1)\n" +
			"fuzz: elapsed: 6s, execs: 1 (0/sec), new interesting: 0 (total: 1)\n" +
			"fuzz: elapsed: 9s, execs: 1 (0/sec), new interesting: 0 (total: 1)\n" +
			"fuzz: elapsed: 9s, execs: 1 (0/sec), new interesting: 0 (total: 1)\nPASS\nok  \tskiff/internal/x\t9s\n",
			true, false},
		"a corpus that takes all of the time": {"fuzz: elapsed: 2s, gathering baseline coverage: 339/460 completed\n" +
			"PASS\nok  \tskiff/internal/x\t2s\n", true, true},
		"a seed that runs for ever": {"fuzz: elapsed: 3s, gathering baseline coverage: 0/1 completed\n" +
			"PASS\nok  \tskiff/internal/x\t3s\n", true, false},
	} {
		dir := t.TempDir()
		fake, tests := filepath.Join(dir, "go"), filepath.Join(dir, "internal", "x")
		script := "#!/bin/sh\n[ \"$1\" = test ] || exit 0\ncat <<'END'\n" + test.log + "END\n"
		if !test.passes {
			script += "exit 1\n"
		}
		err := errors.Join(os.MkdirAll(tests, 0o755), os.WriteFile(fake, []byte(script), 0o755),
			os.WriteFile(filepath.Join(tests, "x_test.go"), []byte("func FuzzX(f *testing.F) {"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "make", "-f", makefile, "fuzz", "GO="+fake)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); (err == nil) != test.want {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
