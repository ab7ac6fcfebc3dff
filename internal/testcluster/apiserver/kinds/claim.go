package kinds

import (
	"fmt"
	"slices"

	"skiff/internal/testcluster/apiserver/obj"
)

// dataSources does to the spec of a claim what the real server does to what it is filled from: the older field takes
// no kinds but two, and either field gives the other its value (KEP 1495).
func dataSources(s scope) {
	had := s.old["dataSource"] != nil || s.old["dataSourceRef"] != nil
	ref, source := obj.Map(s.o, "dataSourceRef"), obj.Map(s.o, "dataSource")
	if obj.String(ref, "namespace") != "" && s.old["dataSourceRef"] == nil { // its feature is off
		ref = nil
		delete(s.o, "dataSourceRef")
	}
	group, kind := obj.String(source, "apiGroup"), obj.String(source, "kind")
	known := kind == "PersistentVolumeClaim" && group == "" ||
		kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
	if source != nil && ref == nil && !had && !known {
		source = nil
		delete(s.o, "dataSource")
	}
	switch {
	case source != nil && ref == nil:
		s.o["dataSourceRef"] = referenceOf(source)
	case ref != nil && source == nil && obj.String(ref, "namespace") == "":
		s.o["dataSource"] = referenceOf(ref)
	}
}

func referenceOf(o Object) Object {
	return Object{"apiGroup": o["apiGroup"], "kind": obj.String(o, "kind"), "name": obj.String(o, "name")}
}

// driversStay refuses a change of a driver of a node, but for how many volumes it can attach.
func driversStay(s scope) {
	for _, was := range obj.Maps(s.old, "drivers") {
		for _, is := range obj.Maps(s.o, "drivers") {
			if is["name"] == was["name"] && !obj.EqualExcept(is, was, "allocatable") {
				s.invalid("spec.drivers", is, "field is immutable")
			}
		}
	}
}

// gatesGo refuses gates that a pod did not have when it was made.
func gatesGo(s scope) {
	had := obj.Each(obj.Maps(s.old, "schedulingGates"), func(g Object) string { return obj.String(g, "name") })
	for i, g := range obj.Maps(s.o, "schedulingGates") {
		if name := obj.String(g, "name"); !slices.Contains(had, name) {
			s.add(obj.Forbidden(fmt.Sprintf("spec.schedulingGates[%d].name", i),
				"only deletion is allowed, but found new scheduling gate '"+name+"'"))
		}
	}
}
