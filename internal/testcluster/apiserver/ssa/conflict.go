package ssa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/testcluster/apiserver/obj"
)

// ConflictError is an apply that would change fields of other managers; the API server answers 409 Conflict with
// Message and the details Causes.
type ConflictError struct {
	Message string
	Causes  []obj.Cause // one for each field of another manager
}

func (e *ConflictError) Error() string { return e.Message }

// conflicts returns the changed fields that managers other than id own, sorted by manager and field.
func (m managers) conflicts(id managerID, changed set) []obj.Cause {
	var out []obj.Cause
	for other, entry := range m {
		if other == id {
			continue
		}
		entry.fields.intersect(changed).paths(nil, func(path []string) {
			out = append(out, obj.Cause{Reason: "FieldManagerConflict", Message: "conflict with " + other.describe(),
				Field: pathString(path)})
		})
	}
	slices.SortFunc(out, func(a, b obj.Cause) int {
		return cmp.Or(strings.Compare(a.Message, b.Message), strings.Compare(a.Field, b.Field))
	})
	return out
}

func (id managerID) describe() string {
	s := fmt.Sprintf("%q", id.name)
	if id.subresource != "" {
		s += fmt.Sprintf(" with subresource %q", id.subresource)
	}
	if id.operation == opUpdate {
		s += " using " + id.apiVersion
	}
	return s
}

func newConflictError(conflicts []obj.Cause) *ConflictError {
	e := &ConflictError{Causes: conflicts}
	if len(conflicts) == 1 {
		e.Message = "Apply failed with 1 conflict: " + conflicts[0].Message + ": " + conflicts[0].Field
		return e
	}
	var lines []string
	for i, c := range conflicts {
		if i == 0 || conflicts[i-1].Message != c.Message {
			lines = append(lines, strings.Replace(c.Message, "conflict", "conflicts", 1)+":")
		}
		lines = append(lines, "- "+c.Field)
	}
	e.Message = fmt.Sprintf("Apply failed with %d conflicts: %s", len(conflicts), strings.Join(lines, "\n"))
	return e
}
