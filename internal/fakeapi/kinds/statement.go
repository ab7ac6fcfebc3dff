package kinds

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/fakeapi/cause"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// statement is one line of a block, compiled; see data/README.
type statement struct {
	verb    string
	orElse  bool // it counts only if the line before it has found nothing
	paths   []path
	place   string    // where its causes are, if not at the paths
	arg     string    // of the verb
	value   any       // a default, or the value that is reported
	other   *path     // where that is copied from
	when    condition // nil: always
	detail  template  // of a check
	block   []statement
	set     *set
	call    func(scope) []Cause
	changes func(scope)
}

// block compiles the lines of a block.
func (d *data) block(lines []*line, checks bool) []statement {
	var out []statement
	for _, l := range lines {
		st, err := d.statement(l, checks)
		if err != nil {
			panic(fmt.Sprintf("kinds/data/%s:%d: %v", l.file, l.number, err))
		}
		out = append(out, st)
	}
	return out
}

func (d *data) statement(l *line, checks bool) (statement, error) {
	var st statement
	text := l.text
	text, st.orElse = strings.CutPrefix(text, "else ")
	if checks {
		before, detail, _ := strings.Cut(text, ": ")
		var err error
		if st.detail, err = parseTemplate(detail); err != nil {
			return st, err
		}
		text = before
	}
	words := strings.Fields(text)
	if i := slices.Index(words, "if"); i >= 0 {
		var err error
		if st.when, err = parseCondition(words[i+1:]); err != nil || st.when == nil {
			return st, cmp.Or(err, errors.New("if without a condition"))
		}
		words = words[:i]
	}
	if i := slices.Index(words, "as"); i > 0 && i+1 < len(words) {
		st.place = words[i+1]
		words = slices.Delete(words, i, i+2)
	}
	if len(words) < 2 {
		return st, fmt.Errorf("too short: %q", l.text)
	}
	switch words[0] {
	case "in", "use", "call", "set", "drop", "keep":
		st.verb, words = words[0], words[1:]
		return st, d.keyword(&st, words, l, checks)
	}
	if checks {
		return st, st.check(words)
	}
	st.verb = "default"
	return st, st.assign(words)
}

// keyword compiles a line that begins with a verb.
func (d *data) keyword(st *statement, words []string, l *line, checks bool) error {
	switch st.verb {
	case "in":
		st.paths, st.block = []path{parsePath(words[0])}, d.block(l.block, checks)
		return nil
	case "use":
		if st.set = d.sets[words[0]]; st.set == nil {
			return fmt.Errorf("no set %q", words[0])
		}
		st.paths = []path{parsePath(strings.Join(words[1:], ""))}
		return nil
	case "call":
		st.paths = []path{parsePath(strings.Join(words[1:], ""))}
		if st.call, st.changes = checkFunctions()[words[0]], changeFunctions()[words[0]]; st.call == nil && checks ||
			st.changes == nil && !checks {
			return fmt.Errorf("no function %q", words[0])
		}
		return nil
	case "drop", "keep":
		for _, w := range words {
			st.paths = append(st.paths, parsePath(w))
		}
		return nil
	}
	return st.assign(words)
}

// assign compiles the path and the value of a default.
func (st *statement) assign(words []string) error {
	st.paths = []path{parsePath(words[0])}
	if len(words) != 2 {
		return fmt.Errorf("want a path and a value: %q", words)
	}
	return st.setValue(words[1])
}

func (st *statement) setValue(word string) (err error) {
	if from, ok := strings.CutPrefix(word, "="); ok {
		p := parsePath(from)
		st.other = &p
		return nil
	}
	if st.value = word; word == now {
		return nil
	}
	st.value, err = patch.Decode([]byte(word))
	return err
}

// check compiles a line of paths, a check and its argument.
func (st *statement) check(words []string) error {
	i := 1 + slices.IndexFunc(words[1:], func(w string) bool {
		return tests()[w] != nil || reports[w] || comparing[w] || repeats[w]
	})
	if i < 1 {
		return fmt.Errorf("no check: %q", words)
	}
	for _, w := range words[:i] {
		st.paths = append(st.paths, parsePath(w))
	}
	st.verb, st.arg = words[i], strings.Join(words[i+1:], " ")
	switch {
	case !needsArgument[st.verb] && st.arg != "" && !reports[st.verb] && !repeats[st.verb]:
		return fmt.Errorf("%s takes no argument", st.verb)
	case needsArgument[st.verb] && st.arg == "":
		return fmt.Errorf("%s without an argument", st.verb)
	case slices.Contains([]string{"form", "strict-form", "keys", "keys-at"}, st.verb) && forms()[st.arg] == nil:
		return fmt.Errorf("no form %q", st.arg)
	case reports[st.verb] && st.when == nil:
		return fmt.Errorf("%s without a condition", st.verb)
	case reports[st.verb] && st.verb != "unsupported" && st.arg != "":
		return st.setValue(st.arg)
	}
	st.value = unset{}
	return nil
}

