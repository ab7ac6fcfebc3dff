// Command release makes what a release of skiff consists of beside the binaries: a bill of materials, checksums, and
// an image for several architectures. It is a module of its own, so that what it needs never reaches the product's
// go.mod. `make dist` and `make image` run it.
//
// The same binaries, version and time give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is made of the files in a directory.
type release struct {
	dir     string    // has the binaries, skiff-GOOS-GOARCH, and gets what is made
	root    string    // of the repository, for the licenses
	version string    // of skiff
	commit  string    // "": unknown
	time    time.Time // of the commit
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
	fs.StringVar(&r.version, "version", "dev", "version of skiff")
	fs.StringVar(&r.commit, "commit", "", "commit that it is built from")
	fs.Int64Var(&seconds, "time", 0, "time of the commit, in seconds since 1970")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	r.time = time.Unix(seconds, 0).UTC()
	switch args[0] {
	case "sbom":
		return r.writeBOM()
	case "sums":
		return r.writeSums()
	case "image":
		return r.writeImage()
	}
	return errors.New(usage)
}

// binaries returns the paths of the binaries, sorted.
func (r release) binaries() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(r.dir, "skiff-*-*"))
	all = slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, ".tar") })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("there are no binaries in %s", r.dir)
	}
	return all, err
}
