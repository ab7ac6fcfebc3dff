package forms

import (
	"slices"
	"strconv"
	"time"

	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/store"
)

// nameColumn is the first column of every Table.
var nameColumn = kinds.Column{Name: "Name", Type: "string", Format: "name",
	Description: "Name must be unique within a namespace."}

// Table answers a request for a Table, as kubectl get sends it: cells formatted by the server. A watch sends
// the columns once. includeObject decides what the rows contain of the objects.
func Table(k *kinds.Kind, objects []*store.Object, a Accept, revision int64, columns bool) map[string]any {
	out := map[string]any{"kind": "Table", "apiVersion": a.Meta, "metadata": map[string]any{},
		"columnDefinitions": nil}
	if revision > 0 {
		out["metadata"] = map[string]any{"resourceVersion": strconv.FormatInt(revision, 10)}
	}
	leading := !hasNameColumn(k) // the name is the last column of Events
	if columns {
		var defs []any
		if leading {
			defs = append(defs, definition(nameColumn))
		}
		for _, c := range k.Columns {
			defs = append(defs, definition(c))
		}
		out["columnDefinitions"] = defs
	}
	now := time.Now().Add(a.Ahead)
	rows := make([]any, 0, len(objects))
	if len(objects) == 0 && len(k.Columns) > 0 && k.Columns[0].Name == "Created At" {
		rows = nil // the real server's printer for kinds that have none of their own
	}
	for _, o := range objects {
		var cells []any
		if leading {
			cells = append(cells, o.Name)
		}
		for _, c := range k.Columns {
			cells = append(cells, c.Cell(o.Value(), now))
		}
		rows = append(rows, map[string]any{"cells": cells, "object": rowObject(k, o, a)})
	}
	out["rows"] = rows
	return out
}

func hasNameColumn(k *kinds.Kind) bool {
	return slices.ContainsFunc(k.Columns, func(c kinds.Column) bool { return c.Name == "Name" })
}

func definition(c kinds.Column) map[string]any {
	format := c.Format
	if c.Name == "Name" {
		format = "name"
	}
	return map[string]any{"name": c.Name, "type": c.Type, "format": format, "description": c.Description,
		"priority": int64(c.Priority)}
}

func rowObject(k *kinds.Kind, o *store.Object, a Accept) any {
	switch a.Include {
	case "None":
		return nil
	case "Object":
		return ServedCopy(k, o)
	}
	return Partial(o, a)
}
