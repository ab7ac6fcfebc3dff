package kinds

import (
	"strings"
	"time"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
)

// devices are the kinds of resource.k8s.io.
func devices() []*Kind {
	in := func(plural, kind string) kube.Resource {
		return kube.Resource{Group: "resource.k8s.io", Version: "v1", Plural: plural, Kind: kind}
	}
	return []*Kind{
		{Resource: clusterScoped(in("deviceclasses", "DeviceClass")), DeleteReturns: true, Generation: specChanged,
			Columns: ageOnly},
		{Resource: in("resourceclaims", "ResourceClaim"), Status: true, NewStatus: constant(Object{}),
			DeleteReturns: true, Defaults: func(o Object) { deviceDefaults(obj.Map(o, "spec")) },
			Validate: immutable("spec"),
			Columns:  []Column{text("State", claimState), ageColumn}},
		{Resource: in("resourceclaimtemplates", "ResourceClaimTemplate"), DeleteReturns: true,
			Defaults: func(o Object) { deviceDefaults(obj.Map(o, "spec", "spec")) }, Validate: immutable("spec"),
			Columns: ageOnly},
		{Resource: clusterScoped(in("resourceslices", "ResourceSlice")), DeleteReturns: true, Generation: specChanged,
			Fields: map[string]func(Object) string{"spec.nodeName": at("spec", "nodeName"),
				"spec.driver": at("spec", "driver")}, Defaults: taintDefaults,
			Validate: rules(required("spec.driver", "spec.pool.name"), immutable("spec.driver", "spec.pool.name",
				"spec.nodeName")),
			Columns: []Column{text("Node",
				field("spec", "nodeName")), text("Driver", field("spec", "driver")), text("Pool",
				field("spec", "pool", "name")), ageColumn}},
	}
}

// deviceDefaults sets how many devices each request is for.
func deviceDefaults(spec Object) {
	count := func(request Object) {
		obj.Default(request, "ExactCount", "allocationMode")
		if n, _ := obj.Int(request, "count"); n == 0 && obj.String(request, "allocationMode") == "ExactCount" {
			request["count"] = int64(1)
		}
	}
	for _, r := range obj.Maps(spec, "devices", "requests") {
		if exactly := obj.Map(r, "exactly"); exactly != nil {
			count(exactly)
		}
		for _, sub := range obj.Maps(r, "firstAvailable") {
			count(sub)
		}
	}
}

func taintDefaults(o Object) {
	for _, d := range obj.Maps(o, "spec", "devices") {
		for _, taint := range obj.Maps(d, "taints") {
			obj.Default(taint, time.Now().UTC().Format(time.RFC3339), "timeAdded")
		}
	}
}

func claimState(o Object) any {
	var out []string
	deleted := obj.String(o, "metadata", "deletionTimestamp") != ""
	if deleted {
		out = append(out, "deleted")
	}
	switch {
	case obj.Get(o, "status", "allocation") != nil:
		out = append(out, "allocated")
		if len(obj.Slice(o, "status", "reservedFor")) > 0 {
			out = append(out, "reserved")
		}
	case !deleted:
		out = append(out, "pending")
	}
	return strings.Join(out, ",")
}
