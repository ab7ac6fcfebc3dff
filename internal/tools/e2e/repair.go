package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// words are values that texts are tried with, one after the other, until the server takes one.
var words = []string{"x", "x.y", "x.y/z", "/x", "1", "1.2.3.4", "10.9.0.0/16", "https://x.y/z", "1.2.3.4:1", "v1",
	"iqn.2001-04.com.example:x", "1Gi", "x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"00:00:00:00:00:01", "self.x", "RuntimeDefault", "metadata.name", "limits.cpu", "node", "x=y", "Europe/Berlin"}

// better are the values of fields that need one of their own, by the name and that of what holds it.
var better = map[string]string{"volumeMounts.name": "v", "fileKeyRef.volumeName": "v", "names.plural": "xs",
	"resourceFieldRef.containerName": "c", "matchExpressions.operator": "In", "matchFields.operator": "In",
	"matchLabelExpressions.operator": "In", "target.type": "AverageValue", "preconditions.uid": "x"}

// samples are what a place is tried with.
func samples(t reflect.Type, steps []string) (out []any) {
	t = pointed(t)
	if text, ok := texts[t.Name()]; ok {
		if t.Name() == "Quantity" {
			return []any{"1", "1Gi", "0"}
		}
		return []any{text}
	}
	name := steps[len(steps)-1]
	above := ""
	for _, s := range steps[:len(steps)-1] {
		if !strings.HasPrefix(s, "[") {
			above = s
		}
	}
	switch t.Kind() {
	case reflect.String:
		if value := better[above+"."+name]; value != "" {
			out = append(out, value)
		}
		for _, w := range words {
			out = append(out, w)
		}
		return out
	case reflect.Bool:
		return []any{true, false}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return []any{"eA==\n"}
		}
		return []any{[]any{samples(t.Elem(), append(slices.Clone(steps), "[0]"))[0]}}
	case reflect.Map:
		return []any{map[string]any{"a": samples(t.Elem(), append(slices.Clone(steps), "[a]"))[0]}}
	case reflect.Struct:
		return []any{map[string]any{}}
	}
	return []any{1, 2, 0, 10, 100, 1000, 30000, -1}
}

// cause is one reason of a refusal.
type cause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

var (
	// offered are the values in a cause that says which are supported, mustBe what one says that a value has to be.
	offered  = regexp.MustCompile(`supported values: (.*)$`)
	mustBe   = regexp.MustCompile(`must be (.*)$`)
	constant = regexp.MustCompile(`\b[A-Z][a-z][a-zA-Z]*\b`) // as most constants are written
)

func supported(message string) (out []string) {
	if m := offered.FindStringSubmatch(message); m != nil {
		for _, v := range strings.Split(m[1], ", ") {
			out = append(out, strings.Trim(v, `"`))
		}
	} else if m := mustBe.FindStringSubmatch(message); m != nil {
		out = constant.FindAllString(m[1], -1)
	}
	return out
}

// excluding are words of a cause that says that one thing rules out another.
var excluding = regexp.MustCompile(`exactly one|at most one|more than|only one|mutually exclusive|both`)

// attempt is an object that is changed until a server takes it, with what is wanted of it kept.
type attempt struct {
	kind   reflect.Type
	target field
	object any
	tried  map[string]int // how many values a place was tried with
	// options are the values that the server names for the target.
	options []string
}

// spelled has the places that causes name otherwise than the fields are named.
var spelled = strings.NewReplacer("downwarAPI", "downwardAPI", "cephFS", "cephfs", "resources[storage]",
	"resources.requests[storage]", "volumes[0].persistentDisk", "volumes[0].gcePersistentDisk", "spec.persistentDisk",
	"spec.gcePersistentDisk", "metadata.taints", "spec.taints", "volumes[0].storageOS", "volumes[0].storageos")

