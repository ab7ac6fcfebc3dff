package kinds

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/cron"
)

// What lines of data cannot say is a function here: "call NAME" in checks and in defaults, "@NAME" in columns.

// functions are those of checks, which add causes, and of defaults, which also set what else the server sets.
var functions = sync.OnceValue(func() map[string]func(scope) {
	return map[string]func(scope){
		"requestsInLimits": requestsInLimits, "tolerationsStay": tolerationsStay, "signerName": signerNameRules,
		"selectsTemplate": func(s scope) { selectsTemplate(s, obj.Map(s.o, "selector")) },
		"plainSelector": func(s scope) { // of ReplicationControllers: labels alone
			selectsTemplate(s, Object{"matchLabels": s.o["selector"]})
		},
		"revisionData": func(s scope) {
			if _, ok := s.o["data"].(Object); !ok {
				s.add(obj.Required("data", "data must be a valid JSON object"))
			}
		},
		"dataTwice": dataTwice, "dataSize": dataSize("data", "binaryData", "[]"),
		"secretSize": dataSize("", "data", "data"), "endpoints": endpointRules,
		"clusterIPChange": func(s scope) {
			s.invalid("spec.clusterIPs[0]", []any{obj.String(s.o, "spec", "clusterIP")}, "may not change once set")
		},
		"limitOrder": limitOrder, "decisions": decisionRules, "versions": versionRules,
		"hookResources": hookResources, "hookURL": hookURL, "servicePath": servicePath,
		"admissionReviewVersions":  func(s scope) { reviewVersions(s, "admissionReviewVersions") },
		"conversionReviewVersions": func(s scope) { reviewVersions(s, "conversionReviewVersions") },

		"volumePolicy": func(s scope) { obj.Default(s.o, pullPolicy(obj.String(s.o, "reference")), "pullPolicy") },
		"pullPolicy":   func(s scope) { obj.Default(s.o, pullPolicy(obj.String(s.o, "image")), "imagePullPolicy") },
		"limitsAsRequests": func(s scope) { // of pods, but not of templates
			for name, v := range obj.Map(s.o, "resources", "limits") {
				obj.Default(s.o, v, "resources", "requests", name)
			}
		},
		"driversStay": driversStay, "gatesGo": gatesGo, "dataSources": dataSources, "quotaScopes": quotaScopes,
		"scopesStay": scopesStay, "exitCodes": exitCodes,
		"onePodCIDR":  func(s scope) { s.o["podCIDRs"] = []any{s.o["podCIDR"]} },
		"podRequests": podRequests, "tolerations": addTolerations, "encodeStringData": encodeStringData,
		"keepNodePorts": keepNodePorts, "limitDefaults": limitDefaults, "conditionTimes": conditionTimes,
		"definition": crdDefaults, "storedVersions": storedVersions,
	}
})

// cellFunctions are the functions of columns.
var cellFunctions = sync.OnceValue(func() map[string]func(Object, time.Time) any {
	return map[string]func(Object, time.Time) any{
		"podReady":       func(o Object, _ time.Time) any { return summarize(o, time.Time{}).ready },
		"podStatus":      func(o Object, _ time.Time) any { return summarize(o, time.Time{}).status },
		"podRestarts":    func(o Object, now time.Time) any { return summarize(o, now).restarts },
		"readinessGates": readinessGates,
		"dataCount": func(o Object, _ time.Time) any {
			return int64(len(obj.Map(o, "data")) + len(obj.Map(o, "binaryData")))
		},
		"endpoints":     endpointsCell,
		"lastSeen":      since("series.lastObservedTime", "lastTimestamp", "firstTimestamp", "eventTime"),
		"firstSeen":     since("firstTimestamp", "eventTime"),
		"nodeRoles":     nodeRoles,
		"externalIP":    externalIP,
		"targets":       targetsCell,
		"duration":      duration,
		"lastSchedule":  since("status.lastScheduleTime"),
		"quotaRequests": func(o Object, _ time.Time) any { return quota(o, false) },
		"quotaLimits":   func(o Object, _ time.Time) any { return quota(o, true) },
		"requestedDuration": func(o Object, _ time.Time) any {
			return HumanDuration(time.Duration(obj.Number(o, "spec", "expirationSeconds")) * time.Second)
		},
	}
})

