package cli

import (
	"fmt"
	"strings"
)

// diffContext is how many equal lines are shown around a change; three is what diff -u shows.
const diffContext = 3

// diffLines returns the lines in which two texts differ, with some around them, each marked by ' ', '-' or '+'; "" for
// equal texts. It compares by the longest common subsequence, in time and space of the product of both lengths after
// equal ends are cut off: meant for manifests of some thousand lines.
func diffLines(a, b string) string {
	x, y := splitLines(a), splitLines(b)
	head := 0
	for head < len(x) && head < len(y) && x[head] == y[head] {
		head++
	}
	tail := 0
	for tail < len(x)-head && tail < len(y)-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	var all []string
	for _, line := range x[:head] {
		all = append(all, " "+line)
	}
	all = append(all, diffMiddle(x[head:len(x)-tail], y[head:len(y)-tail])...)
	for _, line := range x[len(x)-tail:] {
		all = append(all, " "+line)
	}
	return hunks(all)
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// diffMiddle marks the lines of x and y; common[i][j] is the length of the longest common subsequence of x[i:] and
// y[j:].
func diffMiddle(x, y []string) []string {
	common := make([][]int32, len(x)+1)
	for i := range common {
		common[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			out = append(out, " "+x[i])
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "-"+x[i])
			i++
		default:
			out = append(out, "+"+y[j])
			j++
		}
	}
	return out
}

// hunks keeps the changed lines and those near them, under a line that says where they are.
func hunks(lines []string) string {
	keep := make([]bool, len(lines))
	for i, line := range lines {
		if line[0] != ' ' {
			for k := max(0, i-diffContext); k <= min(len(lines)-1, i+diffContext); k++ {
				keep[k] = true
			}
		}
	}
	var out strings.Builder
	oldLine, newLine := 1, 1
	for i, line := range lines {
		if keep[i] {
			if i == 0 || !keep[i-1] {
				fmt.Fprintf(&out, "@@ -%d +%d @@\n", oldLine, newLine)
			}
			out.WriteString(line + "\n")
		}
		if line[0] != '+' {
			oldLine++
		}
		if line[0] != '-' {
			newLine++
		}
	}
	return out.String()
}
