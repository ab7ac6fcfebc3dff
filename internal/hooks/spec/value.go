package spec

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// maxProblems is how many problems are named of all files: with more of them it is the wrong file.
const maxProblems = 100

// maxShown is how much is shown of a value of a file.
const maxShown = 100

// problem is something that is wrong at one place.
type problem struct {
	file string // "": it has come from a cluster
	line int
	path string // "": of the whole document
	text string
}

func (p problem) String() string {
	var b strings.Builder
	if p.file != "" {
		b.WriteString(p.file + ":")
		if p.line > 0 {
			b.WriteString(strconv.Itoa(p.line) + ":")
		}
		b.WriteString(" ")
	}
	if p.path != "" {
		b.WriteString(kube.Printable(p.path, 3*maxShown) + ": ")
	}
	return b.String() + p.text
}

// Problems are all that is wrong with some files. It is an error.
type Problems struct {
	file  string // that is being read
	first int    // problem of that file in list
	list  []problem
	more  int // that are not in list
}

// begin begins a file, and puts the problems of the one before in the order of its lines.
func (p *Problems) begin(file string) {
	slices.SortStableFunc(p.list[p.first:], func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	p.file, p.first = file, len(p.list)
}

// add adds a problem.
func (p *Problems) add(line int, path, format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, problem{p.file, line, path, fmt.Sprintf(format, args...)})
}

func (p *Problems) count() int { return len(p.list) + p.more }

// err returns nil if nothing is wrong.
func (p *Problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	p.begin("")
	return p
}

// Error has a line for each problem.
func (p *Problems) Error() string {
	lines := make([]string, len(p.list), len(p.list)+1)
	for i, one := range p.list {
		lines[i] = one.String()
	}
	if p.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", p.more))
	}
	return strings.Join(lines, "\n")
}

// value is a value of a document and its place, for those who read it. One that is missing can be read, too: it is
// what its type has as zero.
type value struct {
	*node
	path  string
	found *Problems
}

// join is the path of a member.
func join(path, name string) string {
	if name == "" || strings.ContainsAny(name, ".[]/ ") {
		return path + "[" + strconv.Quote(name) + "]"
	}
	return strings.TrimPrefix(path+"."+name, ".")
}

// wrong adds a problem of this value.
func (v value) wrong(format string, args ...any) { v.found.add(v.line, v.path, format, args...) }

// has says whether the value is there.
func (v value) has() bool { return v.kind != absent }

// field returns a member, which may be missing.
func (v value) field(name string) value {
	n := v.get(name)
	if n == nil {
		n = &node{line: v.line}
	}
	return value{n, join(v.path, name), v.found}
}

// required adds a problem if the value is missing, or an empty string.
func (v value) required() value {
	if !v.has() || v.kind == text && v.text == "" {
		v.wrong("is missing")
	}
	return v
}

// is adds a problem and returns false where a value is of another kind. A missing one is of none.
func (v value) is(k kind) bool {
	if v.has() && v.kind != k {
		v.wrong("must be %s, is %s", k, v.kind)
	}
	return v.kind == k
}

// only adds a problem for each field that has another name. It returns false where the value is no object.
func (v value) only(names ...string) bool {
	if !v.is(object) {
		return false
	}
	for i, key := range v.keys {
		if slices.Contains(names, key) {
			continue
		}
		hint := ""
		for _, name := range names {
			if strings.EqualFold(name, key) {
				hint = ": the field is called " + name
			}
		}
		v.found.add(v.values[i].line, join(v.path, key), "is no field of this object%s", hint)
	}
	return true
}

// string reads a string.
func (v value) string() string {
	if v.kind == number || v.kind == boolean {
		v.wrong("must be a string, is %s: put it in quotes", v.kind)
	} else if v.is(text) {
		return v.text
	}
	return ""
}

// bool reads a boolean.
func (v value) bool() bool { return v.is(boolean) && v.text == "true" }

// int reads a number from a range; 0 where it is missing or wrong.
func (v value) int(least, most int64) int64 {
	if !v.is(number) {
		return 0
	}
	i, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil || i < least || i > most {
		v.wrong("must be a whole number from %d to %d, is %s", least, most, kube.Printable(v.text, maxShown))
		return 0
	}
	return i
}

// timeout reads a duration; without one, or with one that is not positive, it is that of metacontroller.
func (v value) timeout() time.Duration {
	const usual = 10 * time.Second
	s := v.string()
	if s == "" {
		return usual
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		v.wrong("must be a duration such as 10s or 1m30s, is %q", kube.Printable(s, maxShown))
	}
	if d <= 0 {
		return usual
	}
	return d
}

// oneOf reads a string that is one of several; the first one is meant where it is missing or wrong.
func (v value) oneOf(names ...string) string {
	s := v.string()
	if slices.Contains(names, s) {
		return s
	}
	if s != "" {
		v.wrong("must be %s, is %q", or(names), kube.Printable(s, maxShown))
	}
	return names[0]
}

// or joins names as a sentence does.
func or(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// matching reads a string that ok has to take; what says what it should be.
func (v value) matching(ok func(string) bool, what string) string {
	s := v.string()
	if s != "" && !ok(s) {
		v.wrong("must be %s, is %q", what, kube.Printable(s, maxShown))
	}
	return s
}

// items goes through a list of at most so many items.
func (v value) items(most int) iter.Seq[value] {
	return func(yield func(value) bool) {
		if !v.is(list) {
			return
		}
		if len(v.values) > most {
			v.wrong("has %d items, at most %d are allowed", len(v.values), most)
			return
		}
		for i, n := range v.values {
			if !yield(value{n, fmt.Sprintf("%s[%d]", v.path, i), v.found}) {
				return
			}
		}
	}
}

// members goes through all members of an object.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		if !v.is(object) {
			return
		}
		for i, n := range v.values {
			if !yield(v.keys[i], value{n, join(v.path, v.keys[i]), v.found}) {
				return
			}
		}
	}
}

// strings reads a list of strings.
func (v value) strings() (out []string) {
	for item := range v.items(maxItems) {
		if !item.has() {
			item.wrong("is null")
		}
		out = append(out, item.string())
	}
	return out
}

// table reads an object whose members are strings.
func (v value) table() map[string]string {
	out := map[string]string{}
	for name, member := range v.members() {
		out[name] = member.string()
	}
	return out
}

// labelsOf makes labels of a table.
func labelsOf(table map[string]string) kube.Labels {
	var out kube.Labels
	for _, key := range slices.Sorted(maps.Keys(table)) {
		out = append(out, kube.Label{Key: key, Value: table[key]})
	}
	return out
}

// byDefault sets a member that is missing, as a server does with the defaults of a definition.
func (v value) byDefault(name, content string) {
	if v.kind == object && !v.field(name).has() {
		v.set(name, &node{kind: text, line: v.line, text: content})
	}
}