// Condition returns the condition of a type in the status of an object, nil if there is none.
func Condition(o Object, kind string) Object {
	for _, c := range obj.Maps(o, "status", "conditions") {
		if c["type"] == kind {
			return c
		}
	}
	return nil
}

// Holds reports whether a condition of an object is True.
func Holds(o Object, kind string) bool { return Condition(o, kind)["status"] == "True" }

// formNamed returns the form that a line names.
func formNamed(name string) func(string) []string {
	form := forms()[name]
	if form == nil {
		mistake("no form %q", name)
	}
	return form
}

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

// inAnnotations are the annotations in which v1 keeps fields that it does not have, so that a change through v1 loses
// nothing. The names are the real server's; the values are in the form of v2.
var inAnnotations = map[string]string{"metrics": "autoscaling.alpha.kubernetes.io/metrics",
	"behavior": "autoscaling.alpha.kubernetes.io/behavior"}

const targetCPU = "targetCPUUtilizationPercentage"

// oldScaler converts a stored HorizontalPodAutoscaler to v1, which has a field for the CPU target and annotations for
// other metrics.
func oldScaler(o Object) Object {
	out, spec, status := obj.Shallow(o), obj.Shallow(obj.Map(o, "spec")), obj.Shallow(obj.Map(o, "status"))
	var others []any
	for _, m := range obj.Maps(spec, "metrics") {
		if n, ok := obj.Int(m, "resource", "target", "averageUtilization"); ok &&
			obj.String(m, "resource", "name") == "cpu" {
			spec[targetCPU] = n
		} else {
			others = append(others, m)
		}
	}
	if delete(spec, "metrics"); others != nil {
		spec["metrics"] = others
	}
	meta := obj.Shallow(obj.Map(o, "metadata"))
	annotations := obj.Shallow(obj.Map(meta, "annotations"))
	for field, name := range inAnnotations {
		if v := spec[field]; v != nil {
			if text, err := patch.Encode(v); err == nil {
				annotations[name] = string(text)
				meta["annotations"] = annotations
			}
		}
		delete(spec, field)
	}
	delete(status, "currentMetrics")
	delete(status, "conditions")
	obj.Default(status, int64(0), "currentReplicas")
	out["metadata"], out["spec"], out["status"] = meta, spec, status
	return out
}

// newScaler converts v1 to v2. An annotation that is not valid JSON stays an annotation.
func newScaler(o Object) Object {
	obj.Default(o, Object{}, "spec")
	spec, annotations := obj.Map(o, "spec"), obj.Map(o, "metadata", "annotations")
	for field, name := range inAnnotations {
		if v, err := patch.Decode([]byte(obj.String(annotations, name))); err == nil {
			spec[field] = v
			delete(annotations, name)
		}
	}
	if n, ok := obj.Int(spec, targetCPU); ok {
		target := Object{"type": "Utilization", "averageUtilization": n}
		cpu := Object{"type": "Resource", "resource": Object{"name": "cpu", "target": target}}
		spec["metrics"] = append(obj.Slice(spec, "metrics"), cpu)
	}
	delete(spec, targetCPU)
	return o
}

// eventNames has the name of each field in v1 and in events.k8s.io/v1.
var eventNames = [][2]string{{"involvedObject", "regarding"}, {"message", "note"}, {"source", "deprecatedSource"},
	{"firstTimestamp", "deprecatedFirstTimestamp"}, {"lastTimestamp", "deprecatedLastTimestamp"},
	{"count", "deprecatedCount"},
	{"reportingComponent", "reportingController"}}

// newEvent converts a stored Event (v1) to events.k8s.io/v1.
func newEvent(o Object) Object {
	out := obj.Shallow(o)
	for _, n := range eventNames {
		rename(out, n[0], n[1])
	}
	for _, f := range []string{"reportingController", "reportingInstance"} {
		if out[f] == "" {
			delete(out, f)
		}
	}
	return out
}

func oldEvent(o Object) Object {
	for _, n := range eventNames {
		rename(o, n[1], n[0])
	}
	return o
}

func rename(o Object, from, to string) {
	if v, ok := o[from]; ok {
		delete(o, from)
		o[to] = v
	}
}
