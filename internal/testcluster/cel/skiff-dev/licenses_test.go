package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write THIRD_PARTY_LICENSES anew, from the sources of the modules")

const licensesFile = "THIRD_PARTY_LICENSES"

// legal matches the names of the files that have to go along with a program.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)`)

// modules returns the directories of the modules that are linked into skiff-dev on one of the platforms of a release.
func modules(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
			"{{with .Module}}{{.Path}} {{.Dir}}{{end}}", ".")
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system)
		text, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		for line := range strings.Lines(string(text)) {
			path, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
			if ok && path != "skiff" && !strings.HasPrefix(path, "skiff/") {
				out[path] = dir
			}
		}
	}
	return out
}

// texts returns the license of a module with its notices.
func texts(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !legal.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Trim(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"))
	}
	if len(all) == 0 {
		t.Fatalf("%s has no license", dir)
	}
	return strings.Join(all, "\n\n")
}

// A license that several modules have stands there once, after the names of all of them.
func TestTheLicensesOfAllModulesGoAlongWithSkiffDev(t *testing.T) {
	names := map[string][]string{} // by text
	for path, dir := range modules(t) {
		text := texts(t, dir)
		names[text] = append(names[text], path)
	}
	const goLibrary = "the Go standard library"
	skiffs, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "cmd", "skiff", licensesFile))
	_, standard, found := strings.Cut(string(skiffs), "\n== "+goLibrary+"\n")
	if err != nil || !found {
		t.Fatalf("the license of Go is not at the end of that file of skiff: %v", err)
	}
	standard = strings.Trim(standard, "\n")
	names[standard] = append(names[standard], goLibrary)
	var parts []string
	for text, of := range names {
		slices.Sort(of)
		parts = append(parts, fmt.Sprintf("\n== %s\n\n%s\n", strings.Join(of, "\n== "), text))
	}
	slices.Sort(parts)
	want := "skiff-dev is made of the Go modules below, and of the Go standard library. Their licenses follow.\n" +
		strings.Join(parts, "")
	if *update {
		if err := os.WriteFile(licensesFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(licensesFile); err != nil || string(have) != want {
		t.Errorf("%s is not that of the modules (%v): run `go test . -update`", licensesFile, err)
	}
}
