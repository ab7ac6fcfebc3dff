package kinds

import (
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// statement is one line of a block, compiled; see README.md.
type statement struct {
	verb   string
	orElse bool // it counts only if the line before it has found nothing
	paths  []path
	place  string             // where its causes are, if not at the paths
	arg    string             // of the verb
	value  any                // a default, or the value that is reported
	other  *path              // where that is copied from
	when   condition          // nil: always
	detail template           // of a check
	block  func() []statement // of in and use; of a check: what it changes before it compares
	kind   *checkKind
	form   func(string) []string // of the checks of forms
	call   func(scope)
}

// block compiles the lines of a block.
func (d *data) block(lines []*line, checks bool) []statement {
	return obj.Each(lines, func(l *line) statement { return d.statement(l, checks) })
}

func (d *data) statement(l *line, checks bool) (st statement) {
	defer l.compiling()
	text, detail := l.text, ""
	text, st.orElse = strings.CutPrefix(text, "else ")
	if checks {
		text, detail, _ = strings.Cut(text, ": ")
		st.detail = parseTemplate(detail)
	}
	words := strings.Fields(text)
	if i := slices.Index(words, "if"); i >= 0 {
		if st.when = parseCondition(words[i+1:]); st.when == nil {
			mistake("if without a condition")
		}
		words = words[:i]
	}
	if i := slices.Index(words, "as"); i > 0 && i+1 < len(words) {
		st.place = words[i+1]
		words = slices.Delete(words, i, i+2)
	}
	if len(words) < 2 {
		mistake("too short: %q", l.text)
	}
	if !checks && words[0] != "in" {
		l.noBlock()
	}
	switch words[0] {
	case "in", "use", "call", "set", "drop", "keep":
		st.verb = words[0]
		d.keyword(&st, words[1:], l, checks)
		return st
	}
	if !checks {
		st.verb = "default"
		st.assign(words)
		return st
	}
	if l.block != nil {
		changes := d.block(l.block, false)
		st.block = func() []statement { return changes }
	}
	st.check(words)
	return st
}

// keyword compiles a line that begins with a verb.
func (d *data) keyword(st *statement, words []string, l *line, checks bool) {
	if st.verb != "in" {
		l.noBlock()
	}
	switch st.verb {
	case "in":
		block := d.block(l.block, checks)
		st.paths, st.block = []path{parsePath(words[0])}, func() []statement { return block }
	case "use":
		set, name := d.setNamed(words[0]), "defaults"
		if checks {
			name = "checks"
		}
		st.paths, st.block = []path{parsePath(strings.Join(words[1:], ""))}, set.block(name)
	case "call":
		st.paths, st.call = []path{parsePath(strings.Join(words[1:], ""))}, named(functions(), words[0])
	case "drop", "keep":
		st.paths = obj.Each(words, parsePath)
	default:
		st.assign(words)
	}
}

// assign compiles the path and the value of a default.
func (st *statement) assign(words []string) {
	if len(words) != 2 {
		mistake("want a path and a value: %q", words)
	}
	st.paths = []path{parsePath(words[0])}
	st.setValue(words[1])
}

func (st *statement) setValue(word string) {
	if from, ok := strings.CutPrefix(word, "="); ok {
		p := parsePath(from)
		st.other = &p
	} else if st.value = word; word != now {
		st.value = decode(word)
	}
}

// check compiles a line of paths, a check and its argument.
func (st *statement) check(words []string) {
	i := 1 + slices.IndexFunc(words[1:], func(w string) bool { return checkKinds()[w] != nil })
	if i < 1 {
		mistake("no check: %q", words)
	}
	st.paths = obj.Each(words[:i], parsePath)
	st.verb, st.arg = words[i], strings.Join(words[i+1:], " ")
	st.kind = checkKinds()[st.verb]
	if slices.Contains([]string{"form", "strict-form", "keys", "keys-at"}, st.verb) {
		st.form = formNamed(st.arg)
	}
	byCondition := st.kind.wrong == nil && st.kind.report != nil
	switch {
	case st.kind.argument && st.arg == "":
		mistake("%s without an argument", st.verb)
	case byCondition && st.when == nil:
		mistake("%s without a condition", st.verb)
	case st.arg == "" || st.kind.argument || st.kind.optional:
	case byCondition:
		st.setValue(st.arg)
	default:
		mistake("%s takes no argument", st.verb)
	}
}

// now as a value is the time of the write.
const now = "@now"

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

// change sets defaults. Lines about a part that is missing do nothing.
func change(block []statement, s scope) {
	s.at = unknown
	for i := range block {
		st := &block[i]
		if s.o == nil || !st.when.holds(s) {
			continue
		}
		switch st.verb {
		case "in", "use":
			s.each(st.paths[0], func(part scope) { change(st.block(), part) })
		case "call":
			s.each(st.paths[0], func(part scope) {
				if part.o != nil {
					st.call(part)
				}
			})
		case "drop":
			for _, p := range st.paths {
				obj.Remove(s.o, p.keys...)
			}
		case "keep":
			for _, p := range st.paths {
				if s.stored != nil {
					obj.Set(s.o, patch.Copy(s.was(p)), p.keys...)
				}
			}
		default:
			v := patch.Copy(st.value)
			if v == now {
				v = timestamp()
			}
			if st.other != nil {
				if v = patch.Copy(s.get(*st.other)); v == nil {
					continue
				}
			}
			if keys := st.paths[0].keys; st.verb == "set" {
				obj.Set(s.o, v, keys...)
			} else {
				obj.Default(s.o, v, keys...)
			}
		}
	}
}

// causes runs a block of checks. It looks for places only where there is a cause to report.
func causes(block []statement, next, cur Object) (found []Cause) {
	s := whole(next, cur)
	s.found, s.at = &found, unknown
	if check(block, s); len(found) > 0 {
		found, s.at = nil, ""
		check(block, s)
	}
	return found
}

// check runs a block of checks.
func check(block []statement, s scope) {
	before := len(*s.found) // how many causes there were before the last line
	for i := range block {
		st := &block[i]
		if st.orElse && len(*s.found) > before {
			continue
		}
		if before = len(*s.found); st.when.holds(s) {
			st.run(s)
		}
	}
}

// at returns where the causes are of what a statement finds at a place.
func (st *statement) at(place string) string {
	if st.place != "" && place != unknown {
		return st.place
	}
	return place
}

// run adds what a line of checks finds.
func (st *statement) run(s scope) {
	switch {
	case st.kind == nil:
		s.each(st.paths[0], func(part scope) {
			part.at = st.at(part.at)
			switch {
			case st.verb == "call":
				st.call(part)
			case st.verb == "use" || part.o != nil:
				check(st.block(), part)
			}
		})
	case st.kind.lists != nil:
		st.kind.lists(st, s)
	default:
		for _, p := range st.paths {
			p.walk(s.from(p), s.base(p), func(at string, v any) { st.kind.check(value{st, s, p, st.at(at), v}) })
		}
	}
}

// reported returns the value that a line reports whose condition says all: the one that it names, or that at its path.
func (st *statement) reported(s scope, v any) any {
	switch {
	case st.other != nil:
		return s.get(*st.other)
	case st.arg != "" && !st.kind.argument:
		return st.value
	case v == nil && !st.kind.argument:
		return ""
	}
	return v
}
