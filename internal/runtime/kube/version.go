package kube

import (
	"runtime"
	"runtime/debug"
)

// version and commit are stamped by the linker (see the Makefile). A binary made by plain `go build` or
// `go install` takes them from its build information.
var version, commit string

// Version returns the version of this build and the commit that it was made from, "devel" and "unknown"
// where the build does not know.
func Version() (string, string) {
	v, c := version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if c == "" && s.Key == "vcs.revision" {
				c = s.Value
			}
		}
	}
	if v == "" {
		v = "devel"
	}
	if c == "" {
		c = "unknown"
	}
	// Twelve digits identify a commit; forty make each request longer.
	return v, c[:min(len(c), 12)]
}

// UserAgent returns what skiff calls itself to a server: audit logs and API priority and fairness go by it.
func UserAgent() string {
	v, c := Version()
	return "skiff/" + v + " (" + runtime.GOOS + "/" + runtime.GOARCH + ") " + c
}
