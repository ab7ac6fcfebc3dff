package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileWithoutAnEndIsRefused(t *testing.T) {
	const endless = "/dev/zero"
	empty := filepath.Join(t.TempDir(), "tls.crt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, faults := readFaults(endless)
	_, pool := readPool(endless)
	_, key := readKey(endless)
	_, _, cert := devOptions{certFile: endless, keyFile: endless}.certificate()
	_, _, certKey := devOptions{certFile: empty, keyFile: endless}.certificate()
	for name, err := range map[string]error{"faults": faults, "authorities": pool,
		"signing key": key, "certificate": cert, "key of the certificate": certKey} {
		if err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
