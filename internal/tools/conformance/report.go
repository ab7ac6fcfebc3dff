package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The states of a rule: that of the worst of its tests that ran. Those that are not in the results count only where no
// other test of the rule ran: without E2E=1 those of the e2e suite are not.
const (
	stateOpen   = "open"    // no test claims it
	stateMoot   = "moot"    // no test claims it, for the reason in moot
	stateFail   = "FAIL"    // a test that claims it failed
	stateNotRun = "not run" // a test that claims it was skipped, or none of them is in the results
	statePass   = "pass"
)

var states = []string{statePass, stateNotRun, stateFail, stateOpen, stateMoot}

// moot says why skiff does not follow a rule.
var moot = map[string]string{
	"WCH-40":  "nothing in skiff asks for metadata only: a watch decodes what its controller declares",
	"WCH-41":  "nothing in skiff asks for Tables: skiff watch prints objects",
	"WCH-43":  "left out on purpose: to inflate the list of 10,000 pods takes longer than to decode it",
	"CCH-25":  "left out on purpose: kubectl shows objects; /debug/controllers has keys, causes and watches",
	"AUTH-29": "nothing in skiff can set the header Authorization before the credentials do",
}

// gravity orders the results of a test that ran more than once, as those of package cache do (once per encoding): a
// failure counts, and a run that was skipped does not.
var gravity = []string{stateNotRun, statePass, stateFail}

// readResults reads the output of `go test -json` and returns the result of each test function. It skips lines that
// are not events, such as build output. Output without any event is an error.
func readResults(r io.Reader) (map[test]string, error) {
	results := map[test]string{}
	events := 0
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		var e struct{ Action, Package, Test, FailedBuild string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Package != "" {
			events++
			if e.FailedBuild != "" {
				return nil, fmt.Errorf("read test results: %s did not build; see `go vet %s`", e.Package, e.Package)
			}
			result := map[string]string{"pass": statePass, "skip": stateNotRun, "fail": stateFail}[e.Action]
			t := test{e.Package, e.Test}
			if slices.Index(gravity, result) > slices.Index(gravity, results[t]) {
				results[t] = result
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read test results: %w", err)
		}
	}
	if events == 0 {
		return nil,
			fmt.Errorf(
				"read test results: there are none on standard input; pipe `go test -json ./...` into this program")
	}
	return results, nil
}

// state returns the state of a rule, given the tests that claim it.
func state(tests []test, results map[test]string) string {
	if len(tests) == 0 {
		return stateOpen
	}
	ran := false
	worst := statePass
	for _, t := range tests {
		switch results[t] {
		case stateFail:
			return stateFail
		case statePass:
			ran = true
		case stateNotRun:
			worst = stateNotRun
		}
	}
	if !ran {
		return stateNotRun
	}
	return worst
}

// report prints a line per rule and the totals. It returns an error if the test of a rule failed.
func report(out io.Writer, rules []rule, claims []claim, results map[test]string) error {
	tests := map[string][]test{}
	for _, c := range claims {
		tests[c.rule] = append(tests[c.rule], c.test)
	}
	w := bufio.NewWriter(out)
	totals := counts{}
	var failed []string
	for _, r := range rules {
		s := state(tests[r.id], results)
		if s == stateOpen && moot[r.id] != "" {
			s = stateMoot
		}
		totals.add(r.section(), s)
		totals.add(r.priority, s)
		totals.add("all", s)
		if s == stateFail {
			failed = append(failed, r.id)
		}
		fmt.Fprintf(w, "%-8s %s  %-7s  %s\n", r.id, r.priority, s, shorten(r.text))
		if s == stateMoot {
			fmt.Fprintf(w, "%22s%s\n", "", moot[r.id])
		}
		for _, t := range tests[r.id] {
			fmt.Fprintf(w, "%22s%s  %s\n", "", short(t.pkg), t.name)
		}
	}
	totals.print(w)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("tests fail of %s", strings.Join(failed, ", "))
	}
	return nil
}

// shorten truncates a rule's text for the table; rules.txt has all of it.
func shorten(text string) string {
	const width = 100 // fits a wide terminal, with the columns before it
	if len(text) <= width {
		return text
	}
	cut := strings.LastIndexByte(text[:width-3], ' ')
	return text[:cut] + " ..."
}

// short removes the prefix that all packages share from an import path.
func short(pkg string) string { return strings.TrimPrefix(pkg, "skiff/internal/") }

// counts has the number of rules per group (a section, a priority or all) and state, and the groups in order of
// appearance.
type counts struct {
	groups []string
	n      map[[2]string]int
}

func (c *counts) add(group, state string) {
	if c.n == nil {
		c.n = map[[2]string]int{}
	}
	if !slices.Contains(c.groups, group) {
		c.groups = append(c.groups, group)
	}
	c.n[[2]string{group, state}]++
}

// print writes one line per group: the sections as in the catalog, then the priorities, then all.
func (c *counts) print(w io.Writer) {
	rank := func(group string) int {
		switch {
		case group == "all":
			return 2
		case strings.HasPrefix(group, "P"):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(c.groups, func(a, b string) int {
		if ra, rb := rank(a), rank(b); ra != rb || ra == 0 {
			return ra - rb
		}
		return strings.Compare(a, b)
	})
	fmt.Fprintf(w, "\n%-8s", "")
	for _, s := range states {
		fmt.Fprintf(w, "%9s", s)
	}
	fmt.Fprintln(w)
	for _, g := range c.groups {
		fmt.Fprintf(w, "%-8s", g)
		for _, s := range states {
			fmt.Fprintf(w, "%9d", c.n[[2]string{g, s}])
		}
		fmt.Fprintln(w)
	}
}
