package kube

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"skiff/internal/runtime/nearest"
)

// FieldError is a field refused by a server: unknown to the schema, or of another type.
type FieldError struct {
	Path    string // spec.template.spec.containers[webserver].ports[0].containerPort
	Problem string
	Unknown bool // unknown to the schema
}

// String returns the field and the fault, for an unknown field of a built-in kind with the most similar known field.
func (e FieldError) String() string {
	if e.Unknown {
		return e.Instead(nil)
	}
	return e.Path + ": " + e.Problem
}

// Instead returns the text about an unknown field with the most similar of the given fields; nil: of all known fields.
func (e FieldError) Instead(names []string) string {
	if len(names) == 0 {
		names = fieldNames()
	}
	text := e.Path + ": " + e.Problem
	if question := nearest.Ask(lastName(e.Path), names, "", ""); question != "" {
		text += ", " + question
	}
	return text
}

// lastName is the field at the end of a path.
func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

//go:embed fieldnames.txt
var fieldNamesText string

// fieldNames are those of the built-in kinds that controllers make.
var fieldNames = sync.OnceValue(func() []string { return strings.Fields(fieldNamesText) })

// FieldErrors returns the fields refused by a server, none for any other error.
func FieldErrors(err error) []FieldError {
	if s := AsStatus(err); s != nil {
		return s.fieldErrors()
	}
	return nil
}

// maxFieldErrors is how many are named.
const maxFieldErrors = 20

const (
	typedPatch    = "failed to create typed patch object"
	accessorError = "accessor error"
	unknownField  = "unknown field"
)

var (
	// strictField is a field in the words of the strict decoder.
	strictField = late(`(unknown|duplicate) field "([^"\s]{1,500})"`)
	// goField is a field in those of encoding/json. The first name is that of a Go type.
	goField = late(`json: cannot unmarshal (\w+)(?: \S+)? into Go struct field \w+\.([\w.\-/]{1,500}) of type (\S+)`)
	// typedField is a line about a typed patch.
	typedField = late(`\.([A-Za-z]\S{0,500}): (field not declared in schema|expected (\w+).*, got (\w+))`)
	// bodyField is a field in the words of a custom resource's schema.
	bodyField = late(`(\S{1,500}) in body must be of type (\w+): "(\w+)"$`)
	// keyed is a list item named by its key.
	keyed = regexp.MustCompile(`\[name="([^"]*)"\]`)
)

