package kinds

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/cron"
)

// forms are the forms that texts can be required to have. They return what is wrong.
var forms = sync.OnceValue(func() map[string]func(string) []string {
	one := func(form func(string) string) func(string) []string {
		return func(text string) []string {
			if why := form(text); why != "" {
				return []string{why}
			}
			return nil
		}
	}
	unless := func(good func(string) bool, why string) func(string) []string {
		return func(text string) []string {
			if good(text) {
				return nil
			}
			return []string{why}
		}
	}
	return map[string]func(string) []string{
		"label": one(obj.Label), "subdomain": one(obj.Subdomain), "segment": obj.PathSegment,
		"label-1035": one(obj.Label1035),
		"mixed-1035": one(func(text string) string {
			if why := obj.Label1035(strings.ToLower(text)); why != "" {
				return "may have mixed case, but should otherwise match: " + why
			}
			return ""
		}),
		"whole": unless(func(quantity string) bool { return !strings.ContainsAny(quantity, "num") },
			"must be an integer"),
		"qualified": obj.QualifiedName, "data-key": obj.DataKey, "port-name": obj.PortName,
		"image": unless(func(image string) bool { return strings.TrimSpace(image) == image },
			"must not have leading or trailing whitespace"),
		"variable": unless(func(name string) bool {
			return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '=' })
		}, "a valid environment variable name must consist only of printable ASCII characters other than '='"),
		"hook-name": one(func(name string) string {
			if why := obj.Subdomain(name); why != "" || strings.Count(name, ".") > 1 {
				return why
			}
			return "should be a domain with at least three segments separated by dots"
		}),
		"address": unless(func(text string) bool { _, err := netip.ParseAddr(text); return err == nil },
			"must be a valid IP address"),
		"external-address": one(func(text string) string {
			if ip, err := netip.ParseAddr(text); err == nil && ip.IsLoopback() {
				return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
			}
			return canonicalIP(text)
		}),
		"cidr": one(cidr), "ip": one(canonicalIP), "certificate-request": one(notRequest),
		"certificates": one(notCertificates), "docker-config": one(notDockerConfig),
		"cron-name": unless(func(name string) bool { return len(name) <= 52 }, // its Jobs are called after it
			"must be no more than 52 characters"),
		"schedule": one(func(text string) string {
			if strings.Contains(text, "TZ") {
				return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
			}
			if _, err := cron.Parse(text); err != nil {
				return err.Error()
			}
			return ""
		}),
		"time-zone": one(func(zone string) string {
			if strings.EqualFold(zone, "Local") {
				return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
			}
			if _, err := time.LoadLocation(zone); err != nil {
				return "unknown time zone " + zone
			}
			return ""
		}),
		"domain-path": unless(func(text string) bool { return strings.Contains(text, "/") },
			`must be a domain-prefixed path (such as "acme.io/foo")`),
		"group-version": one(func(text string) string {
			if strings.Count(text, "/") < 2 {
				return ""
			}
			return "unexpected GroupVersion string: " + text
		}),
	}
})
