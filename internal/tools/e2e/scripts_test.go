package e2e

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// patchTypes are the types of a PATCH, by the words that stand for it in scripts.
var patchTypes = map[string]string{"MERGE": mergePatch, "STRATEGIC": strategicPatch, "JSONPATCH": jsonPatch,
	"APPLY": applyPatch}

// testdata reads an archive of testdata with its definitions, the sections $NAME, expanded. vars are others that it
// may use, besides those of shared.txtar.
func testdata(t testing.TB, file string, vars Vars) (comment string, sections []txtar.File, all Vars) {
	t.Helper()
	all = Vars{}
	for _, name := range []string{"shared.txtar", file} {
		archive := must(txtar.ParseFile(filepath.Join("testdata", name)))(t)
		comment, sections = string(archive.Comment), nil
		for _, f := range archive.Files {
			if name, ok := strings.CutPrefix(f.Name, "$"); ok {
				all[name] = all.expand(strings.TrimSuffix(string(f.Data), "\n"))
				continue
			}
			sections = append(sections, f)
		}
		if name == "shared.txtar" {
			maps.Copy(all, vars)
		}
	}
	return comment, sections, all
}

// readScript reads a script. README.md in testdata says how one is written.
func readScript(t testing.TB, file string, vars Vars) Script {
	t.Helper()
	comment, sections, vars := testdata(t, file, vars)
	name := strings.TrimSuffix(filepath.ToSlash(file), ".txtar")
	if _, below, ok := strings.Cut(name, "/"); ok {
		name = below
	}
	s := Script{Name: name, Alone: strings.Contains(comment, "\nAlone: ")}
	for _, f := range sections {
		step, err := parseStep(f.Name, strings.TrimSuffix(string(f.Data), "\n"), vars)
		if err != nil {
			t.Fatalf("%s: step %q: %v", file, f.Name, err)
		}
		if step.Path != "" {
			s.Steps = append(s.Steps, step)
		}
	}
	if len(s.Steps) == 0 {
		t.Fatalf("%s has no steps", file)
	}
	return s
}

// readScripts reads all scripts in a directory and those below it.
func readScripts(t testing.TB, dir string, vars Vars) (out []Script) {
	t.Helper()
	root := filepath.Join("testdata", dir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := filepath.Rel("testdata", path)
		out = append(out, readScript(t, file, vars))
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d scripts in %s: %v", len(out), root, err)
	}
	return out
}

var (
	requestLine = regexp.MustCompile(`^(GET|HEAD|POST|PUT|PATCH|DELETE|MERGE|STRATEGIC|JSONPATCH|APPLY) (/\S*)$`)
	headerLine  = regexp.MustCompile(`^([A-Z][a-z]+): (.*)$`)
)

// parseStep reads a step: its request line, headers, and the rest, which is the body. A step that is not meant for the
// kind has no path.
func parseStep(name, text string, vars Vars) (Step, error) {
	first, rest, _ := strings.Cut(text, "\n")
	request := requestLine.FindStringSubmatch(vars.expand(first))
	if request == nil {
		return Step{}, fmt.Errorf("%q is no request line", first)
	}
	s := Step{Name: name, Method: request[1], Path: request[2]}
	if kind := patchTypes[s.Method]; kind != "" {
		s.Method, s.Type = "PATCH", kind
	}
	base := ""
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		header := headerLine.FindStringSubmatch(line)
		if header == nil {
			break
		}
		if header[1] == "Not" {
			if slices.Contains(strings.Fields(header[2]), vars["kind"]) {
				return Step{}, nil
			}
		} else if header[1] == "Base" {
			base = vars.expand(header[2])
		} else if err := s.set(header[1], vars.expand(header[2])); err != nil {
			return Step{}, err
		}
		rest = after
	}
	s.Body += vars.expand(rest)
	if base != "" {
		merged, err := mergedText(base, s.Body)
		if s.Body = merged; err != nil {
			return Step{}, err
		}
	}
	return s, nil
}

// set sets what a header of the step says.
func (s *Step) set(header, value string) (err error) {
	switch header {
	case "Type":
		s.Type = value
	case "Accept":
		s.Accept = value
	case "As":
		s.As = value
	case "Header":
		name, text, _ := strings.Cut(value, " ")
		if s.Header == nil {
			s.Header = http.Header{}
		}
		if s.Header[name] = nil; text != "" {
			s.Header.Set(name, text)
		}
	case "Until":
		s.Until = value
	case "Hex": // a body that is no text
		body, err := hex.DecodeString(value)
		s.Body = string(body)
		return err
	case "Only":
		s.Only = strings.Fields(value)
	case "Capture":
		if s.Capture == nil {
			s.Capture = map[string]string{}
		}
		name, path, _ := strings.Cut(value, " ")
		s.Capture[name] = path
	case "Events":
		if last, ok := strings.CutPrefix(value, "through "); ok {
			s.Through = last
		} else if s.ToEnd = value == "all"; !s.ToEnd {
			s.Events, err = strconv.Atoi(value)
		}
	default:
		return fmt.Errorf("unknown header %s", header)
	}
	return err
}

