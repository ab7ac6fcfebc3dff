package reload

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"

	"skiff/internal/runtime/kube"
)

// The bounds of the expressions in an annotation. Whoever may annotate a workload has skiff match expressions with the
// names of all sources of the namespace, at each change.
const (
	maxPatterns      = 100
	maxPatternLength = 256
	// maxPatternSize bounds the steps for each byte of a name, of all expressions of an annotation together: "x{1000}"
	// is short and large.
	maxPatternSize = 2000
	// maxMatching bounds the size of the expressions times the sources of the namespace, so that a look takes
	// milliseconds, and a second where all is chosen to take long.
	maxMatching = 500_000
	// maxCompiled is more expressions than the workloads of most clusters have.
	maxCompiled = 500
)

// compiled is an expression; matches is nil where the expression is wrong or too large.
type compiled struct {
	matches func(name string) bool
	size    int
	fault   string
}

// patterns has expressions compiled once for all workloads and events.
type patterns struct {
	mu sync.Mutex // guards of
	of map[string]compiled
}

// compile returns an entry of a list as an expression. Reloader puts the anchors around the text without a group, so
// that "a|b" is a prefix or a suffix; the lists of users may depend on the difference.
func (p *patterns) compile(entry string) compiled {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.of[entry]; ok {
		return c
	}
	if p.of == nil || len(p.of) >= maxCompiled {
		p.of = map[string]compiled{}
	}
	p.of[strings.Clone(entry)] = compile(entry) // the entry is a part of a longer text
	return p.of[entry]
}

func compile(entry string) compiled {
	if len(entry) > maxPatternLength {
		return compiled{fault: "is longer than " + strconv.Itoa(maxPatternLength) + " bytes"}
	}
	text := "^" + entry + "$"
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return compiled{fault: "is no regular expression: " + err.Error()}
	}
	size := sizeOf(parsed)
	if size > maxPatternSize {
		return compiled{fault: "is too large a regular expression"}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return compiled{fault: "is no regular expression: " + err.Error()}
	}
	return compiled{matches: re.MatchString, size: size}
}

// sizeOf returns about how many instructions an expression has when its repetitions are written out. The parser bounds
// their product.
func sizeOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += sizeOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return n
}

// isName says whether an entry matches no name but its own. Such a source is known before the source exists, and found
// without a look at all others. A dot matches any character.
func isName(entry string) bool { return kube.ValidName(entry) && !strings.Contains(entry, ".") }
