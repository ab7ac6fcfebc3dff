package kinds

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"skiff/internal/testcluster/apiserver/obj"
)

const (
	// The default ranges: --service-node-port-range and --service-cluster-ip-range.
	firstNodePort, lastNodePort = 30000, 32767
	// Node ports are allocated from here on while there are free ones: those below are left to Services that name
	// theirs (KEP-3668: a thirty-second of the range, at least 16 and at most 128).
	firstDynamicPort = firstNodePort + (lastNodePort-firstNodePort+1)/32
	serviceRange     = "10.96.0.0/16"
	// Addresses are allocated from the upper part of the range; the lower part is for Services that ask for a fixed
	// address.
	firstDynamicIP = 256
)

// keepNodePorts gives a port without a node port that of the old port with the same name, even if its number changed,
// unless another port has it (patchAllocatedValues in the API server's service registry). s is about the spec.
func keepNodePorts(s scope) {
	used := map[int64]bool{}
	for _, p := range obj.Maps(s.o, "ports") {
		used[obj.Number(p, "nodePort")] = true
	}
	for _, p := range obj.Maps(s.o, "ports") {
		for _, was := range obj.Maps(s.old, "ports") {
			n := obj.Number(was, "nodePort")
			if n != 0 && !used[n] && p["nodePort"] == nil && obj.String(p, "name") == obj.String(was, "name") {
				obj.Set(p, n, "nodePort")
				used[n] = true
			}
		}
	}
}

// hasPort reports whether a port of a Service has a node port.
func hasPort(spec Object, n string) bool {
	return slices.ContainsFunc(obj.Maps(spec, "ports"),
		func(p Object) bool { return strconv.FormatInt(obj.Number(p, "nodePort"), 10) == n })
}

// HeldByService returns the cluster IP and the node ports of a Service, which no other may have.
func HeldByService(o Object) (held []string) {
	if ip := obj.String(o, "spec", "clusterIP"); ip != "" && ip != "None" {
		held = append(held, ip)
	}
	for _, p := range obj.Maps(o, "spec", "ports") {
		if n, ok := obj.Int(p, "nodePort"); ok {
			held = append(held, strconv.FormatInt(n, 10))
		}
	}
	if n := obj.Number(o, "spec", "healthCheckNodePort"); n != 0 {
		held = append(held, strconv.FormatInt(n, 10))
	}
	return held
}

// allocateService allocates the cluster IP and the node ports of a Service, or refuses the requested ones.
func allocateService(next Object, taken func(string) bool, rand func(int) int) ([]Cause, error) {
	spec := obj.Map(next, "spec")
	kind := obj.String(spec, "type")
	if kind == "ExternalName" {
		for _, f := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} {
			delete(spec, f)
		}
		return nil, nil
	}
	if obj.String(spec, "clusterIP") == "None" && len(obj.Map(spec, "selector")) == 0 {
		// The endpoints of such a Service are written by others, in any IP family.
		obj.Default(spec, []any{"IPv4", "IPv6"}, "ipFamilies")
		obj.Default(spec, "RequireDualStack", "ipFamilyPolicy")
	}
	obj.Default(spec, []any{"IPv4"}, "ipFamilies")
	obj.Default(spec, "SingleStack", "ipFamilyPolicy")
	out, err := allocateIP(spec, taken, rand)
	if err != nil {
		return nil, err
	}
	if kind == "NodePort" || kind == "LoadBalancer" && obj.Get(spec, "allocateLoadBalancerNodePorts") != false {
		causes, err := allocatePorts(spec, taken, rand)
		if out = append(out, causes...); err != nil {
			return out, err
		}
	}
	if kind == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local" && len(out) == 0 {
		// Load balancers ask there whether a node has pods of the Service.
		health := Object{"ports": []any{Object{"nodePort": obj.Number(spec, "healthCheckNodePort")}}}
		causes, err := allocatePorts(health, func(n string) bool { return taken(n) || hasPort(spec, n) }, rand)
		spec["healthCheckNodePort"] = obj.Number(obj.Maps(health, "ports")[0], "nodePort")
		return append(out, causes...), err
	}
	return out, nil
}

