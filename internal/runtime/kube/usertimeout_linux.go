package kube

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall does not name.
const tcpUserTimeout = 18

// limitSilence makes the kernel give up on a connection on which what was sent is not acknowledged within deadAfter.
// Its keepalive probes only connections on which nothing is on its way.
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
