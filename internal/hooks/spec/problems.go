package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// maxProblems bounds the problems named of all files: more are the wrong file.
const maxProblems = 100

// maxShown bounds the characters shown of a value of a file.
const maxShown = 100

// place is where a value of a document stands. The path is built for a problem only: keys may be long, and nested.
type place struct {
	in    *place // the object or list with the value; nil: the document itself
	name  string // of a member of an object
	item  int    // of a list; -1: a member
	depth int
	line  int  // 0: JSON of a server
	has   bool // the value is there, and not null
}

func (p *place) path() string {
	switch name := ""; {
	case p.in == nil:
		return ""
	case p.item >= 0:
		return p.in.path() + "[" + strconv.Itoa(p.item) + "]"
	default:
		if name = kube.Printable(p.name, maxShown); name == "" || strings.ContainsAny(name, ".[]/ ") {
			return p.in.path() + "[" + strconv.Quote(name) + "]"
		}
		return strings.TrimPrefix(p.in.path()+"."+name, ".")
	}
}

// Problems are all mistakes of some files, as an error.
type Problems struct {
	file  string // being read; "": the object is from a cluster
	first int    // problem of that file in list
	list  []problem
	more  int // not in list
}

type problem struct {
	line int
	text string // a line of Error
}

// begin begins a file, and sorts the problems of the file before by line.
func (p *Problems) begin(file string) {
	slices.SortStableFunc(p.list[p.first:], func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	p.file, p.first = file, len(p.list)
}

func (p *Problems) add(at *place, format string, args ...any) {
	if p.full() {
		p.more++
		return
	}
	text := fmt.Sprintf(format, args...)
	if path := at.path(); path != "" {
		text = kube.Printable(path, 3*maxShown) + ": " + text
	}
	if p.file != "" && at.line > 0 {
		text = fmt.Sprintf("%s:%d: %s", p.file, at.line, text)
	} else if p.file != "" {
		text = p.file + ": " + text
	}
	p.list = append(p.list, problem{at.line, text})
}

// full says whether another problem is counted only.
func (p *Problems) full() bool { return len(p.list) == maxProblems }

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
		lines[i] = one.text
	}
	if p.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", p.more))
	}
	return strings.Join(lines, "\n")
}
