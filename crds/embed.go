// Package crds holds the custom resource definitions, embedded so that `skiff crds` and the embedded API server need
// no files. The YAML files beside this one are the originals, good for `kubectl apply -f` as they are.
//
// It is data: it parses nothing, has no state and is on no event path; any goroutine may read it.
package crds

import (
	"embed"
	"fmt"
)

//go:embed *.yaml
var files embed.FS

// All returns the text of each definition, one YAML document with its comments, in the order of the file names. The
// caller may change what it gets.
func All() [][]byte {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("crds: read the embedded directory: %v", err)) // it is part of the binary
	}
	var out [][]byte
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			panic(fmt.Sprintf("crds: read embedded %s: %v", e.Name(), err))
		}
		out = append(out, text)
	}
	return out
}