// mergedText is base after a merge patch (RFC 7386).
func mergedText(base, change string) (string, error) {
	var v, c any
	if err := json.Unmarshal([]byte(base), &v); err != nil {
		return "", fmt.Errorf("base %s: %w", base, err)
	}
	if err := json.Unmarshal([]byte(change), &c); err != nil {
		return "", fmt.Errorf("change %s: %w", change, err)
	}
	text, err := json.Marshal(merge(v, c))
	return string(text), err
}

func merge(into, change any) any {
	c, ok := change.(map[string]any)
	if !ok {
		return change
	}
	out, ok := into.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for k, v := range c {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}

var fieldLine = regexp.MustCompile(`(?m)^(\w+): (.*(?:\n  .*)*)$`)

// fieldsOf are the lines KEY: VALUE of a text, which go on in lines that are indented.
func fieldsOf(text string, vars Vars) Vars {
	out := Vars{}
	for _, m := range fieldLine.FindAllStringSubmatch(text, -1) {
		out[m[1]] = vars.expand(m[2])
	}
	return out
}

// readKinds makes a script of each file of a directory, which is about one kind.
func readKinds(t testing.TB, dir string, steps func(sections []txtar.File, vars Vars) []Step) (out []Script) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d kinds in %s: %v", len(files), dir, err)
	}
	for _, file := range files {
		comment, sections, vars := testdata(t, filepath.Join(dir, filepath.Base(file)), nil)
		maps.Copy(vars, fieldsOf(comment, vars))
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		out = append(out, Script{Name: name, Steps: steps(sections, vars)})
	}
	return out
}

func parsed(t testing.TB, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// A step that is read wrongly is sent wrongly to both servers, which agree about it.
func TestAStepIsReadAsItIsWritten(t *testing.T) {
	vars := Vars{"maps": "/api/v1/${ns}/configmaps", "kind": "Pod"}
	for text, want := range map[string]Step{
		"GET ${maps}/a":               {Method: "GET", Path: "/api/v1/${ns}/configmaps/a"},
		"APPLY /a?x=y\nkind: A\nb: c": {Method: "PATCH", Type: applyPatch, Path: "/a?x=y", Body: "kind: A\nb: c"},
		"MERGE /a\n{}":                {Method: "PATCH", Type: mergePatch, Path: "/a", Body: "{}"},
		"STRATEGIC /a\n{}":            {Method: "PATCH", Type: strategicPatch, Path: "/a", Body: "{}"},
		"JSONPATCH /a\n[]":            {Method: "PATCH", Type: jsonPatch, Path: "/a", Body: "[]"},
		"POST /a\nType: b\nAccept: c\nAs: d\nUntil: e f\nOnly: g h\n${x*3}": {Method: "POST", Path: "/a", Type: "b",
			Accept: "c", As: "d", Until: "e f", Only: []string{"g", "h"}, Body: "xxx"},
		"GET /a\nCapture: b c.d\nCapture: e f": {Method: "GET", Path: "/a",
			Capture: map[string]string{"b": "c.d", "e": "f"}},
		"GET /a\nEvents: 2":               {Method: "GET", Path: "/a", Events: 2},
		"GET /a\nEvents: all":             {Method: "GET", Path: "/a", ToEnd: true},
		"GET /a\nEvents: through DELETED": {Method: "GET", Path: "/a", Through: "DELETED"},
		"PUT /a\nBase: {\"a\":1,\"b\":{\"c\":2}}\n{\"a\":null,\"b\":{\"d\":3}}": {Method: "PUT", Path: "/a",
			Body: `{"b":{"c":2,"d":3}}`},
		"PUT /a\nHex: d9d9f7": {Method: "PUT", Path: "/a", Body: "\xd9\xd9\xf7"},
		"GET /a\nNot: Pod":    {},
		"GET /a\nNot: Job":    {Method: "GET", Path: "/a"},
	} {
		if got, err := parseStep("", text, vars); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"FETCH /a", "GET a", "GET /a\nUnitl: x", "GET /a\nEvents: some",
		"PUT /a\nBase: {\n{}"} {
		if step, err := parseStep("", text, vars); err == nil {
			t.Errorf("%q is read as %+v", text, step)
		}
	}
}
