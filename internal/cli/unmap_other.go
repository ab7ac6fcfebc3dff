//go:build !linux

package cli

// unmapBinary does nothing: elsewhere it is not needed, or not known how.
func unmapBinary() error { return nil }
