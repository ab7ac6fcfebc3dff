package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// prune prunes the unknown fields of an object, and returns their paths: first those of its metadata, as the real
// server names those of a custom resource.
func prune(k *kinds.Kind, o map[string]any) (unknown []string) {
	for _, path := range schema.ObjectMeta().Prune(obj.Map(o, "metadata")) {
		unknown = append(unknown, "metadata."+path)
	}
	if k.Unknown != nil {
		unknown = append(unknown, k.Unknown(o)...)
	}
	if !k.Custom {
		slices.Sort(unknown)
	}
	return unknown
}

// inOrder returns what strict decoding finds in a body of a built-in kind, in the order of its text: unknown fields,
// and repeated ones that are known.
func inOrder(body []byte, unknown []string) []string {
	f := finder{text: json.NewDecoder(bytes.NewReader(body)), unknown: map[string]bool{}, found: map[string]bool{}}
	f.text.UseNumber()
	for _, path := range unknown {
		f.unknown[path] = true
	}
	f.value("")
	return f.complaints
}

// finder walks over a body that was decoded before, so that it is valid and not nested too deep.
type finder struct {
	text       *json.Decoder
	unknown    map[string]bool
	found      map[string]bool
	complaints []string
}

func (f *finder) value(path string) {
	switch open, _ := f.text.Token(); open {
	case json.Delim('['):
		for i := 0; f.text.More(); i++ {
			f.value(fmt.Sprintf("%s[%d]", path, i))
		}
	case json.Delim('{'):
		f.fields(path)
	default:
		return
	}
	_, _ = f.text.Token() // the end of it, which More has seen
}

func (f *finder) fields(path string) {
	names := map[string]bool{}
	for f.text.More() {
		token, _ := f.text.Token()
		name, _ := token.(string)
		at := strings.TrimPrefix(path+"."+patch.Short(name), ".")
		if f.unknown[at] {
			f.complain("unknown field", at)
			var ignored json.RawMessage
			_ = f.text.Decode(&ignored) // nothing in it is looked at
			continue
		}
		if names[name] {
			f.complain("duplicate field", at)
		}
		names[name] = true
		f.value(at)
	}
}

// complain says once what is wrong with a field.
func (f *finder) complain(what, path string) {
	if !f.found[path] && len(f.complaints) < maxComplaints {
		f.complaints = append(f.complaints, fmt.Sprintf("%s %q", what, path))
		f.found[path] = true
	}
}

// complaintsOf are those about duplicate fields, by their paths or in words, and then about unknown fields.
func complaintsOf(duplicates, unknown []string) (complaints []string) {
	for _, d := range duplicates {
		if !inYAML(d) {
			d = fmt.Sprintf("duplicate field %q", d)
		}
		if !slices.Contains(complaints, d) {
			complaints = append(complaints, d)
		}
	}
	for _, u := range unknown {
		complaints = append(complaints, fmt.Sprintf("unknown field %q", u))
	}
	return complaints
}

// maxComplaints is how many fields are named; the real server has the same limit.
const maxComplaints = 100

// report refuses, returns as warnings or ignores the complaints of strict validation, as fieldValidation says. The
// error has the words of the strict decoder.
func report(r *request, complaints []string) error {
	complaints = complaints[:min(len(complaints), maxComplaints)]
	switch r.query.Get("fieldValidation") {
	case "Strict":
		if len(complaints) > 0 {
			return fmt.Errorf("strict decoding error: %s", strings.Join(joinYAML(complaints), ", "))
		}
	case "", "Warn":
		for _, c := range complaints {
			httpd.Warn(r.writer, c)
		}
	}
	return nil
}

// inYAML reports whether a complaint is about a line of YAML, and not the path of a field of JSON.
func inYAML(complaint string) bool { return strings.HasPrefix(complaint, "line ") }

// joinYAML makes one complaint of those about lines, as the YAML parser of the real server does.
func joinYAML(complaints []string) []string {
	n := 0
	for n < len(complaints) && inYAML(complaints[n]) {
		n++
	}
	if n == 0 {
		return complaints
	}
	first := "yaml: unmarshal errors:\n  " + strings.Join(complaints[:n], "\n  ")
	return append([]string{first}, complaints[n:]...)
}
