// Package nearest finds the name that a mistyped word most likely means, so that an error can suggest it.
//
// Its job is one comparison of words; where the names come from, and the rest of the error, is its callers' job. It is
// pure functions on the goroutine of the caller, and on no event path.
package nearest

import "strings"

const (
	// maxWord is longer than any name: a longer word is no typing error, and comparing it would take time.
	maxWord = 100
	// minPrefix is how many letters say which name is meant where the rest is missing: web for webserver.
	minPrefix = 3
)

// Of returns the name that is most like word, "" if none is like it: a name in other capitals, one with few letters
// wrong, missing or swapped, or the only one that word is the beginning or the end of.
func Of(word string, names []string) string {
	if len(word) > maxWord || word == "" {
		return ""
	}
	lower := strings.ToLower(word)
	best, least, parts := "", maxEdits(lower)+1, map[string]bool{}
	for _, name := range names {
		if name == word || len(name) > maxWord {
			continue
		}
		other := strings.ToLower(name)
		// Of two that are as near, the one of the same length: a wrong letter is more usual than a missing one.
		n := edits(lower, other, maxEdits(lower)+1)
		if n < least || best != "" && n == least && len(other) == len(word) && len(best) != len(word) {
			best, least = name, n
		}
		if len(word) >= minPrefix && isPart(lower, other) {
			parts[name] = true
		}
	}
	if best == "" && len(parts) == 1 {
		for name := range parts {
			return name
		}
	}
	return best
}

// Ask returns "did you mean NAME?", "" if no name is like word. before and after are what NAME is written with: the
// dashes of a flag, a slash and a name.
func Ask(word string, names []string, before, after string) string {
	name := Of(word, names)
	if name == "" {
		return ""
	}
	return "did you mean " + before + name + after + "?"
}

// maxEdits is how many letters of a word may be wrong: the longer it is, the more, and never the half of it.
func maxEdits(word string) int {
	switch n := len(word); {
	case n < 3:
		return 0
	case n < 5:
		return 1
	case n < 9:
		return 2
	}
	return 3
}

// isPart says whether word is the beginning of a name, or its last words.
func isPart(word, name string) bool {
	return strings.HasPrefix(name, word) || strings.HasSuffix(name, "-"+word)
}

// edits is the number of letters to add, drop, replace or swap with their neighbour that make b of a (the optimal
// string alignment distance), or limit if it is not below that.
func edits(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
