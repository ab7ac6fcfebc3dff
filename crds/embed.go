// Package crds holds the custom resource definitions, embedded so that `skiff crds` and the embedded API server need
// no files. The YAML files beside this one are the originals, good for `kubectl apply -f` as they are.
//
// It is data: it parses nothing, has no state and is on no event path; any goroutine may read it.
package crds

import (
	"embed"
	"fmt"
	"path"
)

//go:embed *.yaml hooks/*.yaml
var files embed.FS

// All returns the text of each of skiff's own definitions, one YAML document with its comments, in the order of the
// file names. The caller may change what it gets.
func All() [][]byte { return in(".") }

// Hooks returns those of hook controllers, which are metacontroller's, in the same way.
func Hooks() [][]byte { return in("hooks") }

func in(dir string) (out [][]byte) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(fmt.Sprintf("crds: read the embedded directory: %v", err)) // it is part of the binary
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := files.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			panic(fmt.Sprintf("crds: read embedded %s: %v", e.Name(), err))
		}
		out = append(out, text)
	}
	return out
}
