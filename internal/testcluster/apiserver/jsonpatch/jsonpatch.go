// Package jsonpatch applies JSON patches (RFC 6902) and JSON merge patches (RFC 7386) to decoded JSON, as the API
// server does. Strategic merge patches and the form of values are package patch's. Its name is in messages of the real
// server's decoder ("Go value of type jsonpatch.Patch"), which are those of this one, too.
//
// Its functions are pure: they change none of their arguments, keep no state and run on the goroutine of their caller,
// a request of the embedded server. Nothing of skiff's controllers imports it.
package jsonpatch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// MaxOperations is the API server's limit for one JSON patch; it answers 413 above it.
const MaxOperations = 10_000

// maxCopied bounds what the copy operations of one patch may add, in bytes of JSON, as on the real server: 10,000
// copies of a 2 MB string fit into no memory.
const maxCopied = 3 << 20

// What is wrong with a JSON patch, found with errors.Is. The HTTP codes are those of a v1.36 API server, which answers
// every 422 with the same message, "the server rejected our request due to an error in our request".
var (
	ErrMalformedPatch = errors.New("malformed patch")     // 400: not a list of operations
	ErrTooManyOps     = errors.New("too many operations") // 413
	// 422: an operation without path or from, or of an unknown kind
	ErrBadOperation = errors.New("bad operation")
	ErrTestFailed   = errors.New("test failed")      // 422: a test operation found another value
	ErrMissingPath  = errors.New("missing value")    // 422: a path leads nowhere in this document
	ErrTooLarge     = errors.New("result too large") // 422: the copy operations add too much
)

// Apply applies a JSON patch (RFC 6902), a list of operations, to doc. All operations apply, or an error that wraps
// one of the Err values above says which one did not.
//
// It is as lax as the API server where that is laxer than the RFC, because clients have come to rely on it: replace
// creates a missing field, test finds null in a missing one, copy copies null from there, an absent value is null, and
// a negative index counts from the end of a list.
func Apply(doc, ops any) (any, error) {
	list, ok := ops.([]any)
	if !ok {
		return nil, fmt.Errorf("apply JSON patch: %w: want a list of operations", ErrMalformedPatch)
	}
	if len(list) > MaxOperations {
		return nil, fmt.Errorf("apply JSON patch: %w: %d, the limit is %d",
			ErrTooManyOps, len(list), MaxOperations)
	}
	p := patcher{root: patch.Copy(doc)}
	for i, item := range list {
		op, err := parseOp(item)
		if err == nil {
			err = p.apply(op)
		}
		if err != nil {
			return nil, fmt.Errorf("apply JSON patch operation %d: %w", i, err)
		}
	}
	return p.root, nil
}

// Patch has the form of a JSON patch, and the name that errors of Go's decoder give it.
type Patch []map[string]any

type operation struct {
	op, path, from string
	value          any
}

func parseOp(item any) (op operation, err error) {
	m, ok := item.(map[string]any)
	if !ok {
		return op, fmt.Errorf("%w: an operation is an object", ErrMalformedPatch)
	}
	text := func(name string) string {
		s, isText := m[name].(string)
		if _, present := m[name]; present && !isText && err == nil {
			err = fmt.Errorf("%w: %s is not a string", ErrMalformedPatch, name)
		}
		return s
	}
	op = operation{text("op"), text("path"), text("from"), m["value"]}
	_, hasPath := m["path"]
	_, hasFrom := m["from"]
	switch {
	case err != nil:
		return op, err
	case !slices.Contains([]string{"add", "replace", "test", "remove", "move", "copy"}, op.op):
		return op, fmt.Errorf("%w: unexpected kind: %s", ErrBadOperation, op.op)
	case (op.op == "move" || op.op == "copy") && !hasFrom:
		return op, fmt.Errorf("%w: %s needs from", ErrBadOperation, op.op)
	case !hasPath:
		return op, fmt.Errorf("%w: %s needs a path", ErrBadOperation, op.op)
	}
	return op, nil
}

type patcher struct {
	root   any
	copied int // bytes that copy operations have added so far
}

