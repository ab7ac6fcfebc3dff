package forms

import (
	"encoding/hex"
	"errors"
	"mime"
	"net/http"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// ProtobufType is the media type that typed clients send objects in.
const ProtobufType = "application/vnd.kubernetes.protobuf"

// ReadValue decodes a JSON, YAML or protobuf body of the expected kind. duplicates are the paths of duplicate fields,
// or of YAML complaints about its lines.
func ReadValue(r *http.Request, body []byte, expected kube.Resource) (value any, duplicates []string, err error) {
	mt := "application/json"
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if mt, _, err = mime.ParseMediaType(ct); err != nil {
			return nil, nil, httpd.UnsupportedMediaType("the media type %q cannot be read", ct)
		}
	}
	switch mt {
	case "application/json":
		return obj.Decode(body)
	case yamlType:
		if value, duplicates, err = obj.DecodeYAML(body); err != nil {
			err = unrecognized(expected, errors.Unwrap(err), body)
		}
		return value, duplicates, err
	case ProtobufType:
		if schema.For(expected.APIVersion(), expected.Kind) != nil { // custom resources have no protobuf form
			value, err = readProtobuf(body, expected)
			return value, nil, err
		}
	}
	return nil, nil, httpd.UnsupportedMediaType("the body of the request was in an unknown format - accepted "+
		"media types "+
		"include: application/json, application/yaml, %s", ProtobufType)
}

// readProtobuf decodes a protobuf body. The error is a Status.
func readProtobuf(body []byte, expected kube.Resource) (map[string]any, error) {
	o, err := schema.DecodeProtobuf(body, expected.APIVersion(), expected.Kind)
	switch {
	case err == nil:
		return o, nil
	case o == nil:
		return nil, unrecognized(expected, err, body)
	}
	return nil, httpd.BadRequest("%s in version %q cannot be handled as a %s: %v", o["kind"],
		expected.Version, expected.Kind, err)
}

func unrecognized(expected kube.Resource, why error, body []byte) error {
	return httpd.BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)", expected.Kind, why,
		Excerpt(body))
}

const excerpt = 30 // bytes, as on the real server

// Excerpt returns the part of a body that the server quotes in errors.
func Excerpt(body []byte) string {
	more := ""
	if len(body) > excerpt {
		more = " ..."
	}
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] != '{':
		return hex.EncodeToString(body[:min(len(body), excerpt)]) + more
	}
	return string(body[:min(len(body), excerpt)]) + more
}
