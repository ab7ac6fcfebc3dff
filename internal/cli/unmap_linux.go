package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// maxMappings bounds /proc/self/smaps: a mapping has about 700 bytes there, and a Go program some forty of them.
const maxMappings = 4 << 20

// mapping is a range of addresses of the process.
type mapping struct {
	from, to uintptr
	file     string // device and inode
	readOnly bool
	own      bool // has pages that differ from the file's: breakpoints, uprobes, relocations
}

// unmapBinary takes the pages of the binary out of the address space. The kernel maps what is used again from the page
// cache, sixteen pages at a time: the start maps nine tenths of the binary, controllers at rest use half.
//
// It frees no memory by itself: the pages stay in the page cache, which the replicas of a node share, and which the
// kernel takes back when memory is short. What falls is the RSS, in which they count for each process.
func unmapBinary() error {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := readMappings(io.LimitReader(f, maxMappings))
	if err != nil {
		return fmt.Errorf("read the mappings of the process: %w", err)
	}
	here, _, _, _ := runtime.Caller(0)
	binary := ""
	for _, m := range all {
		if m.from <= here && here < m.to {
			binary = m.file
		}
	}
	if binary == "" {
		return errors.New("find the mapping of the binary: none has this code")
	}
	for _, m := range all {
		if m.file != binary || !m.readOnly || m.own {
			continue
		}
		_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
		if errno != 0 {
			return fmt.Errorf("unmap pages of the binary: %w", errno)
		}
	}
	return nil
}

// readMappings reads the form of proc_pid_smaps(5): for each mapping a line with its addresses, permissions, offset,
// device, inode and path, then a line for each measure.
func readMappings(r io.Reader) (all []mapping, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var m mapping
		var permissions, offset, device, inode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %s", &m.from, &m.to, &permissions, &offset, &device,
			&inode); n == 6 {
			m.file, m.readOnly = device+" "+inode, strings.HasPrefix(permissions, "r-")
			all = append(all, m)
			continue
		}
		measure := strings.Fields(lines.Text())
		if len(measure) > 1 && len(all) > 0 && (measure[0] == "Anonymous:" || measure[0] == "Swap:") &&
			measure[1] != "0" {
			all[len(all)-1].own = true
		}
	}
	return all, lines.Err()
}
