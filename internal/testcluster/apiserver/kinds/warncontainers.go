package kinds

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// containerWarnings are those about the containers of a pod.
func containerWarnings(at string, spec Object) (out []string) {
	each := func(f func(c Object, where string)) {
		for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
			for i, c := range obj.Maps(spec, list) {
				f(c, fmt.Sprintf("%s.%s[%d]", at, list, i))
			}
		}
	}
	each(func(c Object, where string) {
		out = append(out, fractions(where+".resources", obj.Map(c, "resources"), "memory", "ephemeral-storage")...)
		out = append(out, hiddenVariables(where, c)...)
	})
	ports := portWarnings{ports: map[string][]portAt{}, names: map[string]string{}}
	each(func(c Object, where string) {
		for i, p := range obj.Maps(c, "ports") {
			ports.look(portAt{p, fmt.Sprintf("%s.ports[%d]", where, i)})
		}
	})
	return append(append(out, ports.out...), ports.named...)
}

// fractions warns of quantities of bytes that are no whole ones.
func fractions(at string, resources Object, names ...string) (out []string) {
	for _, name := range names {
		for _, list := range []string{"limits", "requests"} {
			text, there := obj.Get(resources, list, name).(string)
			if q, err := patch.ParseQuantity(text); there && err == nil && strings.HasSuffix(q.String(), "m") {
				out = append(out, fmt.Sprintf("%s.%s[%s]: fractional byte value %q is invalid, must be an integer", at,
					list, name, q.String()))
			}
		}
	}
	return out
}

// hiddenVariables warns of an environment variable that hides one of the same name.
func hiddenVariables(at string, container Object) (out []string) {
	seen := map[string]bool{}
	for i, v := range obj.Maps(container, "env") {
		name, value := obj.String(v, "name"), obj.String(v, "value")
		own := "$(" + name + ")"
		if seen[name] && (v["valueFrom"] != nil || value == own || !strings.Contains(value, own)) {
			out = append(out, fmt.Sprintf("%s.env[%d]: hides previous definition of %q, which may be dropped when "+
				"using apply", at, i, name))
		}
		seen[name] = true
	}
	return out
}

// maxCompared is with how many ports of the same number one is compared: an answer has room for so many warnings.
const maxCompared = 20

type portAt struct {
	Object
	at string
}

func (p portAt) hostIP() string  { return obj.String(p.Object, "hostIP") }
func (p portAt) hostPort() int64 { return obj.Number(p.Object, "hostPort") }

// portWarnings looks at the ports of all containers of a pod.
type portWarnings struct {
	ports map[string][]portAt // by number and protocol
	names map[string]string   // to the first port that has it
	out   []string
	named []string // about names, which come last
}

func (w *portWarnings) look(p portAt) {
	number, protocol := obj.Number(p.Object, "containerPort"), obj.String(p.Object, "protocol")
	if p.hostIP() != "" && p.hostPort() == 0 {
		w.out = append(w.out, fmt.Sprintf("%s: hostIP set without hostPort: {Name:%s HostPort:0 ContainerPort:%d "+
			"Protocol:%s HostIP:%s}", p.at, obj.String(p.Object, "name"), number, protocol, p.hostIP()))
	}
	key := fmt.Sprint(number, "/", protocol)
	for _, other := range w.ports[key][:min(len(w.ports[key]), maxCompared)] {
		switch {
		case p.hostIP() == other.hostIP() && p.hostPort() == other.hostPort():
			w.out = append(w.out, p.at+": duplicate port definition with "+other.at)
		case p.hostPort() == 0 || other.hostPort() == 0:
			w.out = append(w.out, p.at+": overlapping port definition with "+other.at)
		case p.hostPort() == other.hostPort() && (p.hostIP() == "") != (other.hostIP() == ""):
			w.out = append(w.out, p.at+": dangerously ambiguous port definition with "+other.at)
		}
	}
	w.ports[key] = append(w.ports[key], p)
	name := obj.String(p.Object, "name")
	if other := w.names[name]; other != "" {
		w.named = append(w.named, fmt.Sprintf("%s: duplicate port name %q with %s, services and probes that select "+
			"ports by name will use %s", p.at, name, other, other))
	} else if name != "" {
		w.names[name] = p.at
	}
}

// textFormats are the formats of texts that a real server knows in the schema of a custom resource.
var textFormats = strings.Fields("bsonobjectid uri email hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 isbn " +
	"isbn10 isbn13 creditcard ssn hexcolor rgbcolor byte password date duration datetime k8sshortname k8slongname")

// formatWarnings are those about formats in the schemas of a definition that count for nothing.
func formatWarnings(next, cur Object) (out []string) {
	was := unknownFormats(cur)
	for _, f := range unknownFormats(next) {
		if !slices.Contains(was, f) {
			out = append(out, fmt.Sprintf("unrecognized format %q", f))
		}
	}
	return out
}

func unknownFormats(definition Object) (out []string) {
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case Object:
			if f := obj.String(v, "format"); f != "" && !knownFormat(obj.String(v, "type"), f) {
				out = append(out, f)
			}
			for _, name := range []string{"items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"} {
				visit(v[name])
			}
			for _, name := range obj.Keys(obj.Map(v, "properties")) {
				visit(obj.Get(v, "properties", name))
			}
		}
	}
	for _, v := range obj.Maps(definition, "spec", "versions") {
		visit(obj.Get(v, "schema", "openAPIV3Schema"))
	}
	return out
}

func knownFormat(kind, format string) bool {
	switch kind {
	case "", "string":
		return slices.Contains(textFormats, strings.ReplaceAll(format, "-", ""))
	case "integer":
		return format == "int32" || format == "int64"
	case "number":
		return format == "float" || format == "double"
	}
	return false
}
