package patch

import (
	"errors"
	"fmt"
	"strings"
)

// Directives of a strategic merge patch, spelled as in k8s.io/apimachinery/pkg/util/strategicpatch.
const (
	directivePatch       = "$patch"                    // delete or replace, in an object
	directiveRetainKeys  = "$retainKeys"               // the fields that may stay
	prefixDeleteFromList = "$deleteFromPrimitiveList/" // scalars to take out of a list
	prefixElementOrder   = "$setElementOrder/"         // the order of a list after the patch
)

// Errors of a strategic merge patch, found with errors.Is. The HTTP codes are those of a v1.36 API server.
var (
	ErrBadStrategicPatch = errors.New("invalid patch format")               // 400: $retainKeys and the fields disagree
	ErrStrategicMismatch = errors.New("strategic merge patch does not fit") // 500: no merge key, a bad directive ...
	ErrListOfLists       = errors.New("lists of lists are not supported")   // 422
)

// StrategicMerge applies a strategic merge patch: a merge patch in which the Merge lists of n are merged item by item,
// and which may hold directives. n must not be nil: without a schema there is no strategic merge patch, and the API
// server answers 415.
//
// Nulls delete and are never stored. The order of a merged list is that of $setElementOrder, else of the patch; items
// only in target keep their places as far as possible.
func StrategicMerge(n *Node, target, patch map[string]any) (map[string]any, error) {
	out, err := mergeObject(n, copyMap(target), copyMap(patch))
	if err != nil {
		return nil, fmt.Errorf("apply strategic merge patch: %w", err)
	}
	return out, nil
}

// mergeObject may change both arguments.
func mergeObject(n *Node, target, patch map[string]any) (map[string]any, error) {
	if directive, ok := patch[directivePatch]; ok {
		delete(patch, directivePatch)
		switch directive {
		case "replace":
			return patch, nil
		case "delete":
			return map[string]any{}, nil
		}
		// "merge" is unknown, too.
		return nil, fmt.Errorf("%w: unknown patch type: %v", ErrStrategicMismatch, directive)
	}
	if err := retainKeys(target, patch); err != nil {
		return nil, err
	}
	if err := mergeOrderedLists(n, target, patch); err != nil {
		return nil, err
	}
	for _, key := range sortedKeys(patch) {
		var err error
		if name, ok := strings.CutPrefix(key, prefixDeleteFromList); ok {
			err = deleteScalars(target, name, patch[key])
		} else {
			err = mergeField(n.Field(key), target, key, patch[key])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return target, nil
}

func mergeField(n *Node, target map[string]any, name string, v any) error {
	if v == nil {
		delete(target, name)
		return nil
	}
	old, present := target[name]
	switch v := v.(type) {
	case map[string]any:
		if old, ok := old.(map[string]any); ok && (n == nil || !n.Replace) {
			merged, err := mergeObject(n, old, v)
			target[name] = merged
			return err
		}
	case []any:
		if old, ok := old.([]any); ok && present && n != nil && n.Merge {
			merged, err := mergeList(n, old, v)
			target[name] = merged
			return err
		}
	}
	// Nothing to merge with: the value itself, without nulls and directives.
	delete(target, name)
	if v, keep := stripped(v); keep {
		target[name] = v
	}
	return nil
}

// stripped returns v without nulls and directives; not to be kept is an object with a $patch.
func stripped(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v[directivePatch]; ok {
			return nil, false
		}
		out := make(map[string]any, len(v))
		for name, field := range v {
			if field == nil || isDirective(name) {
				continue
			}
			if field, keep := stripped(field); keep {
				out[name] = field
			}
		}
		return out, true
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			if item, keep := stripped(item); keep {
				out = append(out, item)
			}
		}
		return out, true
	}
	return v, true
}

func isDirective(name string) bool {
	return name == directivePatch || name == directiveRetainKeys ||
		strings.HasPrefix(name, prefixDeleteFromList) || strings.HasPrefix(name, prefixElementOrder)
}

// retainKeys removes the fields of target not listed in $retainKeys. A field set by the patch must be listed.
func retainKeys(target, patch map[string]any) error {
	directive, ok := patch[directiveRetainKeys]
	if !ok {
		return nil
	}
	delete(patch, directiveRetainKeys)
	list, ok := directive.([]any)
	if !ok {
		return fmt.Errorf("%w: %s must be a list", ErrBadStrategicPatch, directiveRetainKeys)
	}
	retained := map[string]bool{}
	for _, v := range list {
		if s, ok := v.(string); ok {
			retained[s] = true
		}
	}
	for name, v := range patch {
		if v != nil && !isDirective(name) && !retained[name] {
			return fmt.Errorf("%w: %s does not list the field %s", ErrBadStrategicPatch, directiveRetainKeys, name)
		}
	}
	for name := range target {
		if !retained[name] {
			delete(target, name)
		}
	}
	return nil
}
