package kinds

import (
	"fmt"
	"net/netip"
	"skiff/internal/testcluster/apiserver/obj"
)

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
