package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxProcesses bounds the processes that are looked at.
const maxProcesses = 10000

// Listener says which process of this machine listens on a TCP port, as "pid 23696 skiff-dev"; "" where /proc does not
// let this user see it.
func Listener(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		addListening(inodes, table, port)
	}
	if len(inodes) == 0 {
		return ""
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return ""
	}
	for _, e := range entries[:min(len(entries), maxProcesses)] {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !holds(pid, inodes) {
			continue
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			return fmt.Sprintf("pid %d", pid)
		}
		return fmt.Sprintf("pid %d %s", pid, bytes.TrimSpace(name))
	}
	return ""
}

// listening is the state of a socket that accepts connections, in /proc/net/tcp.
const listening = "0A"

// addListening adds the inodes of the sockets that listen on a port.
func addListening(inodes map[string]bool, table string, port int) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close() // was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) > 9 && words[3] == listening && strings.HasSuffix(words[1], fmt.Sprintf(":%04X", port)) {
			inodes["socket:["+words[9]+"]"] = true
		}
	}
}

// holds says whether a process has one of the sockets open.
func holds(pid int, inodes map[string]bool) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended, or belongs to another user
	}
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && inodes[target] {
			return true
		}
	}
	return false
}
