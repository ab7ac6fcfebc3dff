// Package features is which version of Kubernetes a server is, and which of its feature gates are on: the kinds and
// fields that it has, and the fields that it drops. The versions are data (versions.txt), with their sources.
//
// It decides nothing else: rules that came or went between two versions are those of the newest one. It has no
// goroutine; its functions may be called from any.
package features

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed versions.txt
var text string

// newest is the version that the tables of kinds and fields were written from.
const newest = 36

// Set is a version and the state of its gates. The zero value is the newest version, with the gates as they are by
// default. Sets can be compared.
type Set struct {
	older int    // how many minor versions it is older than the newest
	gates string // those that were set: NAME=true,NAME=false, by name
}

// line names what came with a version: a kind of an apiVersion, or a field of a type.
type line struct{ of, name string }

// data is versions.txt.
type data struct {
	versions map[int]string // by minor version
	kinds    map[line]int   // since when they are served
	fields   map[line]int
	gates    map[string]map[int]bool // defaults, by the version from which on they hold
	drops    map[line]string         // the gate without which a field is dropped
	grants   map[string]int          // since when roles name a group, a resource or a path
}

// parsed reads the table. A mistake in it is a bug that this package's test finds, so it panics.
var parsed = sync.OnceValue(func() *data {
	d := &data{map[int]string{}, map[line]int{}, map[line]int{}, map[string]map[int]bool{}, map[line]string{},
		map[string]int{}}
	for l := range strings.Lines(text) {
		words := strings.Fields(l)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		switch rest := words[3:]; words[0] {
		case "grant":
			for _, word := range words[2:] {
				d.grants[word] = minor(words[1])
			}
		case "version":
			d.versions[minor(words[1])] = words[2]
		case "kind":
			d.kinds[line{words[2], rest[0]}] = minor(words[1])
		case "field":
			for _, name := range rest {
				d.fields[line{words[2], name}] = minor(words[1])
			}
		case "gate":
			d.gates[words[1]] = map[int]bool{}
			for since := range slices.Chunk(words[2:], 2) {
				d.gates[words[1]][minor(since[0])] = since[1] == "on"
			}
		case "drops":
			for _, name := range rest {
				d.drops[line{words[2], name}] = words[1]
			}
		default:
			panic("versions.txt: " + l)
		}
	}
	return d
})

func minor(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic("versions.txt: " + err.Error())
	}
	return n
}

// New returns the set of a version such as 1.33 or v1.33.6 ("": the newest), with gates as in --feature-gates:
// NAME=true,NAME=false. It refuses what would have no effect, so that no test passes because of that.
func New(version, gates string) (Set, error) {
	s := Set{}
	if version != "" {
		major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		word, _, _ := strings.Cut(rest, ".")
		n, err := strconv.Atoi(word)
		if parsed().versions[n] == "" || major != "1" || err != nil {
			return s, fmt.Errorf("%q is no version that this server can be; it can be %s", version,
				strings.Join(Versions(), ", "))
		}
		s.older = newest - n
	}
	set := map[string]string{}
	for gate := range strings.SplitSeq(gates, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(gate), "=")
		if name == "" {
			continue
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			return s, fmt.Errorf("feature gate %s: %q is not true or false", name, value)
		}
		if err := s.can(name, on); err != nil {
			return s, err
		}
		set[name] = name + "=" + strconv.FormatBool(on)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		s.gates += set[name] + ","
	}
	return s, nil
}

// behind are the gates that code of the server asks for.
var behind = []string{"ComponentFlagz", "ComponentStatusz", "WatchList"}

// can returns an error if the gate cannot be set so.
func (s Set) can(gate string, on bool) error {
	was, known := s.byDefault(gate)
	switch {
	case !known:
		return fmt.Errorf("feature gate %s: v1.%d has no such gate (AllAlpha and AllBeta: name the gates)", gate,
			newest-s.older)
	case was == on, slices.Contains(behind, gate):
		return nil
	}
	for _, of := range parsed().drops {
		if of == gate {
			return nil
		}
	}
	return fmt.Errorf("feature gate %s: it is %t by default, and skiff-dev does not have what it would change with "+
		"%t, so that a test would not test it: leave it out, or test against a real API server", gate, was, on)
}

// byDefault returns the state of a gate in this version, and whether the version has it.
func (s Set) byDefault(gate string) (on, known bool) {
	last := 0
	for since, state := range parsed().gates[gate] {
		if since <= newest-s.older && since > last {
			last, on = since, state
		}
	}
	return on, last > 0
}

// On reports whether a gate is on.
func (s Set) On(gate string) bool {
	for set := range strings.SplitSeq(s.gates, ",") {
		if name, value, _ := strings.Cut(set, "="); name == gate {
			return value == "true"
		}
	}
	on, _ := s.byDefault(gate)
	return on
}

// Serves reports whether a built-in kind is served.
func (s Set) Serves(apiVersion, kind string) bool {
	return parsed().kinds[line{apiVersion, kind}] <= newest-s.older
}

// Declares reports whether a type has a field.
func (s Set) Declares(typeName, field string) bool {
	return parsed().fields[line{typeName, field}] <= newest-s.older
}

// Drops reports whether a field is dropped, because its gate is off.
func (s Set) Drops(typeName, field string) bool {
	gate := parsed().drops[line{typeName, field}]
	_, known := s.byDefault(gate)
	return known && !s.On(gate)
}

// Grants reports whether the roles of a new cluster name a group, a resource or a path.
func (s Set) Grants(word string) bool { return s.Since(parsed().grants[word]) }

// Since reports whether the version is this one of 1.x, or newer.
func (s Set) Since(x int) bool { return newest-s.older >= x }

// Minor returns x of the version 1.x.
func (s Set) Minor() int { return newest - s.older }

// Version returns the version, such as v1.36.3.
func (s Set) Version() string { return parsed().versions[s.Minor()] }

// Versions returns those that a server can be, the oldest first.
func Versions() (out []string) {
	for _, n := range slices.SortedFunc(maps.Keys(parsed().versions), cmp.Compare[int]) {
		out = append(out, fmt.Sprint("1.", n))
	}
	return out
}
