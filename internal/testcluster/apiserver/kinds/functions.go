package kinds

import (
	"sync"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
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
		"dataTwice": dataTwice, "dataSize": dataSize("data", "binaryData", "[]"),
		"secretSize": dataSize("", "data", "data"), "endpoints": endpointRules,
		"clusterIPChange": func(s scope) {
			s.invalid("spec.clusterIPs[0]", []any{obj.String(s.o, "spec", "clusterIP")}, "may not change once set")
		},
		"limitOrder": limitOrder, "decisions": decisionRules, "versions": versionRules,
		"hookResources": hookResources, "hookURL": hookURL, "servicePath": servicePath,
		"admissionReviewVersions":  func(s scope) { reviewVersions(s, "admissionReviewVersions") },
		"conversionReviewVersions": func(s scope) { reviewVersions(s, "conversionReviewVersions") },

		"pullPolicy": func(s scope) { obj.Default(s.o, pullPolicy(obj.String(s.o, "image")), "imagePullPolicy") },
		"limitsAsRequests": func(s scope) { // of pods, but not of templates
			for name, v := range obj.Map(s.o, "resources", "limits") {
				obj.Default(s.o, v, "resources", "requests", name)
			}
		},
		"podRequests": podRequests, "tolerations": addTolerations, "encodeStringData": encodeStringData,
		"keepNodePorts": keepNodePorts, "limitDefaults": limitDefaults, "conditionTimes": conditionTimes,
		"definition": crdDefaults,
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
