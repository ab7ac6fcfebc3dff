// Command release makes what a release consists of beside the binaries of skiff and skiff-dev: of each program a bill
// of materials and an image for several architectures, and the checksums of all. It is a module of its own, so that
// what it needs never reaches the product's go.mod. `make dist` and `make image` run it.
//
// The same binaries, version and time give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// program is one of the programs of a release.
type program struct {
	name, description string
	licenses          string // file with those of its modules
	temporary         bool   // it writes files, so its image has a /tmp, which is also its HOME
}

var programs = []program{
	{"skiff", "Write a Kubernetes controller as a script", "cmd/skiff/THIRD_PARTY_LICENSES", false},
	{"skiff-dev", "A Kubernetes test cluster in one process",
		"internal/testcluster/cel/skiff-dev/THIRD_PARTY_LICENSES", true},
}

// release is what is made of the files in a directory.
type release struct {
	dir       string    // has the binaries, PROGRAM-PLATFORM, and gets what is made
	platforms []string  // such as linux-amd64
	root      string    // of the repository, for the licenses
	version   string    // of both programs
	commit    string    // "": unknown
	time      time.Time // of the commit
}

// binary returns the path of the binary of a program for a platform.
func (r release) binary(p program, platform string) string {
	return filepath.Join(r.dir, p.name+"-"+platform)
}

const usage = "want `sbom`, `sums` or `image`, and flags"

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	var r release
	var seconds int64
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.StringVar(&r.dir, "dir", "dist", "directory of the binaries")
	fs.StringVar(&r.root, "root", ".", "root of the repository")
	platforms := fs.String("platforms", "", "platforms of the binaries, separated by spaces")
	fs.StringVar(&r.version, "version", "dev", "version of the programs")
	fs.StringVar(&r.commit, "commit", "", "commit that it is built from")
	fs.Int64Var(&seconds, "time", 0, "time of the commit, in seconds since 1970")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	r.time = time.Unix(seconds, 0).UTC()
	if r.platforms = strings.Fields(*platforms); len(r.platforms) == 0 {
		return errors.New("-platforms: name at least one, such as linux-amd64")
	}
	switch args[0] {
	case "sbom":
		return each(r.writeBOM)
	case "sums":
		return r.writeSums()
	case "image":
		return each(r.writeImage)
	}
	return errors.New(usage)
}

// each calls write for each program.
func each(write func(program) error) error {
	for _, p := range programs {
		if err := write(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}