// unused returns a number from first to last that is not used, the next after a random one; false if there is none.
func unused(first, last int, rand func(int) int, used func(int) bool) (int, bool) {
	count := last - first + 1
	start := rand(count)
	for i := range count {
		if n := first + (start+i)%count; !used(n) {
			return n, true
		}
	}
	return 0, false
}

func allocateIP(spec Object, taken func(string) bool, rand func(int) int) ([]Cause, error) {
	ip := obj.String(spec, "clusterIP")
	switch {
	case ip == "None":
	case ip == "":
		address := func(n int) string { return fmt.Sprintf("10.96.%d.%d", n>>8, n&0xff) }
		n, ok := unused(firstDynamicIP, 1<<16-2, rand, func(n int) bool { return taken(address(n)) })
		if !ok {
			return nil, errors.New("failed to allocate a serviceIP: range is full")
		}
		ip = address(n)
	default:
		addr, err := netip.ParseAddr(ip)
		switch {
		case err != nil:
			return []Cause{obj.Invalid("spec.clusterIPs[0]", ip,
				"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")}, nil
		case !netip.MustParsePrefix(serviceRange).Contains(addr):
			return []Cause{obj.Invalid("spec.clusterIPs", []any{ip},
				"failed to allocate IP "+ip+": the provided network does not match the current range")}, nil
		case taken(ip):
			return []Cause{obj.Invalid("spec.clusterIPs", []any{ip},
				"failed to allocate IP "+ip+": provided IP is already allocated")}, nil
		}
	}
	spec["clusterIP"], spec["clusterIPs"] = ip, []any{ip}
	return nil, nil
}

func allocatePorts(spec Object, taken func(string) bool, rand func(int) int) ([]Cause, error) {
	own := map[int]bool{}
	used := func(n int) bool { return own[n] || taken(strconv.Itoa(n)) }
	var out []Cause
	var open []Object
	for i, p := range obj.Maps(spec, "ports") {
		at := fmt.Sprintf("spec.ports[%d].nodePort", i)
		switch n := int(obj.Number(p, "nodePort")); {
		case n == 0:
			open = append(open, p)
		case n < firstNodePort || n > lastNodePort:
			out = append(out, obj.Invalid(at, n, fmt.Sprintf("provided port is not in the valid range. The range "+
				"of valid ports is %d-%d", firstNodePort, lastNodePort)))
		case used(n):
			out = append(out, obj.Invalid(at, n, "provided port is already allocated"))
		default:
			own[n] = true
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, p := range open {
		n, ok := unused(firstDynamicPort, lastNodePort, rand, used)
		if !ok {
			n, ok = unused(firstNodePort, firstDynamicPort-1, rand, used)
		}
		if !ok {
			return nil, errors.New("failed to allocate a nodePort: range is full")
		}
		obj.Set(p, int64(n), "nodePort")
		own[n] = true
	}
	return nil, nil
}

// endpointRules checks the addresses of an EndpointSlice.
func endpointRules(s scope) {
	family := obj.String(s.o, "addressType")
	for i, e := range obj.Maps(s.o, "endpoints") {
		at := fmt.Sprintf("endpoints[%d].addresses", i)
		list := obj.Texts(e, "addresses")
		if len(list) == 0 {
			s.add(obj.Required(at, "must contain at least 1 address"))
		}
		for j, a := range list {
			ip, err := netip.ParseAddr(a)
			switch {
			case family != "IPv4" && family != "IPv6":
			case err != nil:
				s.invalid(fmt.Sprintf("%s[%d]", at, j), a,
					"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
			case ip.Is4() != (family == "IPv4"):
				s.invalid(at, a, "must be an "+family+" address")
			case ip.IsLoopback():
				s.invalid(fmt.Sprintf("%s[%d]", at, j), a, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
			}
		}
	}
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

func cidr(text string) string {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
	case p.Masked() != p:
		return "must not have bits set beyond the prefix length"
	}
	return ""
}
