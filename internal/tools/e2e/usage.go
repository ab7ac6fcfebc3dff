package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

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
