package plan

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// The values that stand for others in a plan.
type (
	unknown struct{}              // the server makes it up
	moment  struct{}              // the time at which it is done
	hidden  struct{ bytes int }   // a secret
	masked  struct{ text string } // a value with a secret in it, which is cut out
)

func (unknown) String() string  { return "(known after creation)" }
func (moment) String() string   { return "(the time of the restart)" }
func (h hidden) String() string { return fmt.Sprintf("(hidden, %d bytes)", h.bytes) }
func (m masked) String() string { return m.text }

// MarshalJSON writes it as a text.
func (u unknown) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }

// MarshalJSON writes it as a text.
func (m moment) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// MarshalJSON writes it as a text.
func (h hidden) MarshalJSON() ([]byte, error) { return json.Marshal(h.String()) }

// MarshalJSON writes it as a text.
func (m masked) MarshalJSON() ([]byte, error) { return json.Marshal(m.text) }

// credential matches the name of a variable, a flag or an annotation whose value is one.
var credential = regexp.MustCompile(
	`(?i)pass(wd|phrase)?$|password|secret|token|credential|[-_.]key$|api-?key|^key$|auth$`)

// lastApplied is how the annotations end in which a client keeps what it applied last, with all values.
const lastApplied = "last-applied-configuration"

// restartedAt is the annotation of a pod template by which a workload is restarted; its value is the time.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// shown returns a value as it may be printed, and whether it is hidden.
func shown(r kube.Resource, at *place, v any) (any, bool) {
	if v == nil {
		return nil, false
	}
	path := at.names()
	last := path[len(path)-1]
	secret := r.Group == "" && r.Kind == "Secret"
	annotation := len(path) > 1 && path[len(path)-2] == "annotations"
	switch {
	case last == restartedAt:
		return moment{}, false
	case secret && (path[0] == "data" || path[0] == "stringData"):
		return hidden{secretSize(path[0], v)}, true
	case annotation && (secret && strings.HasSuffix(last, lastApplied) || credential.MatchString(last)):
		return hidden{size(v)}, true
	case last == "value" && at.up != nil && at.up.item != nil && credential.MatchString(at.up.name):
		return hidden{size(v)}, true
	}
	list, isList := v.([]any)
	switch {
	case isList && (last == "env" || last == "containers" || last == "initContainers"):
		return hidden{size(v)}, true // it could not be taken apart
	case isList && (last == "args" || last == "command"):
		return shownArgs(list)
	}
	return v, false
}

func size(v any) int {
	if text, ok := v.(string); ok {
		return len(text)
	}
	text, _ := json.Marshal(v) // of decoded JSON, which encodes
	return len(text)
}

// secretSize is the size of what is in a Secret, which has it in base64 under data.
func secretSize(field string, v any) int {
	text, ok := v.(string)
	if raw, err := base64.StdEncoding.DecodeString(text); ok && field == "data" && err == nil {
		return len(raw)
	}
	return size(v)
}

// shownArgs hides the values of flags whose names are those of credentials: --password=x and --password x.
func shownArgs(list []any) (shown any, hides bool) {
	out, next := slices.Clone(list), false
	for i, item := range list {
		text, _ := item.(string)
		name, value, assigned := strings.Cut(text, "=")
		word, rest, several := strings.Cut(text, " ")
		switch {
		case next:
			out[i], hides = masked{hidden{len(text)}.String()}, true
		case assigned && strings.HasPrefix(name, "-") && credential.MatchString(name):
			out[i], hides = masked{name + "=" + hidden{len(value)}.String()}, true
		case several && credential.MatchString(word): // as redis.conf has it: requirepass x
			out[i], hides = masked{word + " " + hidden{len(rest)}.String()}, true
		}
		next = !next && strings.HasPrefix(text, "-") && !assigned && credential.MatchString(text)
	}
	return out, hides
}

// secrets are the values of the Secrets that were met. They are cut out of what a server or a hook says.
type secrets []string

// leastSecret is the length of the shortest value that is cut out: shorter ones are in half of all texts.
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
