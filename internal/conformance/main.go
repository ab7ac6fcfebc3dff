// Command conformance shows which rules of the protocol catalog (rules.txt) are held by which tests, and whether those
// tests pass.
//
//	go test -json ./... | go run ./internal/conformance
//
// It finds the claims itself, in the comments above the test functions of the tree it is run in, the nested modules
// included; the results it takes from the output of go test, so that one can print the state of a run that happened
// elsewhere. It judges no rule: a test that claims one is believed, which is what review is for. It is a tool, off the
// event path, and runs on one goroutine.
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

// run prints the state of all rules: claims from the tree at root, results of a `go test -json` from input. The error
// says that a claim is wrong or that a test failed.
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
