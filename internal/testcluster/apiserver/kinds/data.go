package kinds

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"
)

// The files describe the kinds; data/README.md explains their format. They are read at the first use. A mistake in
// them is a bug that this package's test finds, so it panics.
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
			verb, name, _ := strings.Cut(l.text, " ")
			switch {
			case verb == "kind":
				l.set = d.set(l.block)
				d.kinds = append(d.kinds, l)
			case verb == "set" && d.sets[name] == nil:
				d.sets[name] = d.set(l.block)
			default:
				panic(l.wrong("want kind, or set with a new name"))
			}
		}
	}
	return d
})

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
			panic(fmt.Sprintf("kinds/data/%s:%d: indented too far", file, number))
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

func (l *line) wrong(why string) string {
	return fmt.Sprintf("kinds/data/%s:%d: %s", l.file, l.number, why)
}

// set finds the blocks among lines. They are compiled at their first use.
func (d *data) set(lines []*line) *set {
	s := &set{blocks: map[string]func() []statement{}}
	for _, l := range lines {
		switch l.text {
		case "defaults", "prepare", "checks":
			s.blocks[l.text] = sync.OnceValue(func() []statement { return d.block(l.block, l.text == "checks") })
		case "columns":
			s.columns = l.block
		}
	}
	return s
}

// columns makes columns of lines "[wide] NAME[:TYPE[:FORMAT]] = CELL", "age" and "use SET".
func (d *data) columns(lines []*line) []Column {
	var out []Column
	for _, l := range lines {
		if name, ok := strings.CutPrefix(l.text, "use "); ok {
			if d.sets[name] == nil {
				panic(l.wrong("no set " + name))
			}
			out = append(out, d.columns(d.sets[name].columns)...)
			continue
		}
		if l.text == "age" {
			out = append(out, Column{Name: "Age", Type: "string", Cell: since("metadata.creationTimestamp")})
			continue
		}
		head, body, found := strings.Cut(l.text, " = ")
		head, wide := strings.CutPrefix(head, "wide ")
		name, form, _ := strings.Cut(head, ":")
		typ, format, _ := strings.Cut(form, ":")
		c := Column{Name: name, Type: cmp.Or(typ, "string"), Format: format}
		if wide {
			c.Priority = 1
		}
		if !found {
			panic(l.wrong("column: want NAME = CELL"))
		}
		cell := sync.OnceValue(func() cell {
			cell, err := parseCell(body)
			if err != nil {
				panic(l.wrong("column: " + err.Error()))
			}
			return cell
		})
		c.Cell = func(o Object, now time.Time) any { return cell()(scope{root: o, o: o, at: unknown}, now) }
		out = append(out, c)
	}
	return out
}
