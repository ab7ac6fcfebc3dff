package call

import (
	"path/filepath"
	"regexp"
	"strings"
)

// maxTrace is how many lines of stderr are kept to find where a program failed: the traces of Python and Node are
// shorter, and of longer ones the end matters.
const maxTrace = 50

// frames are how interpreters write the place of an error: Python, Node and Go, and the shells.
var frames = []*regexp.Regexp{
	regexp.MustCompile(`^File "([^"]+)", line (\d+)`),
	regexp.MustCompile(`((?:file://)?/[^\s():]+\.(?:[cm]?[jt]s|go)):(\d+)`),
	regexp.MustCompile(`^([^\s:]+\.sh): (?:line )?(\d+): `),
}

// thrown is the line in which Node, Go or jq says what went wrong, before frames or other lines.
var thrown = regexp.MustCompile(`^(?:Uncaught )?(?:[A-Z]\w*)?Error\b.*|^panic: .*|^jq: error.*`)

// python is the line before Python's frames; what went wrong is its last line.
const python = "Traceback (most recent call last)"

// trace is what a program said before it failed.
type trace struct {
	said  string // the line that says what is wrong
	place string // FILE:LINE of the author's own code, "" where it is not known, or in said
}

// traceOf reads the last lines of a program's stderr. A frame counts if its file is in dir, the directory of the hook:
// other files are those of its language. Of several frames Python's last one is the place, and everyone else's first.
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
		t.place = "" // `hook.sh: 3: FOO: parameter not set` has it
	}
	return t
}

// within returns the path of a file below dir, "" if it is elsewhere.
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
