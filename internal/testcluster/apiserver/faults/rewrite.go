package faults

import (
	"strings"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
)

// Rewrite changes the body of an answer, or the object of an event.
type Rewrite func(body []byte) []byte

// Poison returns a Rewrite that makes the object with this name undecodable, or all with "", alone or in a list: they
// keep their metadata, and spec and status become strings.
func Poison(name string) Rewrite {
	return rewriteObjects(func(o map[string]any) {
		if name == "" || obj.String(o, "metadata", "name") == name {
			o["spec"], o["status"] = "poison", "poison"
		}
	})
}

// Huge returns a Rewrite that adds an annotation of n bytes to each object.
func Huge(n int) Rewrite {
	return rewriteObjects(func(o map[string]any) {
		obj.Set(o, strings.Repeat("x", n), "metadata", "annotations", "huge")
	})
}

// Kindless returns a Rewrite that takes apiVersion and kind off each object.
func Kindless() Rewrite {
	return rewriteObjects(func(o map[string]any) {
		delete(o, "kind")
		delete(o, "apiVersion")
	})
}

// Nulls returns a Rewrite that makes spec, status, labels and owner references null.
func Nulls() Rewrite {
	return rewriteObjects(func(o map[string]any) {
		o["spec"], o["status"] = nil, nil
		obj.Set(o, nil, "metadata", "labels")
		obj.Set(o, nil, "metadata", "ownerReferences")
	})
}

// Stale returns a Rewrite by which aggregated discovery says of each group that it has not been reached for a while.
func Stale() Rewrite {
	return rewriteObjects(func(group map[string]any) {
		for _, version := range obj.Maps(group, "versions") {
			version["freshness"] = "Stale"
		}
	})
}

// rewriteObjects calls change on an object, or on each item of a list.
func rewriteObjects(change func(map[string]any)) Rewrite {
	return func(body []byte) []byte {
		v, _, err := obj.Decode(body)
		o, ok := v.(map[string]any)
		if err != nil || !ok {
			return body // not an object
		}
		if items := obj.Maps(o, "items"); items != nil {
			for _, item := range items {
				change(item)
			}
		} else {
			change(o)
		}
		return httpd.Encode(o)
	}
}