// now as a value is the time of the write.
const now = "@now"

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

// unset means that the value at the path itself is reported.
type unset struct{}

// change sets defaults. Lines about a part that is missing do nothing.
func change(block []statement, s scope) {
	s.at = unknown
	for i := range block {
		st := &block[i]
		if s.o == nil || !st.when.holds(s) {
			continue
		}
		switch st.verb {
		case "in":
			s.each(st.paths[0], func(part scope) { change(st.block, part) })
		case "use":
			s.each(st.paths[0], func(part scope) { change(st.set.defaults(), part) })
		case "call":
			s.each(st.paths[0], func(part scope) {
				if part.o != nil {
					st.changes(part)
				}
			})
		case "drop":
			for _, p := range st.paths {
				obj.Remove(s.o, p.keys()...)
			}
		case "keep":
			for _, p := range st.paths {
				if s.stored != nil {
					obj.Set(s.o, patch.Copy(s.was(p)), p.keys()...)
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
			if keys := st.paths[0].keys(); st.verb == "set" {
				obj.Set(s.o, v, keys...)
			} else {
				obj.Default(s.o, v, keys...)
			}
		}
	}
}

// keys are the steps of a path without lists.
func (p path) keys() []string {
	var out []string
	for _, s := range p.steps {
		out = append(out, s.key)
	}
	return out
}

// causes runs a block of checks. It looks for places only where there is a cause to report.
func causes(block []statement, next, cur Object) []Cause {
	s := whole(next, cur)
	if s.at = unknown; len(check(block, s)) == 0 {
		return nil
	}
	return check(block, whole(next, cur))
}

// check runs a block of checks.
func check(block []statement, s scope) []Cause {
	var out, last []Cause
	for i := range block {
		st := &block[i]
		if st.orElse && len(last) > 0 {
			continue
		}
		last = nil
		if st.when.holds(s) {
			last = st.causes(s)
		}
		out = append(out, last...)
	}
	return out
}

// at returns where the causes are of what a statement finds at a place.
func (st *statement) at(place string) string {
	if st.place != "" && place != unknown {
		return st.place
	}
	return place
}

func (st *statement) causes(s scope) (out []Cause) {
	parts := func(f func(part scope) []Cause) []Cause {
		s.each(st.paths[0], func(part scope) {
			part.at = st.at(part.at)
			out = append(out, f(part)...)
		})
		return out
	}
	switch st.verb {
	case "in":
		return parts(func(part scope) []Cause {
			if part.o == nil {
				return nil
			}
			return check(st.block, part)
		})
	case "use":
		return parts(func(part scope) []Cause { return check(st.set.checks(), part) })
	case "call":
		return parts(st.call)
	}
	if repeats[st.verb] {
		return st.repeated(s)
	}
	for _, p := range st.paths {
		p.walk(s.from(p), s.base(p), func(at string, v any) {
			out = append(out, st.valueCauses(s, p, st.at(at), v)...)
		})
	}
	return out
}

// valueCauses returns what is wrong with the value at one of the paths.
func (st *statement) valueCauses(s scope, p path, at string, v any) []Cause {
	switch changed := s.stored != nil && comparing[st.verb] && !patch.Equal(v, s.was(p)); {
	case changed && st.verb == "immutable":
		return []Cause{cause.Invalid(at, v, st.orDetail(s, "field is immutable"))}
	case changed:
		return []Cause{cause.Forbidden(at, shown(st.detail.value(s)))}
	case comparing[st.verb]:
		return nil
	}
	if test := tests()[st.verb]; test != nil {
		return test(st, s, at, v)
	}
	if st.other != nil {
		v = s.get(*st.other)
	} else if _, own := st.value.(unset); !own {
		v = st.value
	} else if v == nil && st.verb != "unsupported" {
		v = ""
	}
	return []Cause{st.report(s, at, v)}
}
