package kube

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall does not name.
const tcpUserTimeout = 18

// limitSilence makes the kernel give up on a connection if sent data is not acknowledged within deadAfter. The
// kernel's keepalive probes only connections without data in flight.
func limitSilence(_, _ string, c syscall.RawConn) error {
	var err error
	set := func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(deadAfter.Milliseconds()))
	}
	if controlErr := c.Control(set); controlErr != nil {
		return controlErr
	}
	return err
}
