package fakeapi

import (
	"fmt"
	"slices"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
)

// newFinalizers refuses new finalizers on an object that is being deleted.
func newFinalizers(k *kinds.Kind, next, old map[string]any) error {
	if obj.String(old, "metadata", "deletionTimestamp") == "" {
		return nil
	}
	var added []string
	for _, f := range obj.Slice(next, "metadata", "finalizers") {
		if !slices.Contains(obj.Slice(old, "metadata", "finalizers"), f) {
			added = append(added, fmt.Sprint(f))
		}
	}
	if added == nil {
		return nil
	}
	return refused(k, obj.String(old, "metadata", "name"), []kinds.Cause{kinds.Forbidden("metadata.finalizers",
		fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v",
			added))})
}

// isRemovable reports whether an object is being deleted and nothing delays that any more.
func isRemovable(o map[string]any) bool {
	meta := obj.Map(o, "metadata")
	grace, _ := obj.Int(meta, "deletionGracePeriodSeconds")
	return obj.String(meta, "deletionTimestamp") != "" && len(obj.Slice(meta, "finalizers")) == 0 && grace == 0 &&
		len(obj.Slice(o, "spec", "finalizers")) == 0
}
