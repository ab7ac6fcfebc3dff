//go:build !race

package kube

import (
	"syscall"
	"unsafe"
)

// quietRead is read(2) into p, which is not empty, without a word to the runtime.
func quietRead(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}
