// Package outside runs the test suites of other projects against skiff's embedded API server: `make outside`.
//
// Its job: build skiff-dev, have `skiff-dev assets` write the programs that envtest starts, and run what uses envtest
// with KUBEBUILDER_ASSETS, unchanged: a suite as kubebuilder writes it, and controller-runtime's own. Run the
// examples of metacontroller, from a checkout that METACONTROLLER_SOURCE names, with skiff in its place. And have the
// Prometheus operator work on skiff-dev.
//
// And peer, a controller on controller-runtime that skiff is measured beside: `make figures-peer`.
//
// Not its job: what skiff's own tests say, and the comparison with a real server (package e2e). It is a nested module,
// so that none of what it needs shows up in skiff's go.mod.
package outside
