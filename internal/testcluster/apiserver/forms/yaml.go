package forms

import (
	"bytes"
	"cmp"
	"mime"
	"net/http"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/testcluster/apiserver/obj"
)

const yamlType = "application/yaml"

// InJSON returns a request for the same in JSON, if a client asks for YAML before that, and else nil.
func InJSON(r *http.Request) *http.Request {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		switch mt, _, _ := mime.ParseMediaType(strings.TrimSpace(part)); mt {
		case yamlType:
			out := r.Clone(r.Context())
			out.Header.Set("Accept", strings.Replace(part, yamlType, "application/json", 1))
			return out
		case "application/json", "application/*", "*/*", ProtobufType:
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
