package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// stages reads the Dockerfile as BuildKit does, with its linter, whose warnings are errors here.
func stages(t *testing.T, dockerfile []byte) []instructions.Stage {
	t.Helper()
	file, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range file.Warnings {
		t.Errorf("Dockerfile: %s", w.Short)
	}
	lint := linter.New(&linter.Config{
		Warn: func(rule, about, _, text string, at []parser.Range) {
			t.Errorf("Dockerfile:%d: %s: %s (%s)", at[0].Start.Line, rule, text, about)
		}})
	all, _, err := instructions.Parse(file.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The Dockerfile passes BuildKit's parser and linter, and makes the image that `make image` makes.
func TestTheDockerfileMakesTheSameImage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	all := stages(t, text)
	last := all[len(all)-1]
	if last.BaseName != "scratch" {
		t.Errorf("the image is made from %s", last.BaseName)
	}
	args, labels := map[string]string{}, map[string]string{}
	var user string
	var entrypoint, files []string
	for _, command := range last.Commands {
		switch c := command.(type) {
		case *instructions.ArgCommand:
			for _, a := range c.Args {
				args[a.Key] = a.ValueString()
			}
		case *instructions.LabelCommand:
			for _, l := range c.Labels {
				labels[strings.Trim(l.Key, `"`)] = expand(t, l.Value, args)
			}
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			entrypoint = c.CmdLine
		case *instructions.CopyCommand:
			for _, f := range c.SourcePaths {
				files = append(files, c.DestPath+filepath.Base(f))
			}
		default:
			t.Errorf("%s: `make image` does no such thing", command.Name())
		}
	}
	if user != nobody || !slices.Equal(entrypoint, []string{"/skiff"}) {
		t.Errorf("user %s, entry point %q", user, entrypoint)
	}
	if want := (release{version: "dev"}).labels(); !maps.Equal(labels, want) {
		t.Errorf("labels %v, `make image` has %v", labels, want)
	}
	if want := []string{"/skiff", "/LICENSE", "/THIRD_PARTY_LICENSES"}; !slices.Equal(files, want) {
		t.Errorf("files %q, `make image` has %q", files, want)
	}
}

// expand replaces variables, all of which have to be declared.
func expand(t *testing.T, word string, args map[string]string) string {
	t.Helper()
	var env []string
	for name, value := range args {
		env = append(env, name+"="+value)
	}
	out, unknown, err := shell.NewLex('\\').ProcessWord(word, shell.EnvsFromSlice(env))
	if err != nil || len(unknown) > 0 {
		t.Errorf("%s: not declared: %v, %v", word, unknown, err)
	}
	return out
}
