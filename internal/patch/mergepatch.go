package patch

// MergePatch applies a JSON merge patch (RFC 7386): objects are merged field by field, null removes, and everything
// else, a list too, replaces. It cannot fail: each JSON value is a valid merge patch. (The API server wants an object
// on both sides; that check is its own.)
func MergePatch(target, patch any) any {
	if _, ok := patch.(map[string]any); !ok {
		return Copy(patch)
	}
	return mergeInto(Copy(target), patch)
}

// mergeInto changes target.
func mergeInto(target, patch any) any {
	object, ok := patch.(map[string]any)
	if !ok {
		return Copy(patch)
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
