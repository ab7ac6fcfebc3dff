package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
)

// head has the fields that a mirror needs, of an object of any kind.
type head struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string      `json:"name"`
		Namespace       string      `json:"namespace"`
		UID             string      `json:"uid"`
		ResourceVersion string      `json:"resourceVersion"`
		Labels          kube.Labels `json:"labels"` // which the selector is compared with
	} `json:"metadata"`
}

func (h head) meta() kube.Meta {
	m := h.Metadata
	return kube.Meta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: m.Labels}
}

// wholeObject is an object as the server sent it, for -o json.
type wholeObject struct {
	kube.Meta
	kind string // "" in lists of built-in kinds, whose items have no kind
	body []byte
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *wholeObject) UnmarshalJSON(data []byte) error {
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return err
	}
	o.Meta, o.kind, o.body = h.meta(), h.Kind, bytes.Clone(data)
	return nil
}

func (o *wholeObject) text(p *printer) (string, error) {
	body := bytes.TrimSpace(o.body)
	if o.kind == "" {
		// List items lack kind and apiVersion, which watch events have: add them where a server writes them.
		start := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, p.resource.Kind, p.resource.APIVersion())
		body = append([]byte(start), bytes.TrimPrefix(body, []byte("{"))...)
	}
	var line bytes.Buffer
	err := json.Compact(&line, body)
	return line.String(), err
}

// lineObject holds only the line to print for an object, so that watching all pods of a cluster needs little memory.
type lineObject struct {
	kube.Meta
	short, wide string
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *lineObject) UnmarshalJSON(data []byte) error {
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return err
	}
	// The kind may be a custom one: assume nothing about the types of its fields.
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	o.Meta = h.meta()
	o.short = strings.Join(columns(fields, shortColumns), " ")
	o.wide = strings.Join(columns(fields, wideColumns), " ")
	return nil
}

func (o *lineObject) text(p *printer) (string, error) {
	if p.output == "wide" && o.wide != "" {
		return strings.TrimSpace(o.short + " " + o.wide), nil
	}
	return o.short, nil
}

// column is one `name=value` of a line. value returns "" if the object has no such field.
type column struct {
	name  string
	value func(obj map[string]any) string
}

// shortColumns are those of all common kinds; a line has the ones that its object has.
var shortColumns = []column{
	{"phase", phase},
	{"ready", ready},
	{"restarts", restarts},
	{"Ready", condition("Ready")},
	{"Available", condition("Available")},
	{"Established", condition("Established")},
	{"type", path("spec", "type")},
	{"clusterIP", path("spec", "clusterIP")},
	{"reason", path("reason")},
	{"message", path("note")},    // of an Event
	{"message", path("message")}, // of an Event of the core group
}

// wideColumns are added by -o wide.
var wideColumns = []column{
	{"ip", path("status", "podIP")},
	{"node", path("spec", "nodeName")},
	{"generation", path("metadata", "generation")},
	{"resourceVersion", path("metadata", "resourceVersion")},
	{"uid", path("metadata", "uid")},
}

func columns(obj map[string]any, set []column) []string {
	_, pod := lookup(obj, "status", "containerStatuses").([]any)
	var out []string
	for _, c := range set {
		if pod && c.name == "Ready" {
			continue // ready=1/1 already shows it
		}
		if v := c.value(obj); v != "" {
			out = append(out, c.name+"="+v)
		}
	}
	return out
}

// lookup returns a nested field, nil if it or an object on the way does not exist.
func lookup(obj map[string]any, names ...string) any {
	var v any = obj
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// path returns the value function of a column with one scalar field.
func path(names ...string) func(map[string]any) string {
	return func(obj map[string]any) string { return scalar(lookup(obj, names...)) }
}

// scalar formats a string, number or boolean; "" for anything else. Text with spaces is quoted.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		if strings.ContainsAny(v, " \t\n\"") {
			return fmt.Sprintf("%q", v)
		}
		return v
	case float64:
		return fmt.Sprintf("%.15g", v)
	case bool:
		return fmt.Sprint(v)
	}
	return ""
}

func phase(obj map[string]any) string {
	if lookup(obj, "metadata", "deletionTimestamp") != nil {
		return "Terminating"
	}
	return scalar(lookup(obj, "status", "phase"))
}

// ready returns "1/3": ready and all containers of a pod, or ready and all replicas of a workload.
func ready(obj map[string]any) string {
	if statuses, ok := lookup(obj, "status", "containerStatuses").([]any); ok {
		n := 0
		for _, s := range statuses {
			if m, ok := s.(map[string]any); ok && m["ready"] == true {
				n++
			}
		}
		return fmt.Sprintf("%d/%d", n, len(statuses))
	}
	want, ok := lookup(obj, "spec", "replicas").(float64)
	if !ok {
		if want, ok = lookup(obj, "status", "replicas").(float64); !ok {
			return ""
		}
	}
	have, _ := lookup(obj, "status", "readyReplicas").(float64) // servers omit a zero
	return fmt.Sprintf("%.0f/%.0f", have, want)
}

// restarts returns the number of container restarts of a pod, "" for none.
func restarts(obj map[string]any) string {
	statuses, _ := lookup(obj, "status", "containerStatuses").([]any)
	n := 0.0
	for _, s := range statuses {
		if m, ok := s.(map[string]any); ok {
			count, _ := m["restartCount"].(float64)
			n += count
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", n)
}

// condition returns a function that returns the status of a condition.
func condition(name string) func(map[string]any) string {
	return func(obj map[string]any) string {
		list, _ := lookup(obj, "status", "conditions").([]any)
		for _, c := range list {
			if m, ok := c.(map[string]any); ok && m["type"] == name {
				return scalar(m["status"])
			}
		}
		return ""
	}
}
