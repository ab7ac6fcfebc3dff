package process_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"skiff/internal/runtime/process"
)

func TestTheProcessThatListensOnAPortIsNamed(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Log(address, err) // a machine without IPv6
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		if got, want := process.Listener(port), fmt.Sprintf("pid %d ", os.Getpid()); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
		l.Close()
		if got := process.Listener(port); got != "" {
			t.Errorf("nobody listens any more: %q", got)
		}
	}
}
