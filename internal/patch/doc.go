// Package patch is what Kubernetes knows about changing and comparing objects, as pure functions on decoded JSON:
// JSON patch, merge patch, strategic merge patch, the merge keys and list types of the built-in kinds, the comparison
// "is what I want already there", and resource quantities.
//
// Its job ends at values: it sends nothing, stores nothing and knows no HTTP. Ownership of fields (server-side apply)
// is fakeapi/ssa, which reads the same [Node] tree; custom resource schemas are fakeapi/schema, which makes such trees.
//
// Place on the event path: inside Reconcile (function 9), where operators lay a template over what they want and apply
// asks [Covered] whether a write is needed. It runs on the caller's goroutine, keeps no state and starts none. Nothing
// here changes its arguments; results share no memory with them.
//
// # Values
//
// A JSON value is map[string]any, []any, string, bool, nil, int64 (a number written without fraction or exponent that
// fits) or float64 (any other number). [Decode] makes these, and every function here expects them. Numbers are
// compared by value, so 1 and 1.0 are equal.
package patch