func (p *patcher) apply(op operation) error {
	switch op.op {
	case "add":
		return p.change(op.path, insert, patch.Copy(op.value))
	case "replace":
		_, isObject := op.value.(map[string]any)
		if _, isList := op.value.([]any); op.path == "" && !isObject && !isList {
			return fmt.Errorf("%w: the whole document is an object or a list", ErrBadOperation)
		}
		return p.change(op.path, replace, patch.Copy(op.value))
	case "remove":
		return p.change(op.path, remove, nil)
	case "test":
		v, err := p.get(op.path)
		if err == nil && !patch.Equal(v, op.value) {
			err = fmt.Errorf("testing value %s failed: %w", op.path, ErrTestFailed)
		}
		return err
	}
	if op.from == "" {
		return fmt.Errorf("%s the whole document: %w", op.op, ErrMissingPath)
	}
	v, err := p.get(op.from)
	if err != nil {
		return err
	}
	if op.op == "copy" {
		if p.copied += obj.Size(v); p.copied > maxCopied {
			return fmt.Errorf("copy %s: %w", op.from, ErrTooLarge)
		}
		return p.change(op.path, insert, patch.Copy(v))
	}
	if err := p.change(op.from, remove, nil); err != nil {
		return err
	}
	return p.change(op.path, insert, v)
}

// get returns the value at path; a field that an object does not have is null.
func (p *patcher) get(path string) (any, error) {
	keys, ok := tokens(path)
	v := p.root
	for i, key := range keys {
		next, found := child(v, key)
		if _, isObject := v.(map[string]any); !found && (!isObject || i < len(keys)-1) {
			ok = false
		}
		v = next
	}
	if !ok {
		return nil, fmt.Errorf("path %s: %w", path, ErrMissingPath)
	}
	return v, nil
}

// child is the value at one reference token of a JSON pointer.
func child(v any, key string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		next, ok := v[key]
		return next, ok
	case []any:
		if i, ok := index(key, len(v)); ok && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

type changeKind int

const (
	insert changeKind = iota // into a list: in front of the index
	replace
	remove
)

func (p *patcher) change(path string, kind changeKind, value any) error {
	keys, ok := tokens(path)
	root := p.root
	if ok {
		root, ok = changeAt(p.root, keys, kind, value)
	}
	if !ok {
		return fmt.Errorf("path %s: %w", path, ErrMissingPath)
	}
	p.root = root
	return nil
}

// changeAt returns v with the change made below it; lists are new where their length changed.
func changeAt(v any, keys []string, kind changeKind, value any) (any, bool) {
	if len(keys) == 0 {
		return value, kind == replace // the whole document can only be replaced
	}
	key := keys[0]
	if len(keys) > 1 {
		old, ok := child(v, key)
		if !ok {
			return nil, false
		}
		if value, ok = changeAt(old, keys[1:], kind, value); !ok {
			return nil, false
		}
		kind = replace
	}
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v[key]; kind == remove {
			delete(v, key)
			return v, ok
		}
		v[key] = value
		return v, true
	case []any:
		return changeItem(v, key, kind, value)
	}
	return nil, false
}

func changeItem(list []any, key string, kind changeKind, value any) (any, bool) {
	places := len(list)
	if kind == insert {
		places++ // behind the last one, too
	}
	i, ok := index(key, places)
	if key == "-" && kind == insert {
		i, ok = len(list), true
	}
	switch {
	case !ok || i > len(list) || (i == len(list) && kind != insert):
		return nil, false
	case kind == replace:
		list[i] = value
		return list, true
	case kind == remove:
		return append(list[:i:i], list[i+1:]...), true
	}
	return append(append(list[:i:i], value), list[i:]...), true
}

// tokens splits a JSON pointer (RFC 6901).
func tokens(path string) ([]string, bool) {
	if path == "" {
		return nil, true
	}
	if path[0] != '/' {
		return nil, false
	}
	keys := strings.Split(path[1:], "/")
	for i, k := range keys {
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(k, "~1", "/"), "~0", "~")
	}
	return keys, true
}

// index reads a list index; a negative one counts from the end of the given number of places.
func index(key string, places int) (int, bool) {
	i, err := strconv.Atoi(key)
	if i < 0 {
		i += places
	}
	return i, err == nil && i >= 0
}

// Merge applies a JSON merge patch (RFC 7386): objects are merged field by field, null removes, and everything
// else, a list too, replaces. It cannot fail: each JSON value is a valid merge patch. (The API server wants an object
// on both sides; that check is its own.)
func Merge(target, change any) any { return mergeInto(patch.Copy(target), change) }

// mergeInto changes target.
func mergeInto(target, change any) any {
	object, ok := change.(map[string]any)
	if !ok {
		return patch.Copy(change)
	}
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for name, v := range object {
		if v == nil {
			delete(out, name)
		} else {
			out[name] = mergeInto(out[name], v)
		}
	}
	return out
}
