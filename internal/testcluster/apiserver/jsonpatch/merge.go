package jsonpatch

import "skiff/internal/runtime/patch"

// Merge applies a JSON merge patch (RFC 7386): objects are merged field by field, null removes, and everything
// else, a list too, replaces. It cannot fail: each JSON value is a valid merge patch. (The API server wants an object
// on both sides; that check is its own.)
func Merge(target, change any) any {
	return mergeInto(patch.Copy(target), change)
}

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
