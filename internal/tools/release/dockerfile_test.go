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

// The Dockerfile passes BuildKit's parser and linter, and makes the images that `make image` makes: skiff where no
// target is named.
func TestTheDockerfileMakesTheSameImages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	all := stages(t, text)
	if last := all[len(all)-1].Name; last != "skiff" {
		t.Errorf("without a target, the image is %s", last)
	}
	for _, p := range programs {
		i := slices.IndexFunc(all, func(s instructions.Stage) bool { return s.Name == p.name })
		if i < 0 {
			t.Fatalf("there is no target %s", p.name)
		}
		makesTheImage(t, all[i], p)
	}
}

// makesTheImage compares a stage with the image of a program.
func makesTheImage(t *testing.T, stage instructions.Stage, p program) {
	t.Helper()
	if stage.BaseName != "scratch" {
		t.Errorf("%s: the image is made from %s", p.name, stage.BaseName)
	}
	args, labels := map[string]string{}, map[string]string{}
	var user string
	var entrypoint, files, env []string
	for _, command := range stage.Commands {
		switch c := command.(type) {
		case *instructions.ArgCommand:
			for _, a := range c.Args {
				args[a.Key] = a.ValueString()
			}
		case *instructions.LabelCommand:
			for _, l := range c.Labels {
				labels[strings.Trim(l.Key, `"`)] = expand(t, l.Value, args)
			}
		case *instructions.EnvCommand:
			for _, e := range c.Env {
				env = append(env, e.String())
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
			t.Errorf("%s: %s: `make image` does no such thing", p.name, command.Name())
		}
	}
	if user != imageUser || !slices.Equal(entrypoint, []string{"/" + p.name}) {
		t.Errorf("%s: user %s, entry point %q", p.name, user, entrypoint)
	}
	if want := (release{version: "dev"}).labels(p); !maps.Equal(labels, want) {
		t.Errorf("%s: labels %v, `make image` has %v", p.name, labels, want)
	}
	wantFiles, wantEnv := []string{"/" + p.name, "/LICENSE", "/THIRD_PARTY_LICENSES"}, []string(nil)
	if p.temporary { // /rootfs has nothing but the directory tmp
		wantFiles, wantEnv = append(wantFiles, "/rootfs"), []string{"HOME=/tmp"}
	}
	if !slices.Equal(files, wantFiles) || !slices.Equal(env, wantEnv) {
		t.Errorf("%s: files %q, environment %q; `make image` has %q, %q", p.name, files, env, wantFiles, wantEnv)
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
