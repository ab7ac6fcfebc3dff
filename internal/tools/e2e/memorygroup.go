package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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

// Usage is what a running program has used, as Linux counts it.
type Usage struct {
	RSS, Peak int64         // bytes of memory, now and at most so far
	Anonymous int64         // of RSS: without the pages of files, which processes share
	CPU       time.Duration // of all threads, user and system
}

// ticks is the unit of the times in /proc/PID/stat: a hundredth of a second on every architecture that Go knows.
const ticks = time.Second / 100

// Usage reads /proc. A program that has ended is an error.
func (p *Process) Usage() (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return u, fmt.Errorf("read the memory of %s: %w", p.Name, err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &u.RSS, "VmHWM": &u.Peak, "RssAnon": &u.Anonymous}[name]
		if into == nil {
			continue
		}
		kb, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the memory of %s: %w", p.Name, err)
		}
		*into = kb << 10
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, fmt.Errorf("read the CPU time of %s: %w", p.Name, err)
	}
	// The name of the program comes second, in parentheses, and may hold anything; utime and stime are the fields 14
	// and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[14-3 : 16-3] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the CPU time of %s: %w", p.Name, err)
		}
		u.CPU += time.Duration(n) * ticks
	}
	return u, nil
}
