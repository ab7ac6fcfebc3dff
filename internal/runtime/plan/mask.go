package plan

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/process"
)

// placeholder is printed in place of a value, without quotes.
type placeholder string

// Placeholders of values not known yet.
const (
	chosenByServer placeholder = "(known after creation)"
	restartTime    placeholder = "(the time of the restart)"
)

func (p placeholder) String() string { return string(p) }

// hidden is the placeholder of a secret of some bytes.
func hidden(bytes int) placeholder { return placeholder(fmt.Sprintf("(hidden, %d bytes)", bytes)) }

// lastApplied is the suffix of annotations in which a client keeps the last applied object, with all values.
const lastApplied = "last-applied-configuration"

// restartedAt is the annotation of a pod template that restarts a workload; the value is the time.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// shown returns the printable form of a value, and whether a part is hidden.
func shown(r kube.Resource, at *patch.Path, v any) (any, bool) {
	m := mask{kind: r.Kind}
	if r.Group != "" {
		m.kind = ""
	}
	return m.value(at.Names(), at.Item().Name(), v), m.hides
}

// mask hides the secrets in a value and below, by one set of rules for all kinds.
type mask struct {
	kind  string // of the object, "" outside the core group
	hides bool
}

// value returns the printable form of a value. item is the name of the object around the value, "" if there is no
// name.
func (m *mask) value(path []string, item string, v any) any {
	last := ""
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	switch v := v.(type) {
	case nil, bool:
		return v
	case map[string]any:
		name, _ := v["name"].(string)
		out := make(map[string]any, len(v))
		for key, field := range v {
			out[key] = m.value(append(path[:len(path):len(path)], key), name, field)
		}
		return out
	case []any:
		if !slices.ContainsFunc(v, func(item any) bool { _, text := item.(string); return !text }) {
			return m.texts(last, v)
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = m.value(append(path[:len(path):len(path)], last), "", item)
		}
		return out
	}
	switch {
	case last == restartedAt:
		return restartTime
	case m.kind == "Secret" && len(path) > 1 && (path[0] == "data" || path[0] == "stringData"):
		m.hides = true
		return hidden(secretSize(path[0], v))
	case m.isSecret(path, last, item):
		return m.hide(v)
	}
	text, ok := v.(string)
	if !ok {
		return v
	}
	redact := process.RedactNamed
	if last == "value" && item != "" { // of a variable
		redact = func(text string) string { return process.Redact(text, nil) }
	}
	return m.redacted(text, redact(text))
}

// isSecret says whether a place holds a credential.
func (m *mask) isSecret(path []string, last, item string) bool {
	if last == "value" && process.IsSecretName(item) { // of a variable, or a header
		return true
	}
	if n := len(path); n > 1 {
		annotation := path[n-2] == "annotations"
		if annotation && strings.HasSuffix(last, lastApplied) {
			return true
		}
		if annotation || m.kind == "ConfigMap" && n == 2 && (path[0] == "data" || path[0] == "binaryData") {
			return process.IsSecretName(last)
		}
	}
	return process.IsSecretField(last)
}

func (m *mask) hide(v any) any {
	m.hides = true
	return hidden(size(v))
}

// redacted returns a text with replaced parts.
func (m *mask) redacted(before, after string) any {
	if before == after {
		return before
	}
	m.hides = true
	return placeholder(after)
}

func size(v any) int {
	if text, ok := v.(string); ok {
		return len(text)
	}
	text, _ := json.Marshal(v) // of decoded JSON, which encodes
	return len(text)
}

// secretSize is the size of a value of a Secret, which is base64 under data.
func secretSize(field string, v any) int {
	text, ok := v.(string)
	if raw, err := base64.StdEncoding.DecodeString(text); ok && field == "data" && err == nil {
		return len(raw)
	}
	return size(v)
}

// texts hides the secrets in a list of texts, which may be arguments: --password=x, --password x, a.password=x.
func (m *mask) texts(field string, list []any) any {
	out, next := slices.Clone(list), false
	for i, item := range list {
		text, _ := item.(string)
		name, value, assigned := strings.Cut(text, "=")
		word, rest, several := strings.Cut(text, " ")
		switch {
		case next, process.IsSecretField(field):
			out[i] = m.hide(text)
		case assigned && !strings.Contains(name, " ") && process.IsSecretName(name):
			out[i], m.hides = placeholder(name+"=")+hidden(len(value)), true
		case several && !assigned && !strings.Contains(word, ":") && process.IsSecretName(word):
			out[i], m.hides = placeholder(word+" ")+hidden(len(rest)), true // as redis.conf has it: requirepass x
		case shortPassword.MatchString(text):
			out[i], m.hides = placeholder("-p")+hidden(len(text)-len("-p")), true
		default:
			out[i] = m.redacted(text, process.RedactNamed(text))
		}
		flag := strings.HasPrefix(text, "-") && !assigned && !several
		next = !next && flag && (process.IsSecretName(text) || text == "-p" && i+1 < len(list) && !isPort(list[i+1]))
	}
	return out
}

// shortPassword is the flag -p with a password right behind, as clients of databases accept. Letters alone may be
// another flag.
var shortPassword = regexp.MustCompile(`^-p[^-=\s]*[0-9][^=\s]*[^-=\s0-9][^=\s]*$`)

// isPort says whether the value after -p is a number, and so no password.
func isPort(v any) bool {
	text, _ := v.(string)
	return strings.Trim(text, "0123456789:") == ""
}

// secrets are the values of all Secrets seen. They are cut out of messages of servers and hooks.
type secrets []string

// leastSecret is the length of the shortest value to cut out: shorter values are in half of all texts.
const leastSecret = 4

// add takes the values of an object if it is a Secret.
func (s *secrets) add(r kube.Resource, text kube.Raw) {
	object, err := decoded(text)
	if r.Kind != "Secret" || r.Group != "" || err != nil {
		return
	}
	for _, field := range []string{"data", "stringData"} {
		values, _ := object[field].(map[string]any)
		for _, v := range values {
			value, _ := v.(string)
			s.take(value)
			if raw, err := base64.StdEncoding.DecodeString(value); err == nil {
				s.take(string(raw))
			}
		}
	}
	slices.SortFunc(*s, func(a, b string) int { return len(b) - len(a) })
}

func (s *secrets) take(value string) {
	if len(value) >= leastSecret && !slices.Contains(*s, value) {
		*s = append(*s, value)
	}
}

// cut returns a text without the secrets, fit for a terminal.
func (s secrets) cut(text string) string {
	for _, value := range s {
		text = strings.ReplaceAll(text, value, "(hidden)")
	}
	return kube.Text(text)
}
