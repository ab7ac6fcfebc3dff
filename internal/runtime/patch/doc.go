// Package patch changes and compares objects as Kubernetes does, with pure functions on decoded JSON:
// strategic merge patch, the merge keys and list types of the built-in kinds, the comparison "does the live object
// have all that is declared", and resource quantities.
//
// It works on values only: it sends nothing, stores nothing and does not use HTTP. Ownership of fields (server-side
// apply) is apiserver/ssa, which reads the same [Node] tree; custom resource schemas are apiserver/schema, which makes
// such trees; JSON patch and merge patch, which only a server applies, are apiserver/jsonpatch.
//
// Place on the event path: inside Reconcile, where operators lay a user's template over their own object and apply
// asks [Covered] whether a write is needed. It runs on the caller's goroutine, keeps no state and starts none. Its
// functions do not change their arguments; results share no memory with them.
//
// # Values
//
// A JSON value is map[string]any, []any, string, bool, nil, int64 (a number written without fraction or exponent
// that fits) or float64 (any other number). [Decode] makes these, and every function here expects them. Numbers are
// compared by value, so 1 and 1.0 are equal. A [Text] may stand for a value that only [Encode], [Equal] and [Copy]
// meet.
package patch
