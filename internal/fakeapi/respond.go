package fakeapi

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/fields"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// encode returns an object in the form of a kind's endpoint: with apiVersion and kind, which stored objects do not
// have.
func encode(k *kinds.Kind, o *store.Object) ([]byte, error) {
	view, err := viewOf(k, o)
	if err != nil {
		return nil, err
	}
	return appendObject(make([]byte, 0, o.Size()+typeLength), k, o, view, true), nil
}

// viewOf returns the JSON of an object whose stored form is not the served one, nil if it is.
func viewOf(k *kinds.Kind, o *store.Object) ([]byte, error) {
	if isServedForm(k, o) {
		return nil, nil
	}
	return patch.Encode(k.View(o.Value()))
}

// appendObject appends an object, which has metadata at least, with kind and apiVersion if typed is set.
func appendObject(out []byte, k *kinds.Kind, o *store.Object, view []byte, typed bool) []byte {
	if typed {
		out = appendType(out, k)
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

// appendType appends the start of an object of a kind.
func appendType(out []byte, k *kinds.Kind) []byte {
	out = append(out, `{"kind":`...)
	out = strconv.AppendQuote(out, k.Kind)
	out = append(out, `,"apiVersion":`...)
	return strconv.AppendQuote(out, k.APIVersion())
}

// withType adds apiVersion and kind to the front of an object's JSON.
func withType(k *kinds.Kind, body []byte) []byte {
	out := appendType(make([]byte, 0, len(body)+typeLength), k)
	if string(body) != "{}" {
		out = append(out, ',')
	}
	return append(out, body[1:]...)
}

// isServedForm reports whether the stored form is the served form.
func isServedForm(k *kinds.Kind, o *store.Object) bool {
	return k.View == nil || o.Shape != nil && o.Shape == k.Shape
}

// servedForm returns a stored object in the form of a kind's endpoint. It shares memory with the store.
func servedForm(k *kinds.Kind, o *store.Object) map[string]any {
	if isServedForm(k, o) {
		return typed(k, o.Value())
	}
	return typed(k, k.View(o.Value()))
}

// servedCopy returns a copy of servedForm that the caller may change.
func servedCopy(k *kinds.Kind, o *store.Object) map[string]any { return obj.Clone(servedForm(k, o)) }

// decoded replaces the stored text of fieldsV1 in an object's managedFields by decoded values. It changes o.
func decoded(o map[string]any) map[string]any {
	for _, entry := range obj.Maps(o, "metadata", "managedFields") {
		if text, ok := entry["fieldsV1"].(patch.Text); ok {
			if v, err := patch.Decode([]byte(text.String())); err == nil { // always: package ssa wrote it
				entry["fieldsV1"] = v
			}
		}
	}
	return o
}

// accept is the form of answer that a client asks for.
type accept struct {
	protobuf     bool // only lists and watches
	table        bool
	metadataOnly bool   // PartialObjectMetadata or its list
	include      string // includeObject
}

// negotiateList is negotiate for a list or watch, which is also served in protobuf.
func negotiateList(r *request) (accept, error) {
	if prefersProtobuf(r) {
		return accept{protobuf: true}, nil
	}
	return negotiate(r)
}

// negotiate reads the Accept header. A client that accepts JSON gets JSON, even if it prefers protobuf.
func negotiate(r *request) (accept, error) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if header == "" {
		return accept{}, nil
	}
	isJSON := false
	for part := range strings.SplitSeq(header, ",") {
		mt, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		if mt != "application/json" && mt != "*/*" && mt != "application/*" {
			continue
		}
		isJSON = true
		a := accept{include: r.query.Get("includeObject")}
		as, version := params["as"], params["v"]
		if as != "" && params["g"] != "meta.k8s.io" {
			continue
		}
		switch as {
		case "":
			return a, nil
		case "Table":
			if version != "v1" {
				continue
			}
			a.table = true
			if !slices.Contains([]string{"", "None", "Metadata", "Object"}, a.include) {
				return a, answer.BadRequest("Unable to convert to Table as requested: includeObject: Invalid "+
					"value: %q: "+
					"must be 'Metadata', 'Object', 'None', or empty", a.include)
			}
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			if version != "v1" {
				continue
			}
			a.metadataOnly = true
		default:
			continue
		}
		return a, nil
	}
	message := "only the following media types are accepted: application/json"
	if !isJSON && !r.kind.Custom { // the answer of the real server's router, which does not handle custom resources
		message = answer.RouterNotAcceptable + "\n\nAvailable representations: application/json"
	}
	return accept{}, answer.Failure(http.StatusNotAcceptable, "NotAcceptable", message, answer.NoDetails)
}

// protobufType is the media type that typed clients send objects in.
const protobufType = "application/vnd.kubernetes.protobuf"

// readValue decodes a JSON, YAML or protobuf body of the expected kind. duplicates are the paths of duplicate fields,
// or of YAML complaints about its lines.
func readValue(r *http.Request, body []byte, expected kube.Resource) (value any, duplicates []string, err error) {
	mt := "application/json"
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if mt, _, err = mime.ParseMediaType(ct); err != nil {
			return nil, nil, answer.UnsupportedMediaType("the media type %q cannot be read", ct)
		}
	}
	switch mt {
	case "application/json", "application/x-www-form-urlencoded": // curl -d without a header sends the latter
		return patch.DecodeLenient(body)
	case "application/yaml":
		return obj.DecodeYAML(body)
	case protobufType:
		if fields.For(expected.APIVersion(), expected.Kind) != nil { // custom resources have no protobuf form
			value, err = readProtobuf(body, expected)
			return value, nil, err
		}
	}
	return nil, nil, answer.UnsupportedMediaType("the body of the request was in an unknown format - accepted "+
		"media types "+
		"include: application/json, application/yaml, %s", protobufType)
}

// readProtobuf decodes a protobuf body. The error is a Status.
func readProtobuf(body []byte, expected kube.Resource) (map[string]any, error) {
	o, err := fields.DecodeProtobuf(body, expected.APIVersion(), expected.Kind)
	switch {
	case err == nil:
		return o, nil
	case o == nil:
		return nil, answer.BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)",
			expected.Kind, err, excerpt(body))
	}
	return nil, answer.BadRequest("%s in version %q cannot be handled as a %s: %v", o["kind"],
		expected.Version, expected.Kind, err)
}
