//go:build !linux

package cli

import "os/exec"

// endWithParent does nothing: only Linux ends a command with skiff when skiff is killed.
func endWithParent(*exec.Cmd) {}