// late returns a pattern that is compiled with the first use: patterns that count to 500 took 7 of the 23 ms in which
// skiff started, and few processes meet a refused field.
func late(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func (s *Status) fieldErrors() []FieldError {
	if s.fields == nil {
		return fieldErrors(s, nil)
	}
	return s.fields
}

// fieldErrors reads the server's message about fields, in the words of its libraries. body is the request.
func fieldErrors(s *Status, body []byte) (found []FieldError) {
	var sent any
	if len(body) > 0 && json.Unmarshal(body, &sent) != nil {
		sent = nil
	}
	add := func(path, problem string) {
		e := FieldError{Path: Printable(byName(path, sent), 500), Problem: problem, Unknown: problem == unknownField}
		if len(found) < maxFieldErrors {
			found = append(found, e)
		}
	}
	switch text := s.Message; {
	case strings.HasPrefix(text, typedPatch):
		for _, m := range typedField().FindAllStringSubmatch(text, maxFieldErrors) {
			path := keyed.ReplaceAllString(m[1], "[$1]")
			if m[3] == "" {
				add(path, unknownField)
				continue
			}
			add(path, wanted(m[3], m[4], path, sent))
		}
	case strings.Contains(text, "strict decoding error: "):
		for _, m := range strictField().FindAllStringSubmatch(text, maxFieldErrors) {
			add(m[2], map[string]string{"unknown": unknownField, "duplicate": "is there twice"}[m[1]])
		}
	case goField().MatchString(text):
		m := goField().FindStringSubmatch(text)
		path := placeOf(strings.Split(m[2], "."), sent, typeWords(m[1]), "")
		if path == "" {
			path = m[2]
		}
		add(path, wanted(m[3], m[1], path, sent))
	case IsInvalid(s):
		return typeCauses(s, sent)
	}
	return found
}

// typeCauses are the causes of a refused custom resource if a cause is about a type; else nil.
func typeCauses(s *Status, sent any) (found []FieldError) {
	misfits := false
	for _, c := range s.Details.Causes {
		var m []string
		if strings.Contains(c.Message, " in body must be of type ") { // the pattern alone takes 1 ms for a long text
			m = bodyField().FindStringSubmatch(c.Message)
		}
		switch {
		case len(found) == maxFieldErrors, strings.Contains(c.Message, accessorError):
		case strings.HasSuffix(c.Field, ".image") && strings.Contains(c.Message, " in body should match "):
			misfits = true
			got, _ := valueAt(c.Field, sent).(string)
			found = append(found, FieldError{Path: Text(c.Field), Problem: "want an image reference, " +
				"[HOST[:PORT]/]NAME[:TAG][@DIGEST], got " + strconv.Quote(Printable(got, 100))})
		case m != nil:
			misfits = true
			found = append(found, FieldError{Path: Printable(byName(m[1], sent), 500),
				Problem: wanted(m[2], m[3], m[1], sent)})
		default:
			found = append(found, FieldError{Path: Text(c.Field), Problem: Text(c.Message)})
		}
	}
	if !misfits {
		return nil
	}
	return found
}

// kindWords say which values a type takes.
var kindWords = map[string]string{"string": "text", "bool": "true or false", "boolean": "true or false",
	"array": "a list", "list": "a list", "object": "an object", "map": "an object", "struct": "an object"}

// typeWords maps the type names of libraries to plain words.
func typeWords(name string) string {
	switch {
	case kindWords[name] != "":
		return kindWords[name]
	case name == "numeric", name == "number", strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"),
		strings.HasPrefix(name, "float"):
		return "a number"
	case strings.HasPrefix(name, "[]"):
		return "a list"
	}
	return "an object"
}

// secretField finds a field whose value may be a secret.
var secretField = regexp.MustCompile(`(?i)(^|\.)(env|args|command|data|stringData|binaryData|annotations|headers?)\b|` +
	`pass|secret|token|key|cred`)

// wanted returns the type of a field, and the given value. A text is quoted where a number was wanted, unless the text
// may be a secret.
func wanted(want, got, path string, sent any) string {
	want, got = typeWords(want), typeWords(got)
	text, isText := valueAt(path, sent).(string)
	if isText && got == "text" && (want == "a number" || want == "true or false") && !secretField.MatchString(path) {
		got = strconv.Quote(Printable(text, 40))
	}
	return "want " + want + ", got " + got
}

// pathStep is a step of a path: a field, or an item by index or name.
var pathStep = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// valueAt returns the value at a path, nil if there is none.
func valueAt(path string, v any) any {
	for _, s := range pathStep.FindAllString(path, -1) {
		name, item := strings.CutPrefix(s, "[")
		name = strings.TrimSuffix(name, "]")
		if list, ok := v.([]any); ok && item {
			v = itemAt(list, name)
			continue
		}
		o, ok := v.(map[string]any)
		if !ok || item {
			return nil
		}
		v = o[name]
	}
	return v
}

func itemAt(list []any, name string) any {
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	for _, item := range list {
		if nameOf(item) == name {
			return item
		}
	}
	return nil
}

// nameOf is the name of a list's item, "" if it has none.
func nameOf(item any) string {
	o, _ := item.(map[string]any)
	name, _ := o["name"].(string)
	return name
}

// byName replaces the indexes in a path by the names of the items.
func byName(path string, sent any) string {
	out := ""
	for _, s := range pathStep.FindAllString(path, -1) {
		if !strings.HasPrefix(s, "[") {
			out = strings.TrimPrefix(out+"."+s, ".")
			continue
		}
		if name := nameOf(valueAt(out+s, sent)); name != "" {
			s = "[" + name + "]"
		}
		out += s
	}
	return out
}

// placeOf returns the path of the first value of a kind below fields, through all lists on the way; "": none.
func placeOf(fields []string, v any, kind, path string) string {
	if list, ok := v.([]any); ok && !(len(fields) == 0 && kind == "a list") {
		for i, item := range list {
			if found := placeOf(fields, item, kind, path+"["+strconv.Itoa(i)+"]"); found != "" {
				return found
			}
		}
		return ""
	}
	if len(fields) == 0 {
		if typeWords(jsonKind(v)) == kind && v != nil {
			return path
		}
		return ""
	}
	o, _ := v.(map[string]any)
	// The name of a field of free JSON may have dots.
	value, ok := o[fields[0]]
	if !ok {
		return ""
	}
	return placeOf(fields[1:], value, kind, strings.TrimPrefix(path+"."+fields[0], "."))
}

func jsonKind(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	case []any:
		return "array"
	}
	return "object"
}

// errorText joins field errors.
func errorText(all []FieldError) string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = e.String()
	}
	return strings.Join(words, "; ")
}
