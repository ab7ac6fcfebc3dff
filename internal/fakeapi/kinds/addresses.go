package kinds

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// addresses are EndpointSlices, IPAddresses and ServiceCIDRs.
func addresses() []*Kind {
	in := func(plural, kind string) kube.Resource {
		return clusterScoped(kube.Resource{Group: "networking.k8s.io", Version: "v1", Plural: plural, Kind: kind})
	}
	return []*Kind{
		{Resource: kube.Resource{Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices",
			Kind: "EndpointSlice"}, Generation: sliceChanged, Defaults: sliceDefaults,
			Validate: rules(required("addressType"), oneOf("addressType", "FQDN", "IPv4", "IPv6"), slicePortRules,
				endpointRules, immutable("addressType")), Warn: func(o Object) []string {
				if obj.String(o, "addressType") == "FQDN" {
					return []string{"spec.addressType: FQDN endpoints are deprecated"}
				}
				return nil
			}, Columns: sliceColumns()},
		{Resource: in("ipaddresses", "IPAddress"), ShortNames: []string{"ip"}, Name: canonicalIP,
			Validate: rules(parentRules, immutable("spec.parentRef")),
			Columns:  []Column{text("ParentRef", parentCell)}},
		{Resource: in("servicecidrs", "ServiceCIDR"), Status: true, NewStatus: constant(Object{}),
			Validate: cidrRules, Columns: []Column{text("CIDRs",
				func(o Object) any { return strings.Join(obj.Texts(o, "spec", "cidrs"), ",") }),
				ageColumn}},
	}
}

// sliceChanged reports a change of anything but metadata.
func sliceChanged(next, cur Object) bool {
	return !obj.EqualExcept(next, cur, "metadata") || !patch.Equal(obj.Get(next, "metadata", "labels"),
		obj.Get(cur, "metadata", "labels"))
}

func sliceDefaults(o Object) {
	for _, p := range obj.Maps(o, "ports") {
		obj.Default(p, "", "name")
		obj.Default(p, "TCP", "protocol")
	}
}

// maxEndpoints and maxSlicePorts are the real server's limits of one EndpointSlice.
const maxEndpoints, maxSlicePorts = 1000, 20000

func slicePortRules(next, _ Object) []Cause {
	var out []Cause
	ports, names := obj.Maps(next, "ports"), map[string]bool{}
	if len(ports) > maxSlicePorts {
		return []Cause{tooMany("ports", len(ports), maxSlicePorts)}
	}
	for i, p := range ports {
		at, name := fmt.Sprintf("ports[%d]", i), obj.String(p, "name")
		if why := selector.Label(name); name != "" && why != "" {
			out = append(out, Invalid(at+".name", name, why))
		}
		if names[name] {
			out = append(out, Duplicate(at+".name", name))
		}
		names[name] = true
		if v, known := obj.String(p, "protocol"), []string{"SCTP", "TCP", "UDP"}; !slices.Contains(known, v) {
			out = append(out, NotSupported(at+".protocol", v, known...))
		}
	}
	return out
}

func tooMany(field string, have, limit int) Cause {
	return Cause{Reason: "FieldValueTooMany", Message: fmt.Sprintf("Too many: %d: must have at most %d items", have,
		limit), Field: field}
}

func endpointRules(next, cur Object) []Cause {
	endpoints, family := obj.Maps(next, "endpoints"), obj.String(next, "addressType")
	if len(endpoints) > maxEndpoints {
		return []Cause{tooMany("endpoints", len(endpoints), maxEndpoints)}
	}
	var out []Cause
	for i, e := range endpoints {
		at := fmt.Sprintf("endpoints[%d].addresses", i)
		list := obj.Texts(e, "addresses")
		if len(list) == 0 {
			out = append(out, Required(at, "must contain at least 1 address"))
		}
		for j, a := range list {
			ip, err := netip.ParseAddr(a)
			switch {
			case family != "IPv4" && family != "IPv6":
			case err != nil:
				out = append(out, Invalid(fmt.Sprintf("%s[%d]", at, j), a,
					"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
			case ip.Is4() != (family == "IPv4"):
				out = append(out, Invalid(at, a, "must be an "+family+" address"))
			case ip.IsLoopback():
				out = append(out, Invalid(fmt.Sprintf("%s[%d]", at, j), a,
					"may not be in the loopback range (127.0.0.0/8, ::1/128)"))
			}
		}
	}
	if cur != nil && patch.Equal(next["endpoints"], cur["endpoints"]) {
		return nil // what was accepted once stays
	}
	return out
}

func sliceColumns() []Column {
	return []Column{text("AddressType", field("addressType")), text("Ports", func(o Object) any {
		var out []string
		for _, p := range obj.Maps(o, "ports") {
			port := "*"
			if n, ok := obj.Int(p, "port"); ok {
				port = strconv.FormatInt(n, 10)
			} else if name, ok := p["name"].(string); ok {
				port = name
			}
			out = append(out, port)
		}
		return firstThree(out)
	}),
		text("Endpoints", func(o Object) any {
			var out []string
			for _, e := range obj.Maps(o, "endpoints") {
				out = append(out, obj.Texts(e, "addresses")...)
			}
			return firstThree(out)
		}), ageColumn}
}

// firstThree lists three items, and how many more there are.
func firstThree(list []string) string {
	if more := len(list) - 3; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:3], ","), more)
	}
	return cmp.Or(strings.Join(list, ","), "<unset>")
}

// canonicalIP is the rule for the names of IPAddresses.
func canonicalIP(name string) string {
	ip, err := netip.ParseAddr(name)
	switch {
	case err != nil:
		return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
	case ip.String() != name:
		return "must be in canonical form (\"" + ip.String() + "\")"
	}
	return ""
}

func parentRules(next, _ Object) []Cause {
	if obj.Map(next, "spec", "parentRef") == nil {
		return []Cause{Required("spec.parentRef", "")}
	}
	return required("spec.parentRef.resource", "spec.parentRef.name")(next, nil)
}

func parentCell(o Object) any {
	ref := obj.Map(o, "spec", "parentRef")
	if ref == nil {
		return "<none>"
	}
	out := obj.String(ref, "resource")
	if group := obj.String(ref, "group"); group != "" {
		out += "." + group
	}
	if ns := obj.String(ref, "namespace"); ns != "" {
		out += "/" + ns
	}
	return strings.ToLower(out) + "/" + obj.String(ref, "name")
}

func cidrRules(next, cur Object) []Cause {
	list := obj.Texts(next, "spec", "cidrs")
	if old := obj.Texts(cur, "spec", "cidrs"); cur != nil {
		if !slices.Equal(list, old) && !(len(old) == 1 && len(list) == 2 && list[0] == old[0]) {
			return []Cause{Invalid("spec.cidrs", obj.Slice(next, "spec", "cidrs"), "field is immutable")}
		}
		return nil
	}
	if len(list) == 0 {
		return []Cause{Required("spec.cidrs", "at least one CIDR required")}
	}
	if len(list) > 2 {
		return []Cause{Invalid("spec.cidrs", obj.Slice(next, "spec", "cidrs"),
			"may only hold up to 2 values")}
	}
	var out []Cause
	for i, c := range list {
		p, err := netip.ParsePrefix(c)
		switch at := fmt.Sprintf("spec.cidrs[%d]", i); {
		case err != nil:
			out = append(out, Invalid(at, c, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
		case p.Masked() != p:
			out = append(out, Invalid(at, c, "must not have bits set beyond the prefix length"))
		}
	}
	return out
}
