package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"skiff/internal/cli"
)

// The open of a pipe that nobody writes to does not return.
func TestAFileThatIsAPipeWithoutAWriterDoesNotHoldUpTheEnd(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { // ends the opens
		if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
			<-time.After(50 * time.Millisecond)
			f.Close()
		}
	}()
	for _, args := range [][]string{{"--bare", "--load", pipe}, {"--bare", "--crds", pipe},
		{"--bare", "--faults", pipe}, {"rehearse", "--from", pipe}} {
		f := skiffDevs.Follow(t, args...)
		select {
		case line := <-f.Lines:
			t.Errorf("%v: printed %q", args, line)
		case <-time.After(50 * time.Millisecond): // it is most likely in the open
		}
		if code := f.Stop(); code != cli.ExitDone && args[0] != "rehearse" {
			t.Errorf("%v: exit code %d: %s", args, code, f.Stderr)
		}
	}
}