// mend changes what a cause is about; false: it cannot.
func (a *attempt) mend(c cause) bool {
	steps := stepsOf(spelled.Replace(c.Field))
	t := typeAt(a.kind, steps)
	if len(steps) == 0 || t == nil {
		return false
	}
	_, types := members(t)
	switch excludes := excluding.MatchString(c.Message); {
	case excludes && len(types) > 0 && a.take(append(slices.Clone(steps), ""), c.Message):
		return true
	case c.Reason == "FieldValueForbidden":
		return a.take(steps, c.Message)
	}
	if options := supported(c.Message); options != nil && (len(types) == 0 || types["type"] != nil) {
		if pathOf(steps) == a.target.String() {
			a.options = options
		}
		if types["type"] != nil {
			t, steps = types["type"], append(slices.Clone(steps), "type")
		}
		return a.try(t, steps, slices.Concat(asAny(options), samples(t, steps)))
	}
	value := valueAt(a.object, steps)
	if of, there := value.(map[string]any); there && pointed(t).Kind() == reflect.Struct {
		return a.choose(t, steps, of, c.Message)
	}
	if list, there := value.([]any); there && len(list) > 0 {
		return false
	}
	return a.try(t, steps, samples(t, steps))
}

func asAny(of []string) (out []any) {
	for _, v := range of {
		out = append(out, v)
	}
	return out
}

// try sets the next value at a place.
func (a *attempt) try(t reflect.Type, steps []string, values []any) bool {
	key, list := pathOf(steps), pointed(t).Kind() == reflect.Slice && !isLeaf(t)
	n := a.tried[key]
	for ; n < len(values) && reflect.DeepEqual(values[n], valueAt(a.object, steps)); n++ {
	}
	if a.tried[key] = n + 1; n >= len(values) {
		return false
	}
	value := values[n]
	if _, text := value.(string); text && list {
		value = []any{value}
	}
	a.object = putIn(a.object, a.kind, steps, value)
	return true
}

// choose sets a member of a struct that lacks one: the first that the message names, or the first at all.
func (a *attempt) choose(t reflect.Type, steps []string, of map[string]any, message string) bool {
	names, types := members(t)
	n := a.tried[pathOf(steps)]
	a.tried[pathOf(steps)]++
	slices.SortStableFunc(names, func(x, y string) int { return mentions(message, y) - mentions(message, x) })
	names = slices.DeleteFunc(names, func(name string) bool { return of[name] != nil })
	if n >= len(names) || n > 3 {
		return false
	}
	at := append(slices.Clone(steps), names[n])
	a.object = putIn(a.object, a.kind, at, samples(types[names[n]], at)[0])
	return true
}

func mentions(message, name string) int {
	if regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(message) {
		return 1
	}
	return 0
}

// take removes what must not be there: the place itself, unless the target is there, or else what is beside it and is
// an object, or named by the message.
func (a *attempt) take(steps []string, message string) bool {
	if steps[len(steps)-1] != "" && !leadsTo(steps, a.target.steps) {
		if valueAt(a.object, steps) == nil {
			return false
		}
		a.object = cutOut(a.object, steps)
		return true
	}
	above := steps[:len(steps)-1]
	of, _ := valueAt(a.object, above).(map[string]any)
	took := false
	for name := range of {
		at := append(slices.Clone(above), name)
		t := typeAt(a.kind, at)
		object := t != nil && t.Kind() == reflect.Struct
		if (object || mentions(message, name) > 0) && !leadsTo(at, a.target.steps) && name != "metadata" {
			a.object, took = cutOut(a.object, at), true
		}
	}
	return took
}

func leadsTo(steps, target []string) bool {
	return len(steps) <= len(target) && slices.Equal(steps, target[:len(steps)])
}

// maxTries is how often an object is changed until it is given up.
const maxTries = 24

// accepted changes the object until the server takes it in a dry run, and returns its answer. ok is false, and the
// answer a refusal, if there is no way.
func (a *attempt) accepted(ctx context.Context, api *API, path string) (answer Answer, ok bool, err error) {
	for range maxTries {
		body, err := json.Marshal(a.object)
		if err != nil {
			return Answer{}, false, err
		}
		step := Step{Method: http.MethodPost, Path: path, Body: string(body)}
		if answer, err = sendStep(ctx, api, step, nil); err != nil {
			return answer, false, err
		}
		if answer.Code < http.StatusBadRequest {
			return answer, true, nil
		}
		changed, done := false, map[string]bool{}
		for _, c := range causesOf(answer) {
			if !done[c.Field] && a.mend(c) { // a place may have several causes
				changed, done[c.Field] = true, true
			}
		}
		if !changed {
			break
		}
	}
	return answer, false, nil
}

// causesOf are those of a refusal.
func causesOf(a Answer) (out []cause) {
	body, _ := a.Body.(map[string]any)
	for _, c := range Object(body).List("details", "causes") {
		out = append(out, cause{c.Str("reason"), c.Str("message"), c.Str("field")})
	}
	return out
}
