package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// normalizer replaces what two servers can never have in common (uids, resource versions, times, addresses) by symbols
// that keep what must hold: the same uid is the same symbol, and resource versions keep their order.
//
// The version of an object becomes its rank among the versions of all objects of the script, so "it did not change"
// and "it is later than" survive. The version of a list or a bookmark may lie above all objects, as other writers use
// up numbers; it becomes the rank of the last object version that it covers.
type normalizer struct {
	uids     map[string]string
	versions []int // of objects, sorted, each once
}

// Normalize returns the answers of one server to one script, comparable with those of another.
func Normalize(answers []Answer) ([]any, error) {
	text, err := json.Marshal(answers)
	if err != nil {
		return nil, fmt.Errorf("normalize: %w", err)
	}
	var tree []any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("normalize: %w", err)
	}
	n := &normalizer{uids: map[string]string{}}
	n.collect(tree)
	slices.Sort(n.versions)
	n.versions = slices.Compact(n.versions)
	for i := range tree {
		tree[i] = n.value("", tree[i])
	}
	return tree, nil
}

// collect finds all object versions and uids.
func (n *normalizer) collect(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n.collect(item)
		}
	case map[string]any:
		if meta, ok := v["metadata"].(map[string]any); ok && !covers(v) {
			if version, err := strconv.Atoi(Object(meta).Str("resourceVersion")); err == nil {
				n.versions = append(n.versions, version)
			}
		}
		if uid, ok := v["uid"].(string); ok && len(uid) == len("00000000-0000-0000-0000-000000000000") &&
			n.uids[uid] == "" {
			n.uids[uid] = fmt.Sprintf("<uid %d>", len(n.uids)+1)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.collect(v[key])
		}
	}
}

// covers reports whether the object's version is not its own: a list, or the object of a bookmark, which has only
// that.
func covers(obj map[string]any) bool {
	if strings.HasSuffix(Object(obj).Str("kind"), "List") {
		return true
	}
	meta, _ := obj["metadata"].(map[string]any)
	return meta["name"] == nil
}

var (
	timestamp    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	address      = regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`)
	tooOld       = regexp.MustCompile(`too old resource version: (\d+) \(\d+\)`)
	tooLarge     = regexp.MustCompile(`current: \d+`)
	inRecord     = regexp.MustCompile(`in (?:record|the precondition) \((\d+)\)`)
	inObject     = regexp.MustCompile(`"resourceVersion\\":\\"(\d+)`) // of an object that a message quotes
	generated    = regexp.MustCompile(`\b([Gg]enerated-|x{58})[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	age          = regexp.MustCompile(`^\d+s$`)                 // in a cell of a table
	portCell     = regexp.MustCompile(`:3\d{4}/`)               // in the cell of a Service's ports
	loopbackPort = regexp.MustCompile(`^127\.0\.0\.1:\d+$`)     // the server's own address in discovery
	typeNumber   = regexp.MustCompile(`\b([A-Z]\pL+)\d{3,9}\b`) // of the name of a type that was checked
	several      = regexp.MustCompile(`is (?:invalid|forbidden): \[(.*)\]$`)
)

// printed are the places in messages where the real server prints a value as a struct of Go, with the names and the
// order of its fields; diffed is a diff of such structs.
var (
	printed = regexp.MustCompile(`(?:Invalid|Duplicate|Unsupported) value: ("?[\w.]*\[?\{)`)
	diffed  = regexp.MustCompile(`\n@@[\s\S]*?(\]?)$`)
)

// withoutStructs replaces what each server prints in its own way.
func withoutStructs(message string) string {
	message = diffed.ReplaceAllString(message, "$1")
	for m := printed.FindStringSubmatchIndex(message); m != nil; m = printed.FindStringSubmatchIndex(message) {
		open := 0
		end := strings.IndexFunc(message[m[2]:], func(r rune) bool {
			open += map[rune]int{'{': 1, '[': 1, '}': -1, ']': -1}[r]
			return (r == '}' || r == ']') && open == 0
		})
		if end < 0 {
			break
		}
		message = message[:m[2]] + "<object>" + strings.TrimPrefix(message[m[2]+end+1:], `"`)
	}
	return message
}

// declaredPorts is the end of the nodePorts that scripts declare; allocation starts above.
const declaredPorts = 30085

func (n *normalizer) value(key string, v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = n.value(key, v[i])
		}
		return v
	case map[string]any:
		if meta, ok := v["metadata"].(map[string]any); ok {
			n.version(meta, covers(v))
		}
		for _, k := range slices.Collect(maps.Keys(v)) {
			member := n.value(k, v[k])
			delete(v, k) // the keys of managedFields may have a uid
			v[n.text("", k)] = member
		}
		sortUnordered(v)
		return v
	case float64:
		if (key == "nodePort" || key == "healthCheckNodePort") && v > declaredPorts {
			return "<allocated>"
		}
		return v
	case string:
		return n.text(key, v)
	}
	return v
}

