package ssa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ConflictError is an apply that would change fields of other managers; the API server answers 409 Conflict with
// Message and the details Causes.
type ConflictError struct {
	Message string
	Causes  []Cause
}

// Cause is one field of one other manager. The reason is always FieldManagerConflict.
type Cause struct{ Message, Field string }

func (e *ConflictError) Error() string { return e.Message }

type conflict struct{ manager, field string }

// conflicts returns the changed fields that managers other than id own, sorted by manager and field.
func (m managers) conflicts(id managerID, changed set) []conflict {
	var out []conflict
	for other, entry := range m {
		if other == id {
			continue
		}
		entry.fields.intersect(changed).paths(nil, func(path []string) {
			out = append(out, conflict{other.describe(), pathString(path)})
		})
	}
	slices.SortFunc(out, func(a, b conflict) int {
		return cmp.Or(strings.Compare(a.manager, b.manager), strings.Compare(a.field, b.field))
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

func newConflictError(conflicts []conflict) *ConflictError {
	e := &ConflictError{}
	for _, c := range conflicts {
		e.Causes = append(e.Causes, Cause{"conflict with " + c.manager, c.field})
	}
	if len(conflicts) == 1 {
		e.Message = fmt.Sprintf("Apply failed with 1 conflict: conflict with %s: %s",
			conflicts[0].manager, conflicts[0].field)
		return e
	}
	var lines []string
	for i, c := range conflicts {
		if i == 0 || conflicts[i-1].manager != c.manager {
			lines = append(lines, fmt.Sprintf("conflicts with %s:", c.manager))
		}
		lines = append(lines, "- "+c.field)
	}
	e.Message = fmt.Sprintf("Apply failed with %d conflicts: %s", len(conflicts), strings.Join(lines, "\n"))
	return e
}
