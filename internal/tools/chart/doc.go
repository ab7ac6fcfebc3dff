// Package chart holds the tests of the Helm chart in examples/chart, with helm itself: what it renders is what
// `skiff manifests` prints, and the commands of its README work on skiff-dev. It is a module of its own, because helm
// brings more modules than skiff has packages.
package chart
