// Package browser tests the live page in headless Chromium: `make browser`.
//
// Its job: run skiff-dev and skiff as processes, open the page in tabs, and see what a person sees while objects break
// and processes are killed or stopped. Not its job: what the page shows in each case (package page), and its data on a
// real control plane (package e2e).
//
// Chromium is driven over a pipe with its DevTools protocol, which is JSON: no module is needed. It is a nested module
// all the same, so that `go test ./...` needs no browser.
package browser
