package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"skiff/internal/runtime/process"
)

// protectedVariable has this test's binary protect itself, run a program, and print what that sees.
const protectedVariable = "SKIFF_TEST_PROTECTED"

func TestMain(m *testing.M) {
	if os.Getenv(protectedVariable) == "" {
		os.Exit(m.Run())
	}
	if err := process.Protect(); err != nil {
		fmt.Println(err)
	}
	dumpable, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_GET_DUMPABLE, 0, 0)
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c",
		`cat <&3 2>/dev/null; for f in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$f ] && echo $f; done; exit 0`)
	process.OwnGroup(cmd)
	out, err := cmd.Output()
	fmt.Println("dumpable", dumpable, strings.Fields(string(out)), err)
}

func TestAProgramInheritsNoDescriptorAndMayNotReadTheMemoryOfSkiff(t *testing.T) {
	secret, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	if _, err := secret.WriteString("hush"); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), protectedVariable+"=1")
	cmd.ExtraFiles = []*os.File{secret}
	out, err := cmd.CombinedOutput()
	if want := "dumpable 0 [0 1 2] <nil>\n"; err != nil || string(out) != want {
		t.Errorf("%v, %s, want %s", err, out, want)
	}
}

func TestAProgramRunsAsAnotherUserWhereThatIsAllowed(t *testing.T) {
	for text, want := range map[string]process.ID{"65534": {UID: 65534, GID: 65534},
		"1000:2000": {UID: 1000, GID: 2000},
		"":          {}, "0": {}, "1:0": {}, "root": {}, "1:": {}, "-1": {}, "4294967296": {}} {
		if id, err := process.ParseID(text); id != want || (err == nil) != (want.UID != 0) {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
	id := process.ID{UID: 65534, GID: 65533}
	if id.Check() != nil {
		t.Skip("this process may not change its user: ", id.Check())
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "id -u; id -g; id -G")
	process.OwnGroup(cmd)
	process.RunAs(cmd, id)
	cmd.Dir = "/"
	if out, err := cmd.Output(); err != nil || string(out) != "65534\n65533\n65533\n" {
		t.Errorf("%v, %q", err, out)
	}
}
