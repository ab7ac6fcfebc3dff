package state

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Redact replaces the values in the copy that may be secret, each by a text that is the same wherever the value is: of
// environment variables, headers, queries of probes, arguments, commands, annotations, and the config of a Redis.
// What controllers decide stays the same: hashes of what was declared become those of the redacted declaration. marks
// returns them (see cli.Marks).
//
// Names, labels, images and numbers stay. Values of Secrets and ConfigMaps are replaced as well; a copy for a hook
// controller is of no use then.
func (s *State) Redact(marks func(apiVersion, kind string, raw kube.Raw) ([]string, error)) error {
	r := &redaction{tokens: map[string]string{}, marks: map[string]string{}}
	if _, err := rand.Read(r.key[:]); err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	redacted := make([]map[string]any, len(s.Objects))
	for i, text := range s.Objects {
		o, err := decoded(text)
		if err != nil {
			return err
		}
		redacted[i] = o
		r.collect(o)
		r.values(o, o["kind"], nil)
		if err := r.declare(text, o, marks); err != nil {
			return fmt.Errorf("redact object %d: %w; --plain keeps all values", i+1, err)
		}
	}
	r.finish()
	s.bytes, s.Objects = 0, s.Objects[:0:0]
	for _, o := range redacted {
		r.texts(o)
		if err := s.add(o); err != nil {
			return err
		}
	}
	return nil
}

// redaction is the replacements of one file. The key is forgotten with it.
type redaction struct {
	key    [32]byte
	tokens map[string]string // of values
	marks  map[string]string // of hashes; "": not known yet
	inText *strings.Replacer // the same within longer texts
}

// token returns what stands for a value.
func (r *redaction) token(value string) string {
	if value == "" {
		return "" // that something is empty often decides, and says nothing
	}
	if r.tokens[value] == "" {
		sum := hmac.New(sha256.New, r.key[:])
		sum.Write([]byte(value))
		r.tokens[value] = "r-" + hex.EncodeToString(sum.Sum(nil)[:6])
	}
	return r.tokens[value]
}

// The places of hashes of what was declared.
const (
	hashAnnotation = "skiff.dev/desired-hash"
	revisionLabel  = "skiff.dev/revision"
)

// collect notes the hashes of an object.
func (r *redaction) collect(o map[string]any) {
	for _, hash := range []string{obj.String(o, "metadata", "annotations", hashAnnotation),
		obj.String(o, "metadata", "labels", revisionLabel)} {
		if hash != "" && r.marks[hash] == "" {
			r.marks[hash] = ""
		}
	}
}

// declare finds which hashes of the redacted object stand for which of the object as it was.
func (r *redaction) declare(text kube.Raw, o map[string]any,
	marks func(apiVersion, kind string, raw kube.Raw) ([]string, error)) error {
	apiVersion, kind := obj.String(o, "apiVersion"), obj.String(o, "kind")
	before, err := marks(apiVersion, kind, text)
	if err != nil || before == nil {
		return nil // a spec that the operator refuses has no children that are as declared
	}
	redacted, err := patch.Encode(o)
	if err != nil {
		return err
	}
	after, err := marks(apiVersion, kind, redacted)
	if err != nil {
		return err
	}
	for i := range before {
		if i < len(after) {
			r.marks[before[i]] = after[i]
		}
	}
	return nil
}

// finish makes the replacements of hashes that no declaration has any more, and of what is part of longer texts.
func (r *redaction) finish() {
	var pairs []string
	for hash, now := range r.marks {
		if now == "" {
			now = r.token(hash)
			r.marks[hash] = now
		}
		pairs = append(pairs, hash, now)
	}
	for value, token := range r.tokens {
		if len(value) >= leastInText {
			pairs = append(pairs, value, token)
		}
	}
	r.inText = strings.NewReplacer(pairs...)
}

// leastInText is how long a value has to be to be replaced within messages: shorter ones are words of these.
const leastInText = 6

// kept are the annotations whose values stay: they decide, and have a form in which there is no secret.
func kept(name string) bool {
	return strings.HasPrefix(name, "skiff.dev/") || strings.HasPrefix(name, "simulate.skiff.dev/") ||
		slices.Contains([]string{"deployment.kubernetes.io/revision", "deployment.kubernetes.io/desired-replicas",
			"deployment.kubernetes.io/max-replicas", "kubectl.kubernetes.io/restartedAt"}, name)
}

// secretFields are the fields whose strings are replaced, however deep.
var secretFields = []string{"args", "command", "data", "stringData", "binaryData", "volumeAttributes"}

// values replaces values below v, a part of an object of a kind at a path.
func (r *redaction) values(v, kind any, path []string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			r.values(item, kind, path)
		}
	case map[string]any:
		for name, value := range v {
			at := append(path[:len(path):len(path)], name)
			switch {
			case name == "annotations":
				r.annotations(value)
			case name == "managedFields", kind == definitions.Kind && at[0] != "metadata":
				// names of fields
			case slices.Contains(secretFields, name) && !isRevision(kind, at),
				kind == "Redis" && slices.Equal(at, []string{"spec", "config"}):
				v[name] = r.all(value)
			case name == "env" || name == "httpHeaders":
				r.entries(value)
			case name == "httpGet":
				r.query(value)
				r.values(value, kind, at)
			default:
				r.values(value, kind, at)
			}
		}
	}
}

// annotations replaces annotations.
func (r *redaction) annotations(v any) {
	all, _ := v.(map[string]any)
	for key, text := range all {
		if text, ok := text.(string); ok && !kept(key) {
			all[key] = r.token(text)
		}
	}
}

// isRevision says whether a field is the data of a ControllerRevision, which holds a template.
func isRevision(kind any, at []string) bool {
	return kind == "ControllerRevision" && slices.Equal(at, []string{"data"})
}

// all replaces each string below v, and returns it.
func (r *redaction) all(v any) any {
	switch v := v.(type) {
	case string:
		return r.token(v)
	case []any:
		for i := range v {
			v[i] = r.all(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = r.all(v[name])
		}
	}
	return v
}

// entries replaces the values of a list of names and values.
func (r *redaction) entries(v any) {
	list, _ := v.([]any)
	for _, item := range list {
		if entry, ok := item.(map[string]any); ok {
			if text, ok := entry["value"].(string); ok {
				entry["value"] = r.token(text)
			}
		}
	}
}

// query replaces what follows the path of a probe's request, such as ?token=...; the path itself decides nothing.
func (r *redaction) query(v any) {
	get, _ := v.(map[string]any)
	text, _ := get["path"].(string)
	if path, query, has := strings.Cut(text, "?"); has {
		get["path"] = path + "?" + r.token(query)
	}
}

// texts replaces hashes wherever they are the whole of a text, and hashes and values in messages.
func (r *redaction) texts(v any) any {
	switch v := v.(type) {
	case string:
		if now, ok := r.marks[v]; ok {
			return now
		}
	case []any:
		for i := range v {
			v[i] = r.texts(v[i])
		}
	case map[string]any:
		for name, value := range v {
			if text, isText := value.(string); isText && name == "message" {
				v[name] = r.inText.Replace(text)
				continue
			}
			v[name] = r.texts(value)
		}
	}
	return v
}
