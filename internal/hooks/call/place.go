package call

import (
	"path/filepath"
	"regexp"
	"strings"
)

// maxTrace is how many lines of stderr are kept to find where a program failed: the traces of Python and Node are
// shorter, and of longer traces the end matters.
const maxTrace = 50

// frames are how interpreters write the place of an error: Python, Node and Go, and the shells.
var frames = []*regexp.Regexp{
	regexp.MustCompile(`^File "([^"]+)", line (\d+)`),
	regexp.MustCompile(`((?:file://)?/[^\s():]+\.(?:[cm]?[jt]s|go)):(\d+)`),
	regexp.MustCompile(`^([^\s:]+\.sh): (?:line )?(\d+): `),
}

// thrown is the error line of Node, Go or jq, before frames or other lines.
var thrown = regexp.MustCompile(`^(?:Uncaught )?(?:[A-Z]\w*)?Error\b.*|^panic: .*|^jq: error.*`)

// python is the line before Python's frames; the error is the last line of all.
const python = "Traceback (most recent call last)"

// trace is the message of a program before the failure.
type trace struct {
	said  string // the error line
	place string // FILE:LINE of the author's own code, "" if not known, or in said
}

// traceOf reads the last lines of a program's stderr. A frame counts if the file is in dir, the directory of the hook:
// other files belong to the language. The place is the last of Python's frames, and the first of any other language's.
func traceOf(lines []string, dir string) (t trace) {
	first, isPython := "", false
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line != "" {
			t.said = line
		}
		isPython = isPython || strings.HasPrefix(line, python)
		if first == "" && thrown.MatchString(line) {
			first = line
		}
	}
	if first != "" && !isPython {
		t.said = first
	}
	for i := 0; i < len(frames) && t.place == ""; i++ {
		for _, line := range lines {
			found := frames[i].FindStringSubmatch(strings.TrimSpace(line))
			if found == nil || t.place != "" && i > 0 {
				continue
			}
			if file := within(dir, strings.TrimPrefix(found[1], "file://")); file != "" {
				t.place = file + ":" + found[2]
			}
		}
	}
	if frames[len(frames)-1].MatchString(t.said) {
		t.place = "" // in said: `hook.sh: 3: FOO: parameter not set`
	}
	return t
}

// within returns the path of a file below dir, "" if the file is elsewhere.
func within(dir, file string) string {
	if !filepath.IsAbs(file) {
		return filepath.Clean(file)
	}
	below, err := filepath.Rel(dir, file)
	if dir == "" || err != nil || strings.HasPrefix(below, "..") {
		return ""
	}
	return below
}
