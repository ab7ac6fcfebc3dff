package metrics

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
)

var (
	processCPU = &Family{"process_cpu_seconds_total", CounterKind, "CPU time of the process, user and system."}
	processFDs = &Family{"process_open_fds", GaugeKind, "Number of open file descriptors."}
	processMax = &Family{"process_max_fds", GaugeKind, "How many file descriptors may be open."}
	processVM  = &Family{"process_virtual_memory_bytes", GaugeKind, "Virtual memory of the process."}
	processRSS = &Family{"process_resident_memory_bytes", GaugeKind, "Resident memory of the process."}
	processAt  = &Family{"process_start_time_seconds", GaugeKind, "When the process started, in seconds since 1970."}
)

// ticks is USER_HZ, the unit of times in /proc: 100 on each architecture that Go runs on.
const ticks = 100

// maxProcFile bounds a file of /proc: those below have a few hundred bytes, /proc/stat a few KiB for each CPU.
const maxProcFile = 1 << 20

// Process adds the families of the process, from /proc. Where that is not there, as on macOS and Windows, or not as it
// should be, they are left out.
func Process(p *Page) {
	// Fields are counted from 3 after the name of the program, which may contain anything (proc_pid_stat(5)).
	stat := procFile("/proc/self/stat")
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return
	}
	field := func(n int) float64 { return parsed(string(fields[n-3])) }
	p.Add(processCPU, (field(14)+field(15))/ticks)
	p.Add(processVM, field(23))
	p.Add(processRSS, field(24)*float64(os.Getpagesize()))
	if boot, ok := lineOf("/proc/stat", "btime"); ok {
		p.Add(processAt, parsed(boot)+field(22)/ticks)
	}
	if limit, ok := lineOf("/proc/self/limits", "Max open files"); ok {
		if soft, _, _ := strings.Cut(limit, " "); soft != "unlimited" {
			p.Add(processMax, parsed(soft))
		}
	}
	if dir, err := os.Open("/proc/self/fd"); err == nil {
		if names, err := dir.Readdirnames(-1); err == nil {
			p.Add(processFDs, float64(len(names)-1)) // without dir
		}
		_ = dir.Close() // it was only read
	}
}

// lineOf returns what follows a word at the beginning of a line of a file.
func lineOf(file, word string) (string, bool) {
	for line := range strings.Lines(string(procFile(file))) {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// procFile returns the content of a file, nothing if it cannot be read.
func procFile(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	if err != nil {
		return nil
	}
	return text
}

// parsed is a number of /proc, 0 for what is none.
func parsed(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return v
}
