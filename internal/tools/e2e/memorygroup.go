package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryGroup is a control group with a memory limit: a process in it that takes more is ended by the kernel, as in a
// container.
type MemoryGroup struct {
	dir   string
	usage string // the file that says what it has taken at most
}

// NewMemoryGroup makes a control group, with the memory controller of version 1 or 2. The error says what this machine
// does not permit.
func NewMemoryGroup(name string, limit int64) (*MemoryGroup, error) {
	for _, v := range []struct{ root, limit, swap, usage string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.swappiness", "memory.max_usage_in_bytes"},
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.peak"},
	} {
		if _, err := os.Stat(filepath.Join(v.root, "cgroup.procs")); err != nil {
			continue
		}
		g := &MemoryGroup{dir: filepath.Join(v.root, name), usage: v.usage}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			return nil, fmt.Errorf("make a control group: %w", err)
		}
		if err := g.write(v.limit, strconv.FormatInt(limit, 10)); err != nil {
			return nil, errors.Join(err, g.Close())
		}
		_ = g.write(v.swap, "0") // a machine without swap has no such file
		return g, nil
	}
	return nil, errors.New("make a control group: no memory controller is mounted at /sys/fs/cgroup")
}

func (g *MemoryGroup) write(file, text string) error {
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o644); err != nil {
		return fmt.Errorf("limit a control group: %w", err)
	}
	return nil
}

// Command is argv as a shell runs it in the group.
func (g *MemoryGroup) Command(argv ...string) []string {
	return append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}, argv...)
}

// Peak is what the group has taken at most, with the pages of files that its processes have read.
func (g *MemoryGroup) Peak() (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.usage))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a control group: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Close removes the group, of which all processes have ended.
func (g *MemoryGroup) Close() error { return os.Remove(g.dir) }
