//go:build !linux

package kube

import "syscall"

// limitSilence does nothing where there is no TCP_USER_TIMEOUT: what is sent and not acknowledged times out after the
// kernel's retries.
func limitSilence(string, string, syscall.RawConn) error { return nil }
