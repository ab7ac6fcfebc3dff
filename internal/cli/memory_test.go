package cli

import (
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
)

// Rules: FI-16
func TestTheMemoryLimitOfTheControlGroupBecomesThatOfTheRuntimeUnlessGOMEMLIMITIsSet(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "1GiB")
	limitMemory(logr.Discard())
	if now := debug.SetMemoryLimit(-1); now != before {
		t.Errorf("GOMEMLIMIT is set, and the limit has changed from %d to %d", before, now)
	}
	t.Setenv("GOMEMLIMIT", "")
	want := before
	if limit, limited := cache.MemoryLimit(); limited {
		want = limit / 10 * 9
	}
	limitMemory(logr.Discard())
	if now := debug.SetMemoryLimit(-1); now != want {
		t.Errorf("the limit is %d, want %d", now, want)
	}
}

// Rules: MGR-19
func TestDebugPagesAreOffAndOnTheLoopbackAddressUnlessAHostIsGiven(t *testing.T) {
	for address, want := range map[string]string{"0": "0", "": "", ":6060": "localhost:6060",
		"10.0.0.1:6060": "10.0.0.1:6060"} {
		if got := loopback(address); got != want {
			t.Errorf("%q becomes %q, want %q", address, got, want)
		}
	}
	if flag := newRun().Flags().Lookup("pprof-bind-address"); flag.DefValue != "0" {
		t.Errorf("the default is %q", flag.DefValue)
	}
}
