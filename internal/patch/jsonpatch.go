package patch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxJSONPatchOperations is the API server's limit for one JSON patch; it answers 413 above it.
const MaxJSONPatchOperations = 10000

// maxJSONPatchNodes bounds what copy operations may build: doubling a value 10,000 times over would not fit into any
// memory. The largest object the API server stores, 1.5 MiB, has fewer values than this.
const maxJSONPatchNodes = 1 << 20

// What is wrong with a JSON patch, found with errors.Is; fakeapi makes the HTTP code of it.
var (
	ErrMalformedPatch = errors.New("malformed patch")     // 400: not a list of operations with op, path, from
	ErrTooManyOps     = errors.New("too many operations") // 413
	ErrTestFailed     = errors.New("test failed")         // 422: a test operation found another value
	ErrMissingPath    = errors.New("missing value")       // 422: a path leads nowhere in this document
	ErrTooLarge       = errors.New("result too large")    // 422: copy operations blew the document up
)

// JSONPatch applies a JSON patch (RFC 6902), a list of operations, to doc. All operations apply, or an error that wraps
// one of the Err values above says which one did not.
func JSONPatch(doc, ops any) (any, error) {
	list, ok := ops.([]any)
	if !ok {
		return nil, fmt.Errorf("apply JSON patch: %w: want a list of operations", ErrMalformedPatch)
	}
	if len(list) > MaxJSONPatchOperations {
		return nil, fmt.Errorf("The allowed maximum operations in a JSON patch is %d, got %d: %w", //nolint:staticcheck // the API server's words
			MaxJSONPatchOperations, len(list), ErrTooManyOps)
	}
	p := jsonPatcher{root: Copy(doc)}
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

type jsonOp struct {
	op, path, from string
	value          any
}

func parseOp(item any) (jsonOp, error) {
	m, ok := item.(map[string]any)
	if !ok {
		return jsonOp{}, fmt.Errorf("%w: an operation is an object", ErrMalformedPatch)
	}
	var op jsonOp
	for _, f := range []struct {
		name string
		to   *string
	}{{"op", &op.op}, {"path", &op.path}, {"from", &op.from}} {
		v, present := m[f.name]
		if f.name == "from" && op.op != "move" && op.op != "copy" {
			continue
		}
		text, ok := v.(string)
		if !ok {
			return op, fmt.Errorf("%w: operation needs the string field %q", ErrMalformedPatch, f.name)
		}
		if *f.to = text; present && f.name != "op" && text != "" && text[0] != '/' {
			return op, fmt.Errorf("%w: %s %q does not begin with /", ErrMalformedPatch, f.name, text)
		}
	}
	value, present := m["value"]
	switch op.op {
	case "add", "replace", "test":
		if !present {
			return op, fmt.Errorf("%w: %s needs a value", ErrMalformedPatch, op.op)
		}
	case "remove", "move", "copy":
	default:
		return op, fmt.Errorf("%w: unexpected kind: %s", ErrMalformedPatch, op.op)
	}
	op.value = value
	return op, nil
}

type jsonPatcher struct {
	root   any
	copied int // values made by copy operations so far
}

func (p *jsonPatcher) apply(op jsonOp) error {
	switch op.op {
	case "add":
		return p.change(op.path, insert, Copy(op.value))
	case "replace":
		return p.change(op.path, replace, Copy(op.value))
	case "remove":
		return p.change(op.path, remove, nil)
	case "test":
		v, err := p.get(op.path)
		if err == nil && !Equal(v, op.value) {
			err = fmt.Errorf("testing value %s failed: %w", op.path, ErrTestFailed)
		}
		return err
	}
	v, err := p.get(op.from)
	if err != nil {
		return err
	}
	if op.op == "copy" {
		if p.copied += size(v); p.copied > maxJSONPatchNodes {
			return fmt.Errorf("copy %s: %w", op.from, ErrTooLarge)
		}
		return p.change(op.path, insert, Copy(v))
	}
	if op.path == op.from {
		return nil
	}
	if strings.HasPrefix(op.path, op.from+"/") {
		return fmt.Errorf("move %s into itself: %w", op.from, ErrMissingPath)
	}
	if err := p.change(op.from, remove, nil); err != nil {
		return err
	}
	return p.change(op.path, insert, v)
}

func (p *jsonPatcher) get(path string) (any, error) {
	v := p.root
	for _, key := range tokens(path) {
		next, ok := child(v, key)
		if !ok {
			return nil, fmt.Errorf("path %s: %w", path, ErrMissingPath)
		}
		v = next
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
		if i, ok := index(key); ok && i < len(v) {
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

func (p *jsonPatcher) change(path string, kind changeKind, value any) error {
	root, ok := changeAt(p.root, tokens(path), kind, value)
	if !ok {
		return fmt.Errorf("path %s: %w", path, ErrMissingPath)
	}
	p.root = root
	return nil
}

// changeAt returns v with the change made below it; lists are new where their length changed.
func changeAt(v any, keys []string, kind changeKind, value any) (any, bool) {
	if len(keys) == 0 {
		return value, kind != remove // to remove the whole document leaves nothing to store
	}
	key, last := keys[0], len(keys) == 1
	if !last || kind == replace {
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
		return changeField(v, key, kind, value)
	case []any:
		return changeItem(v, key, kind, value)
	}
	return nil, false
}

func changeField(m map[string]any, key string, kind changeKind, value any) (any, bool) {
	if kind == remove {
		_, ok := m[key]
		delete(m, key)
		return m, ok
	}
	m[key] = value
	return m, true
}

func changeItem(list []any, key string, kind changeKind, value any) (any, bool) {
	i, ok := index(key)
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
func tokens(path string) []string {
	if path == "" {
		return nil
	}
	keys := strings.Split(path[1:], "/")
	for i, k := range keys {
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(k, "~1", "/"), "~0", "~")
	}
	return keys
}

// index reads a list index: digits without a leading zero.
func index(key string) (int, bool) {
	i, err := strconv.Atoi(key)
	return i, err == nil && i >= 0 && strconv.Itoa(i) == key
}

func size(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, w := range v {
			n += size(w)
		}
	case []any:
		for _, w := range v {
			n += size(w)
		}
	}
	return n
}
