//go:build !unix

package process

import "os/exec"

// OwnGroup does nothing here: the end of cmd's context kills cmd alone, and WaitDelay leaves its children behind.
func OwnGroup(*exec.Cmd) {}

// Terminate kills a command that runs: there is no signal here that asks it to end.
func Terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Start starts a command. Wait has to follow.
func Start(cmd *exec.Cmd) error { return cmd.Start() }

// Wait waits for the end of a command that Start has started.
func Wait(cmd *exec.Cmd) error { return cmd.Wait() }

// EndAll does nothing here: a program that still runs ends with its own timeout.
func EndAll() {}
