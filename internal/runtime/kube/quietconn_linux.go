package kube

import (
	"io"
	"net"
	"os"
	"syscall"
)

// quietConn reads by system calls that the Go runtime is not told of. It is told of a call because that may block, and
// wakes its monitor, a thread that then looks every 20 µs whether it does: in a process that sleeps most of the time,
// the monitor took as much CPU as all else that an event of a watch costs (BenchmarkWatch in package controller).
// These calls cannot block: the socket is in non-blocking mode, and the runtime's poller waits for data.
type quietConn struct {
	net.Conn
	raw  syscall.RawConn
	read func(fd uintptr) (done bool) // try, made once

	// Of the call of Read under way: net/http has one at a time, as crypto/tls has.
	p     []byte
	n     int
	errno syscall.Errno
}

// quiet returns c with quiet reads if it is a TCP connection.
func quiet(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c // reading will say so
	}
	q := &quietConn{Conn: c, raw: raw}
	q.read = q.try
	return q
}

func (c *quietConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.p = p
	err := c.raw.Read(c.read) // heeds the deadline, and Close
	c.p = nil
	switch {
	case err != nil:
		return 0, err
	case c.errno != 0:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(),
			Err: os.NewSyscallError("read", c.errno)}
	case c.n == 0:
		return 0, io.EOF
	}
	return c.n, nil
}

// try reads what has arrived. It reports false if that is nothing.
func (c *quietConn) try(fd uintptr) bool {
	for {
		n, errno := quietRead(fd, c.p)
		if errno == syscall.EINTR {
			continue
		}
		c.n, c.errno = n, errno
		return errno != syscall.EAGAIN
	}
}
