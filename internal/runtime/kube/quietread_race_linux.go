//go:build race

package kube

import "syscall"

// quietRead is not quiet here: the race detector has to see that what is read was written before.
func quietRead(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	errno, _ := err.(syscall.Errno)
	return n, errno
}
