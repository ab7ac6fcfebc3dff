//go:build !linux && !darwin

package cli

import "os"

// terminalWidth returns how wide a terminal is; 0: that is not known.
func terminalWidth(*os.File) int { return 0 }
