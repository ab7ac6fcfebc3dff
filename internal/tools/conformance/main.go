// Command conformance shows which tests hold each rule of the protocol catalog (rules.txt), and whether these tests
// pass.
//
//	go test -json ./... | go run ./internal/tools/conformance
//
// It reads the claims from the comments above the test functions, in the tree that it runs in with the nested modules.
// It reads the results from the output of go test, which may come from another machine. It does not check that a test
// really holds the rule that it claims: that is for reviewers. It is a tool, not on the event path, and runs on one
// goroutine.
package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
)

//go:embed rules.txt
var catalog string

func main() {
	if err := run(".", os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run prints the state of all rules, by the claims in the tree at root and the results of `go test -json` in input. It
// returns an error if a claim is wrong or a test failed.
func run(root string, input io.Reader, out io.Writer) error {
	rules, err := parseRules(catalog)
	if err != nil {
		return err
	}
	claims, err := collectClaims(root)
	if err != nil {
		return err
	}
	if err := checkClaims(rules, claims); err != nil {
		return err
	}
	results, err := readResults(input)
	if err != nil {
		return err
	}
	return report(out, rules, claims, results)
}
