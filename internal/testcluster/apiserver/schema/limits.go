package schema

import (
	"regexp/syntax"
	"slices"

	"skiff/internal/testcluster/apiserver/obj"
)

const (
	// maxPatterns bounds the patterns of one definition, in compiled instructions of 40 bytes: ten bytes of text can
	// be thousands of them.
	maxPatterns = 500_000
	// maxSchemaDepth bounds the nesting of a definition's schemas, of which each step makes a path: that is eight
	// times as deep as the deepest in use.
	maxSchemaDepth = 500
	// maxWork bounds the validation of one object, in which no other client can write it, in steps of some
	// nanoseconds. It is a hundred times what the largest useful object takes.
	maxWork = 100_000_000
	// maxDefaults bounds the values that defaults add to one object: with more it is too large to be stored.
	maxDefaults = 200_000
)

// TooMuch returns a cause if the versions of a definition take more memory than a server has to spare.
func TooMuch(versions any) []Cause {
	if patternsIn(versions) > maxPatterns {
		return []Cause{obj.Forbidden("spec.versions",
			"the patterns of a definition may have no more than 500000 compiled instructions in all")}
	}
	if deeper(versions, maxSchemaDepth) {
		return []Cause{obj.Forbidden("spec.versions",
			"the schemas of a definition may be nested no more than 500 deep")}
	}
	return nil
}

// deeper reports whether a value is nested deeper than so many levels.
func deeper(v any, levels int) bool {
	switch v := v.(type) {
	case []any:
		return levels == 0 || slices.ContainsFunc(v, func(item any) bool { return deeper(item, levels-1) })
	case map[string]any:
		for _, member := range v {
			if levels == 0 || deeper(member, levels-1) {
				return true
			}
		}
	}
	return false
}

func patternsIn(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if n += patternsIn(item); n > maxPatterns {
				break
			}
		}
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok && name == "pattern" {
				n += max(4*len(text), instructions(text))
			} else {
				n += patternsIn(member)
			}
			if n > maxPatterns { // parsing the rest may take long, too
				break
			}
		}
	}
	return n
}

// instructions estimates the length of a compiled pattern, 0 for one that does not compile.
func instructions(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return lengthOf(re)
}

func lengthOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += lengthOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// spend reports whether there is time left for some steps, and counts them.
func (f *found) spend(steps int) bool {
	if f.work == nil { // a schema: it is bounded by its size
		return true
	}
	*f.work -= steps
	return *f.work >= 0
}

// valuesIn counts the values that a value is made of.
func valuesIn(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += valuesIn(item)
		}
	case map[string]any:
		for _, member := range v {
			n += valuesIn(member)
		}
	}
	return n
}
