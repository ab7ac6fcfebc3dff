package forms

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// Accept is the form of answer that a client asks for.
type Accept struct {
	Protobuf     bool
	Table        bool
	MetadataOnly bool          // PartialObjectMetadata or its list
	Include      string        // includeObject
	Meta         string        // the apiVersion of a Table or of metadata alone
	Ahead        time.Duration // how far the server's clock is ahead, for ages
}

// streams are the media types of watches.
const streams = "application/json;stream=watch, " + ProtobufType + ";stream=watch"

// NoWatch refuses a watch in a form that has no frames.
func NoWatch() error {
	return httpd.NotAcceptable("only the following media types are accepted: " + streams)
}

func isJSON(c httpd.Clause) bool {
	return c.MediaType == "application/json" || c.MediaType == "*/*" || c.MediaType == "application/*"
}

// PrefersProtobuf reports whether a client prefers protobuf, and the kind has that form. An error, for which k is nil,
// always has it, and is never a Table or metadata alone.
func PrefersProtobuf(r *http.Request, k *kinds.Kind) bool {
	if k != nil && (k.Custom || protobufForm(k) == nil) {
		return false
	}
	for _, c := range httpd.Accepted(r) {
		switch {
		case k == nil && c.Params["as"] != "":
		case c.MediaType == ProtobufType && c.Params["as"] == "":
			return true
		case isJSON(c), c.MediaType == yamlType:
			return false
		}
	}
	return false
}

// Negotiate reads the Accept header of a client that does not prefer protobuf for whole objects; metadata alone has
// that form for all kinds. collection says whether a list or a watch is asked for, tables whether there is a Table of
// what is asked for.
func Negotiate(r *http.Request, k *kinds.Kind, collection, tables bool) (Accept, error) {
	if r.Header.Get("Accept") == "" {
		return Accept{}, nil
	}
	takesJSON := false
	for _, c := range httpd.Accepted(r) {
		as, version := c.Params["as"], c.Params["v"]
		inProtobuf := c.MediaType == ProtobufType && strings.HasPrefix(as, "PartialObjectMetadata")
		if !inProtobuf && !isJSON(c) {
			continue
		}
		takesJSON = takesJSON || !inProtobuf
		if as != "" && (c.Params["g"] != "meta.k8s.io" || version != "v1" && version != "v1beta1") ||
			as == "Table" && !tables {
			continue
		}
		a := Accept{Protobuf: inProtobuf, Include: r.URL.Query().Get("includeObject"), Meta: "meta.k8s.io/" + version}
		switch as {
		case "":
		case "Table":
			a.Table = true
			if !slices.Contains([]string{"", "None", "Metadata", "Object"}, a.Include) {
				return a, httpd.BadRequest("Unable to convert to Table as requested: includeObject: Invalid "+
					"value: %q: must be 'Metadata', 'Object', 'None', or empty", a.Include)
			}
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			a.MetadataOnly = true
		default:
			continue
		}
		return a, nil
	}
	all := "application/json, " + yamlType + ", " + ProtobufType
	message := "only the following media types are accepted: " + all
	if !takesJSON && !k.Custom { // the answer of the real server's router, which does not handle custom resources
		message = httpd.RouterNotAcceptable + "\n\nAvailable representations: " + all
		if collection {
			message += ", " + streams
		}
	}
	return Accept{}, httpd.NotAcceptable(message)
}

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

const yamlType = "application/yaml"

// InJSON returns a request for the same in JSON, if a client asks for YAML before that, and else nil.
func InJSON(r *http.Request) *http.Request {
	for _, c := range httpd.Accepted(r) {
		switch {
		case c.MediaType == yamlType:
			out := r.Clone(r.Context())
			out.Header.Set("Accept", mime.FormatMediaType("application/json", c.Params))
			return out
		case isJSON(c), c.MediaType == ProtobufType:
			return nil
		}
	}
	return nil
}

// YAML is a writer that turns the JSON of an answer into YAML, in Close.
type YAML struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

// WriteHeader keeps the code.
func (w *YAML) WriteHeader(code int) { w.code = code }

// Write keeps a part of the answer.
func (w *YAML) Write(b []byte) (int, error) { return w.body.Write(b) }

// Close sends the answer.
func (w *YAML) Close() {
	body := w.body.Bytes()
	if v, _, err := obj.Decode(body); err == nil {
		var text bytes.Buffer
		e := yaml.NewEncoder(&text)
		e.SetIndent(2)
		if err := e.Encode(v); err == nil {
			w.Header().Set("Content-Type", yamlType)
			body = text.Bytes()
		}
	}
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(cmp.Or(w.code, http.StatusOK))
	w.ResponseWriter.Write(body) // an error means that the client is gone
}
