// Package forms has the forms in which objects come and go: JSON, YAML and protobuf bodies, the JSON and protobuf of
// answers, whole objects, metadata alone and the Tables of kubectl get, and which of them a client asks for. Its
// functions keep no state and run on the goroutine of the request.
package forms

import (
	"slices"
	"strconv"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// Encode returns an object in the form of a kind's endpoint: with apiVersion and kind, which stored objects do not
// have.
func Encode(k *kinds.Kind, o *store.Object) ([]byte, error) {
	view, err := ViewOf(k, o)
	if err != nil {
		return nil, err
	}
	return AppendObject(make([]byte, 0, o.Size()+typeLength), k, o, view, true), nil
}

// ViewOf returns the JSON of an object whose stored form is not the served one, nil if it is.
func ViewOf(k *kinds.Kind, o *store.Object) ([]byte, error) {
	if isServedForm(k, o) {
		return nil, nil
	}
	return patch.Encode(k.View(o.Value()))
}

// AppendObject appends an object, which has metadata at least, with kind and apiVersion if typed is set.
func AppendObject(out []byte, k *kinds.Kind, o *store.Object, view []byte, typed bool) []byte {
	if typed {
		out = AppendType(out, k.Resource)
	}
	start := len(out)
	if view != nil {
		out = append(out, view...)
	} else {
		out = o.AppendJSON(out)
	}
	if typed {
		out[start] = ',' // instead of its brace
	}
	return out
}

// typeLength is more than most kinds and apiVersions take.
const typeLength = 100

// AppendType appends the start of an object of a kind.
func AppendType(out []byte, k kube.Resource) []byte {
	out = append(out, `{"kind":`...)
	out = strconv.AppendQuote(out, k.Kind)
	out = append(out, `,"apiVersion":`...)
	return strconv.AppendQuote(out, k.APIVersion())
}

// WithType adds apiVersion and kind to the front of an object's JSON.
func WithType(k kube.Resource, body []byte) []byte {
	out := AppendType(make([]byte, 0, len(body)+typeLength), k)
	if string(body) != "{}" {
		out = append(out, ',')
	}
	return append(out, body[1:]...)
}

func isServedForm(k *kinds.Kind, o *store.Object) bool {
	return k.View == nil || o.Shape != nil && o.Shape == k.Shape
}

// Served returns a stored object in the form of a kind's endpoint. It shares memory with the store.
func Served(k *kinds.Kind, o *store.Object) map[string]any {
	if isServedForm(k, o) {
		return Typed(k, o.Value())
	}
	return Typed(k, k.View(o.Value()))
}

// ServedCopy returns a copy of servedForm that the caller may change.
func ServedCopy(k *kinds.Kind, o *store.Object) map[string]any { return obj.Clone(Served(k, o)) }

// Decoded replaces the stored text of fieldsV1 in an object's managedFields by decoded values. It changes o.
func Decoded(o map[string]any) map[string]any {
	for _, entry := range obj.Maps(o, "metadata", "managedFields") {
		if text, ok := entry["fieldsV1"].(patch.Text); ok {
			if v, _, err := obj.Decode([]byte(text.String())); err == nil { // always: package ssa wrote it
				entry["fieldsV1"] = v
			}
		}
	}
	return o
}

// Typed returns a shallow copy of an object with apiVersion and kind, nil for nil.
func Typed(k *kinds.Kind, o map[string]any) map[string]any {
	if o == nil {
		return nil
	}
	o = obj.Shallow(o)
	o["apiVersion"], o["kind"] = k.APIVersion(), k.Kind
	return o
}

// Untyped drops apiVersion and kind from an object, which it returns.
func Untyped(o map[string]any) map[string]any {
	delete(o, "apiVersion")
	delete(o, "kind")
	return o
}

// Partial returns metadata alone.
func Partial(metadata any, a Accept) map[string]any {
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": a.Meta, "metadata": metadata}
}

// EncodePartial encodes what Partial returned, or a list of that.
func EncodePartial(o map[string]any, a Accept) []byte {
	body := httpd.Encode(o)
	if kind := obj.String(o, "kind"); a.Protobuf {
		return must(schema.For("v1", kind).Encode(a.Meta, kind, body))
	}
	return body
}

// nameColumn is the first column of every Table.
var nameColumn = kinds.Column{Name: "Name", Type: "string", Format: "name",
	Description: "Name must be unique within a namespace.",
	Cell:        func(o map[string]any, _ time.Time) any { return obj.String(o, "metadata", "name") }}

// Table answers a request for a Table, as kubectl get sends it: cells formatted by the server. A watch sends
// the columns once. includeObject decides what the rows contain of the objects.
func Table(k *kinds.Kind, objects []*store.Object, a Accept, revision int64, columns bool) map[string]any {
	out := map[string]any{"kind": "Table", "apiVersion": a.Meta, "metadata": map[string]any{},
		"columnDefinitions": nil}
	if revision > 0 {
		out["metadata"] = map[string]any{"resourceVersion": strconv.FormatInt(revision, 10)}
	}
	all := k.Columns
	if !slices.ContainsFunc(all, func(c kinds.Column) bool { return c.Name == "Name" }) { // the last column of Events
		all = append([]kinds.Column{nameColumn}, all...)
	}
	if columns {
		out["columnDefinitions"] = obj.Each(all, definition)
	}
	now := time.Now().Add(a.Ahead)
	rows := make([]any, 0, len(objects))
	if len(objects) == 0 && len(k.Columns) > 0 && k.Columns[0].Name == "Created At" {
		rows = nil // the real server's printer for kinds that have none of their own
	}
	for _, o := range objects {
		cells := obj.Each(all, func(c kinds.Column) any { return c.Cell(o.Value(), now) })
		rows = append(rows, map[string]any{"cells": cells, "object": rowObject(k, o, a)})
	}
	out["rows"] = rows
	return out
}

func definition(c kinds.Column) any {
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
	return Partial(o.Value()["metadata"], a)
}
