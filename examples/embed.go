// Package examples holds objects to start from, embedded so that `skiff-dev demo` shows exactly what a user can apply.
// The YAML files beside this one are the originals, good for `kubectl apply -f` as they are.
//
// It is data: it parses nothing, has no state and is on no event path; any goroutine may read it.
package examples

import (
	"embed"
	"fmt"
)

//go:embed *.yaml
var files embed.FS

// Text returns a file by its name, such as "redis.yaml": one or more YAML documents with their comments. It panics
// where there is no such file, which a test of the caller finds.
func Text(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("examples: %v", err))
	}
	return string(text)
}
