package kinds

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"
)

// The files describe the kinds; README.md explains their format. They are read at the first use. A mistake in them is
// a bug that this package's test finds, so it panics, with file and line.
//
//go:embed data/*.txt
var files embed.FS

// data is what the files declare.
type data struct {
	kinds []*line
	sets  map[string]*set
}

// line is a line of a file, with the lines below it that are indented further.
type line struct {
	file   string
	number int
	text   string
	block  []*line
	set    *set // of a kind: its blocks, which all entries of it share
}

// located is the text of a mistake, with file and line.
type located string

// compiling, deferred, gives a mistake the file and the number of the line, if it has none yet.
func (l *line) compiling() {
	switch why := recover().(type) {
	case nil:
	case located:
		panic(why)
	default:
		panic(located(fmt.Sprintf("kinds/data/%s:%d: %v", l.file, l.number, why)))
	}
}

// mistake ends the compilation of a line.
func mistake(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// noBlock refuses lines below one that has no use for them.
func (l *line) noBlock() {
	if l.block != nil {
		mistake("nothing can be below %q", l.text)
	}
}

// set is a named group of blocks that others use.
type set struct {
	blocks  map[string]func() []statement // defaults, prepare, checks
	columns []*line
}

// block returns a block, which has no lines if the set does not have it.
func (s *set) block(name string) func() []statement {
	if block := s.blocks[name]; block != nil {
		return block
	}
	return func() []statement { return nil }
}

var described = sync.OnceValue(func() *data {
	d := &data{sets: map[string]*set{}}
	entries, err := files.ReadDir("data")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		text, err := files.ReadFile("data/" + e.Name())
		if err != nil {
			panic(err)
		}
		for _, l := range parseLines(e.Name(), string(text)) {
			d.declare(l)
		}
	}
	return d
})

// declare adds what a line without indentation declares: a kind or a set.
func (d *data) declare(l *line) {
	defer l.compiling()
	verb, name, _ := strings.Cut(l.text, " ")
	switch {
	case verb == "kind":
		l.set, _ = d.set(l.block)
		d.kinds = append(d.kinds, l)
	case verb == "set" && d.sets[name] == nil:
		s, others := d.set(l.block)
		for _, other := range others {
			mistake("set %s: no block %q", name, other.text)
		}
		d.sets[name] = s
	default:
		mistake("want kind, or set with a new name")
	}
}

// parseLines makes a tree of the lines of a file, by their indentation.
func parseLines(file, text string) []*line {
	root := &line{}
	above := []*line{root} // the last line of each depth
	var open *line         // it ended in a backslash
	number := 0
	for raw := range strings.Lines(text) {
		number++
		text := strings.TrimSpace(raw)
		switch depth := (len(raw) - len(strings.TrimLeft(raw, " "))) / 2; {
		case open != nil:
			open.text += text
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		case depth >= len(above):
			panic(located(fmt.Sprintf("kinds/data/%s:%d: indented too far", file, number)))
		default:
			open = &line{file: file, number: number, text: text}
			above[depth].block = append(above[depth].block, open)
			above = append(above[:depth+1], open)
		}
		var more bool
		if open.text, more = strings.CutSuffix(open.text, "\\"); !more {
			open = nil
		}
	}
	return root.block
}

// set finds the blocks among lines, and returns the other lines. Blocks are compiled at their first use.
func (d *data) set(lines []*line) (s *set, others []*line) {
	s = &set{blocks: map[string]func() []statement{}}
	for _, l := range lines {
		switch l.text {
		case "defaults", "prepare", "checks":
			s.blocks[l.text] = sync.OnceValue(func() []statement { return d.block(l.block, l.text == "checks") })
		case "columns":
			s.columns = l.block
		default:
			others = append(others, l)
		}
	}
	return s, others
}

// columns makes columns of lines "[wide] NAME[:TYPE[:FORMAT]] = CELL", "age" and "use SET".
func (d *data) columns(lines []*line) (out []Column) {
	for _, l := range lines {
		out = append(out, d.column(l)...)
	}
	return out
}

func (d *data) column(l *line) []Column {
	defer l.compiling()
	l.noBlock()
	if name, ok := strings.CutPrefix(l.text, "use "); ok {
		return d.columns(d.setNamed(name).columns)
	}
	if l.text == "age" {
		return []Column{{Name: "Age", Type: "string", Cell: since("metadata.creationTimestamp")}}
	}
	head, body, found := strings.Cut(l.text, " = ")
	if !found {
		mistake("column: want NAME = CELL")
	}
	head, wide := strings.CutPrefix(head, "wide ")
	name, form, _ := strings.Cut(head, ":")
	typ, format, _ := strings.Cut(form, ":")
	c := Column{Name: name, Type: cmp.Or(typ, "string"), Format: format}
	if wide {
		c.Priority = 1
	}
	cell := sync.OnceValue(func() cell {
		defer l.compiling()
		return parseCell(body)
	})
	c.Cell = func(o Object, now time.Time) any { return cell()(scope{root: o, o: o, at: unknown}, now) }
	return []Column{c}
}

func (d *data) setNamed(name string) *set {
	s := d.sets[name]
	if s == nil {
		mistake("no set %q", name)
	}
	return s
}
