//go:build !unix

package kubeconfig

import "os/exec"

// killGroup does nothing here: the end of cmd's context kills cmd alone, and WaitDelay leaves its children behind.
func killGroup(*exec.Cmd) {}

// endGroup does nothing here.
func endGroup(*exec.Cmd) {}

func runGroup(cmd *exec.Cmd) error { return cmd.Run() }

// EndPlugins does nothing here: a plugin that still runs ends with its own timeout.
func EndPlugins() {}
