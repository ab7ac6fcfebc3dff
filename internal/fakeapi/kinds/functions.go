package kinds

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"skiff/internal/fakeapi/obj"
)

// What lines of data cannot say is a function here: "call NAME" in checks and in defaults, "@NAME" in columns.

// checkFunctions are the functions of checks.
var checkFunctions = sync.OnceValue(func() map[string]func(scope) []Cause {
	return map[string]func(scope) []Cause{
		// pods and templates of pods
		"containerNames": containerNames, "mounts": mounts, "requestsInLimits": requestsInLimits,
		"ephemeral": ephemeralRules, "podChange": podChangeRules,
		"selectsTemplate": func(s scope) []Cause { return selectsTemplate(obj.Map(s.root, "spec")) },
		"templateLabels":  templateLabels, "plainSelector": plainSelector, "statefulSetChange": statefulSetChange,
		// the core group
		"immutableData": immutableData, "dataTwice": dataTwice,
		"dataSize":   func(s scope) []Cause { return dataSize(s.root, "data", "binaryData", "[]") },
		"secretSize": func(s scope) []Cause { return dataSize(s.root, "", "data", "data") },
		"secretKeys": secretRules, "accessModes": accessModes, "claimChange": claimChange,
		"volumeSource": volumeSource, "portNumbers": portNumbers, "clusterIPChange": clusterIPChange,
		"limitRange": limitRangeRules, "priority": priorityRules,
		// others
		"endpoints": endpointRules, "cidrChange": cidrChange, "request": requestRules, "usages": usageRules,
		"decisions": decisionRules, "definition": crdRules,
		"hookResources": hookResources, "hookURL": hookURL, "servicePath": servicePath,
		"reviewVersions": reviewVersions,
	}
})

// changeFunctions are the functions of defaults, and of what the server sets otherwise.
var changeFunctions = sync.OnceValue(func() map[string]func(scope) {
	return map[string]func(scope){
		"emptyVolume": func(s scope) {
			if len(s.o) == 1 && s.o["name"] != nil {
				s.o["emptyDir"] = Object{}
			}
		},
		"pullPolicy": func(s scope) { obj.Default(s.o, pullPolicy(obj.String(s.o, "image")), "imagePullPolicy") },
		"limitsAsRequests": func(s scope) { // of pods, but not of templates
			for name, v := range obj.Map(s.o, "resources", "limits") {
				obj.Default(s.o, v, "resources", "requests", name)
			}
		},
		"podRequests":      podRequests,
		"admitPod":         admitPod,
		"jobLabels":        jobLabels,
		"encodeStringData": encodeStringData,
		"keepAllocated":    keepAllocated,
		"limitRange":       limitRangeDefaults,
		"conditionTimes":   conditionTimes,
		"definition":       crdDefaults,
	}
})

// cellFunctions are the functions of columns.
var cellFunctions = sync.OnceValue(func() map[string]func(Object, time.Time) any {
	of := func(cell func(Object) any) func(Object, time.Time) any {
		return func(o Object, _ time.Time) any { return cell(o) }
	}
	return map[string]func(Object, time.Time) any{
		"podReady":       of(func(o Object) any { return summarize(o, time.Time{}).ready }),
		"podStatus":      of(func(o Object) any { return summarize(o, time.Time{}).status }),
		"podRestarts":    func(o Object, now time.Time) any { return summarize(o, now).restarts },
		"readinessGates": of(readinessGates),
		"dataCount": of(func(o Object) any {
			return int64(len(obj.Map(o, "data")) + len(obj.Map(o, "binaryData")))
		}),
		"endpoints":       of(endpointsCell),
		"lastSeen":        since("series.lastObservedTime", "lastTimestamp", "firstTimestamp", "eventTime"),
		"firstSeen":       since("firstTimestamp", "eventTime"),
		"nodeStatus":      of(nodeStatus),
		"nodeRoles":       of(nodeRoles),
		"externalIP":      of(externalIP),
		"ports":           of(portsCell),
		"balancers":       of(func(o Object) any { return strings.Join(balancers(o), ",") }),
		"slicePorts":      of(slicePorts),
		"parent":          of(parentCell),
		"controller":      of(controllerCell),
		"serviceAccounts": of(serviceAccounts),
		"targets":         of(targetsCell),
		"jobStatus":       of(jobStatus),
		"completions":     of(completions),
		"duration":        duration,
		"lastSchedule":    since("status.lastScheduleTime"),
		"quotaRequests":   of(func(o Object) any { return quota(o, false) }),
		"quotaLimits":     of(func(o Object) any { return quota(o, true) }),
		"claimState":      of(claimState),
		"requestStatus":   of(requestStatus),
		"requestedDuration": of(func(o Object) any {
			n, _ := obj.Int(o, "spec", "expirationSeconds")
			return HumanDuration(time.Duration(n) * time.Second)
		}),
	}
})

// parts calls f with the objects of the list at a path below a part, and where they are.
func (s scope) parts(at string, f func(at string, o Object)) {
	for i, o := range obj.Maps(s.o, strings.Split(at, ".")...) {
		f(within(join(s.at, at), strconv.Itoa(i)), o)
	}
}

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
