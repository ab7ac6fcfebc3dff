package kubeconfig

import (
	"fmt"
	"io"
	"os"
)

// maxFile is the largest file that is read. A kubeconfig of a hundred clusters with their certificates has a few
// hundred KiB, a bundle of all public certificate authorities 300 KiB.
const maxFile = 4 << 20

// ReadFile is os.ReadFile for a path that a user gives, of at most 4 MiB: it may be a pipe, and it may have no end
// (/dev/zero).
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read %s: it is larger than %d MiB", path, maxFile>>20)
	}
	return data, nil
}
