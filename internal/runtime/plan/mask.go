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

// placeholder is printed in the place of a value, without quotes.
type placeholder string

// The places of values that are not known yet.
const (
	chosenByServer placeholder = "(known after creation)"
	restartTime    placeholder = "(the time of the restart)"
)

func (p placeholder) String() string { return string(p) }

// hidden is that of a secret of some bytes.
func hidden(bytes int) placeholder { return placeholder(fmt.Sprintf("(hidden, %d bytes)", bytes)) }

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
	list, isList := v.([]any)
	switch {
	case last == restartedAt:
		return restartTime, false
	case secret && (path[0] == "data" || path[0] == "stringData"):
		return hidden(secretSize(path[0], v)), true
	case annotation && (secret && strings.HasSuffix(last, lastApplied) || credential.MatchString(last)),
		last == "value" && at.up != nil && at.up.item != nil && credential.MatchString(at.up.name),
		// a list that could not be taken apart:
		isList && slices.Contains([]string{"env", "containers", "initContainers"}, last):
		return hidden(size(v)), true
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
			out[i], hides = hidden(len(text)), true
		case assigned && strings.HasPrefix(name, "-") && credential.MatchString(name):
			out[i], hides = placeholder(name+"=")+hidden(len(value)), true
		case several && credential.MatchString(word): // as redis.conf has it: requirepass x
			out[i], hides = placeholder(word+" ")+hidden(len(rest)), true
		}
		next = !next && strings.HasPrefix(text, "-") && !assigned && !several && credential.MatchString(text)
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
