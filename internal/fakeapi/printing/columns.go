// Package printing has what kubectl get shows: the columns of custom resources, with the subset of JSONPath that they
// use, and Tables. Its functions are pure and run on the goroutine of their caller.
package printing

import (
	"time"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
)

// Columns returns the additionalPrinterColumns of a CRD version. Without any it is the age, as on the real
// server.
func Columns(version map[string]any) []kinds.Column {
	var out []kinds.Column
	for _, c := range obj.Maps(version, "additionalPrinterColumns") {
		path, priority := obj.String(c, "jsonPath"), int64(0)
		if p, ok := obj.Int(c, "priority"); ok {
			priority = p
		}
		kind := obj.String(c, "type")
		description := obj.String(c, "description")
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + path
		}
		out = append(out, kinds.Column{Name: obj.String(c, "name"), Type: kind, Format: obj.String(c, "format"),
			Description: description,
			Priority:    int(priority), Cell: cell(path, kind)})
	}
	if out == nil {
		out = append(out, kinds.Column{Name: "Age", Type: "date",
			Description: "CreationTimestamp is a timestamp representing the server time when this object was created.",
			Cell:        cell(".metadata.creationTimestamp", "date")})
	}
	return out
}

// cell formats the value at a path. A missing value, or one that is not of the column's type, gives an empty
// cell.
func cell(path, kind string) func(map[string]any, time.Time) any {
	find := parsePath(path)
	return func(o map[string]any, now time.Time) any {
		v := find(o)
		switch kind {
		case "integer":
			if n, ok := obj.Int(map[string]any{"v": v}, "v"); ok {
				return n
			}
		case "number":
			switch v.(type) {
			case int64, float64:
				return v
			}
		case "boolean":
			if b, ok := v.(bool); ok {
				return b
			}
		case "date":
			if s, ok := v.(string); ok {
				return kinds.Since(s, now)
			}
		case "string":
			return printed(v)
		}
		return nil
	}
}
