package podpolicy

import (
	"slices"
	"strings"
)

// values are those that a field may have, in Go and in CEL. They stand side by side, so that skiff and the API server
// do not come to read a rule differently.
type values struct {
	allowed func(any) bool // called with nil where the field is not set
	cel     string         // the same of {v}, which is null where the field is not set
}

var (
	unset   = values{func(v any) bool { return v == nil }, "{v} == null"}
	set     = values{func(v any) bool { return v != nil }, "{v} != null"}
	notTrue = values{func(v any) bool { return v == nil || v == false }, "{v} == null || {v} == false"}
	// notFalse and isFalse are for the fields whose default is the other value.
	notFalse = values{func(v any) bool { return v == nil || v == true }, "{v} == null || {v} == true"}
	isFalse  = values{func(v any) bool { return v == false }, "{v} == false"}
	zero     = values{func(v any) bool { return v == nil || v == int64(0) }, "{v} == null || {v} == 0"}
	notZero  = values{func(v any) bool {
		n, ok := v.(int64)
		return v == nil || ok && n != 0
	}, "{v} == null || type({v}) == int && {v} != 0"}
	// hasAll allows a list that drops all capabilities.
	hasAll = values{func(v any) bool {
		list, _ := v.([]any)
		return slices.Contains(list, any("ALL"))
	}, "type({v}) == list && 'ALL' in {v}"}
	// onlyVolumes allows a volume of an allowed type. One without a type is an empty directory.
	onlyVolumes = values{func(v any) bool {
		volume, ok := v.(map[string]any)
		for key, source := range volume {
			if key != "name" && source != nil && !slices.Contains(volumes, key) {
				return false
			}
		}
		return ok
	}, "type({v}) == map && {v}.all(k, k == 'name' || k.startsWith('$') || {v}[k] == null || k in " +
		literal(volumes) + ")"} // $patch and the like direct a merge
	// appArmorAnnotations allows the annotations that older clusters read in place of appArmorProfile.
	appArmorAnnotations = values{func(v any) bool {
		annotations, ok := v.(map[string]any)
		for key, value := range annotations {
			profile, isText := value.(string)
			if strings.HasPrefix(key, appArmorKeys) && !(isText &&
				(profile == "" || profile == "runtime/default" || strings.HasPrefix(profile, "localhost/"))) {
				return false
			}
		}
		return ok || v == nil
	}, "{v} == null || type({v}) == map && {v}.all(k, !k.startsWith('" + appArmorKeys + "') || {v}[k] == null || " +
		"{v}[k] in ['', 'runtime/default'] || type({v}[k]) == string && {v}[k].startsWith('localhost/'))"}
)

const appArmorKeys = "container.apparmor.security.beta.kubernetes.io/"

// oneOf allows the values of a list.
func oneOf(list []string) values {
	return values{func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(list, s)
	}, "{v} in " + literal(list)}
}

// optional allows values, or nothing.
func optional(list ...string) values {
	one := oneOf(list)
	return values{func(v any) bool { return v == nil || one.allowed(v) }, "{v} == null || " + one.cel}
}

// literal is a list of texts in CEL. None of them has a quote.
func literal(list []string) string { return "['" + strings.Join(list, "', '") + "']" }