// version replaces metadata.resourceVersion.
func (n *normalizer) version(meta map[string]any, covering bool) {
	version, err := strconv.Atoi(Object(meta).Str("resourceVersion"))
	if err != nil {
		return
	}
	rank, exact := slices.BinarySearch(n.versions, version)
	switch {
	case !covering:
		meta["resourceVersion"] = fmt.Sprintf("<version %d>", rank+1)
	case exact:
		meta["resourceVersion"] = fmt.Sprintf("<covers version %d>", rank+1)
	default:
		meta["resourceVersion"] = fmt.Sprintf("<covers version %d>", rank)
	}
}

// text replaces what is in a string.
func (n *normalizer) text(key, s string) string {
	if key == "continue" && s != "" {
		return "<token>"
	}
	for uid, symbol := range n.uids {
		s = strings.ReplaceAll(s, uid, symbol)
	}
	s = timestamp.ReplaceAllString(s, "<time>")
	s = generated.ReplaceAllString(s, "$1<suffix>")
	if key == "warning" {
		s = typeNumber.ReplaceAllString(s, "$1<number>")
	}
	if key == "cells" {
		s = age.ReplaceAllString(s, "<age>")
		s = portCell.ReplaceAllString(s, ":<allocated>/")
	}
	if key == "message" {
		s = withoutStructs(s)
	}
	s = address.ReplaceAllString(s, "<address>")
	s = loopbackPort.ReplaceAllString(s, "127.0.0.1:<port>")
	s = tooOld.ReplaceAllString(s, "too old resource version: $1 (<now>)")
	for _, quoted := range []*regexp.Regexp{inRecord, inObject} {
		s = quoted.ReplaceAllStringFunc(s, func(m string) string {
			number := quoted.FindStringSubmatch(m)[1]
			version, err := strconv.Atoi(number)
			if err != nil {
				return m
			}
			rank, _ := slices.BinarySearch(n.versions, version)
			return strings.Replace(m, number, fmt.Sprintf("<version %d>", rank+1), 1)
		})
	}
	return tooLarge.ReplaceAllString(s, "current: <now>")
}

// sortUnordered gives an order to what the real server itself orders by chance: the causes of a 422 (it walks over Go
// maps, and finds some more than once), also in its message, managedFields entries of the same second, and what
// discovery lists.
func sortUnordered(v map[string]any) {
	if entries, ok := v["managedFields"].([]any); ok {
		slices.SortFunc(entries, func(a, b any) int { return strings.Compare(managedBy(a), managedBy(b)) })
	}
	if causes, ok := v["causes"].([]any); ok {
		slices.SortFunc(causes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		same := func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
		v["causes"] = slices.CompactFunc(causes, same)
	}
	if verbs, ok := v["verbs"].([]any); ok {
		slices.SortFunc(verbs, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	if resources, ok := v["resources"].([]any); ok {
		slices.SortFunc(resources, func(a, b any) int { return strings.Compare(named(a), named(b)) })
	}
	message, _ := v["message"].(string)
	if m := several.FindStringSubmatchIndex(message); m != nil {
		parts := strings.Split(message[m[2]:m[3]], ", ")
		slices.Sort(parts)
		v["message"] = message[:m[2]] + strings.Join(parts, ", ") + "]"
	}
}

func named(resource any) string {
	m, _ := resource.(map[string]any)
	return fmt.Sprint(m["name"])
}

func managedBy(entry any) string {
	m, _ := entry.(map[string]any)
	return fmt.Sprint(m["operation"], m["manager"], m["subresource"], m["apiVersion"])
}
