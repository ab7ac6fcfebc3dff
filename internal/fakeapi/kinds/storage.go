package kinds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// storage are the kinds of storage.k8s.io, and PersistentVolumes.
func storage() []*Kind {
	in := func(plural, kind string) kube.Resource {
		return kube.Resource{Group: "storage.k8s.io", Version: "v1", Plural: plural, Kind: kind}
	}
	return []*Kind{
		{Resource: clusterScoped(v1("persistentvolumes", "PersistentVolume")), ShortNames: []string{"pv"},
			Status: true, NewStatus: newVolumeStatus, DeleteReturns: true,
			Defaults: volumeDefaults, Validate: volumeRules,
			Columns: volumeColumns()},
		{Resource: clusterScoped(in("csidrivers", "CSIDriver")), DeleteReturns: true, NeedsVersion: true,
			Defaults: csiDriverDefaults, Validate: immutable("spec.volumeLifecycleModes"),
			Columns: csiDriverColumns()},
		{Resource: clusterScoped(in("csinodes", "CSINode")), DeleteReturns: true, NeedsVersion: true,
			Columns: []Column{length("Drivers", "spec", "drivers"), ageColumn}},
		{Resource: in("csistoragecapacities", "CSIStorageCapacity"), ListKind: "CSIStorageCapacityList",
			NeedsVersion: true, Validate: rules(required("storageClassName"), immutable("storageClassName",
				"nodeTopology")), Columns: createdAtOnly},
		{Resource: clusterScoped(in("storageclasses", "StorageClass")), ShortNames: []string{"sc"},
			DeleteReturns: true, Defaults: storageClassDefaults, Validate: rules(required("provisioner"),
				oneOf("reclaimPolicy", "Delete", "Retain"),
				oneOf("volumeBindingMode", "Immediate", "WaitForFirstConsumer"),
				immutable("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")),
			Columns: storageClassColumns()},
		{Resource: clusterScoped(in("volumeattachments", "VolumeAttachment")), Status: true,
			NewStatus: constant(Object{"attached": false}), DeleteReturns: true, NeedsVersion: true,
			Validate: rules(required("spec.attacher", "spec.nodeName"), immutable("spec")),
			Columns: []Column{{Name: "Attacher", Type: "string", Format: "name",
				Cell: func(o Object, _ time.Time) any {
					return obj.String(o, "spec", "attacher")
				}}, text("PV", field("spec", "source", "persistentVolumeName")), text("Node",
				field("spec", "nodeName")),
				boolean("Attached", false, "status", "attached"), ageColumn}},
		{Resource: clusterScoped(in("volumeattributesclasses", "VolumeAttributesClass")), ShortNames: []string{"vac"},
			DeleteReturns: true, Validate: rules(required("driverName"), immutable("driverName", "parameters")),
			Columns: []Column{text("DriverName", field("driverName")), ageColumn}},
	}
}

// boolean is a column of a boolean field, with the value of a missing one.
func boolean(name string, missing bool, path ...string) Column {
	return Column{Name: name, Type: "boolean", Cell: func(o Object, _ time.Time) any {
		if v, ok := obj.Get(o, path...).(bool); ok {
			return v
		}
		return missing
	}}
}

// length is a column of the length of a list.
func length(name string, path ...string) Column {
	return Column{Name: name, Type: "integer", Cell: func(o Object, _ time.Time) any {
		return int64(len(obj.Slice(o, path...)))
	}}
}

func newVolumeStatus(Object) any {
	return Object{"phase": "Pending", "lastPhaseTransitionTime": time.Now().UTC().Format(time.RFC3339)}
}

func volumeDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, "Retain", "persistentVolumeReclaimPolicy")
	obj.Default(spec, "Filesystem", "volumeMode")
	if obj.Map(spec, "hostPath") != nil {
		obj.Default(spec, "", "hostPath", "type")
	}
}

// notSources are the fields of a PersistentVolume's spec that are no volume source.
var notSources = []string{"capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName",
	"mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName"}

func volumeRules(next, cur Object) []Cause {
	spec := obj.Map(next, "spec")
	var out []Cause
	modes, known := obj.Slice(spec, "accessModes"), []string{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
		"ReadWriteOncePod"}
	if len(modes) == 0 {
		out = append(out, Required("spec.accessModes", ""))
	}
	for _, m := range modes {
		if s, _ := m.(string); !slices.Contains(known, s) {
			out = append(out, NotSupported("spec.accessModes", m, known...))
		}
	}
	capacity := obj.Map(spec, "capacity")
	if len(capacity) == 0 {
		out = append(out, Required("spec.capacity", ""))
	}
	if capacity["storage"] == nil || len(capacity) > 1 {
		out = append(out, NotSupported("spec.capacity", capacity, "storage"))
	}
	out = append(out, oneOf("spec.persistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain")(next, cur)...)
	var sources []string
	for _, name := range sortedKeys(spec) {
		if !slices.Contains(notSources, name) {
			sources = append(sources, name)
		}
	}
	if len(sources) == 0 {
		out = append(out, Required("spec", "must specify a volume type"))
	}
	for _, name := range sources[min(1, len(sources)):] {
		out = append(out, Forbidden("spec."+name, "may not specify more than 1 volume type"))
	}
	if cur == nil || len(sources) == 0 {
		return out
	}
	if !patch.Equal(spec[sources[0]], obj.Get(cur, "spec", sources[0])) {
		out = append(out, Forbidden("spec.persistentvolumesource",
			"spec.persistentvolumesource is immutable after creation"))
	}
	return append(out, immutable("spec.volumeMode")(next, cur)...)
}

func volumeColumns() []Column {
	return []Column{
		text("Capacity", orNone("0", "spec", "capacity", "storage")), text("Access Modes", func(o Object) any {
			return shortModes(obj.Slice(o, "spec", "accessModes"))
		}),
		text("Reclaim Policy", field("spec", "persistentVolumeReclaimPolicy")), text("Status", claimStatus),
		text("Claim", func(o Object) any {
			claim := obj.Map(o, "spec", "claimRef")
			if claim == nil {
				return ""
			}
			return obj.String(claim, "namespace") + "/" + obj.String(claim, "name")
		}),
		text("StorageClass", field("spec", "storageClassName")), text("VolumeAttributesClass",
			orNone("<unset>", "spec", "volumeAttributesClassName")),
		text("Reason", field("status", "reason")), ageColumn,
		wide(text("VolumeMode", orNone("<unset>", "spec", "volumeMode")))}
}

func storageClassDefaults(o Object) {
	obj.Default(o, "Delete", "reclaimPolicy")
	obj.Default(o, "Immediate", "volumeBindingMode")
}

func storageClassColumns() []Column {
	return []Column{
		{Name: "Name", Type: "string", Cell: func(o Object, _ time.Time) any {
			name := obj.String(o, "metadata", "name")
			for _, a := range []string{"storageclass.kubernetes.io/is-default-class",
				"storageclass.beta.kubernetes.io/is-default-class"} {
				if obj.String(o, "metadata", "annotations", a) == "true" {
					return name + " (default)"
				}
			}
			return name
		}},
		text("Provisioner", field("provisioner")), text("ReclaimPolicy", orNone("Delete", "reclaimPolicy")),
		text("VolumeBindingMode", orNone("Immediate", "volumeBindingMode")), text("AllowVolumeExpansion",
			func(o Object) any { return obj.Bool(o, "allowVolumeExpansion") }),
		ageColumn}
}

func csiDriverDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, true, "attachRequired")
	for _, f := range []string{"podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"} {
		obj.Default(spec, false, f)
	}
	obj.Default(spec, "ReadWriteOnceWithFSType", "fsGroupPolicy")
	if len(obj.Slice(spec, "volumeLifecycleModes")) == 0 {
		spec["volumeLifecycleModes"] = []any{"Persistent"}
	}
}

func csiDriverColumns() []Column {
	return []Column{
		boolean("AttachRequired", true, "spec", "attachRequired"),
		boolean("PodInfoOnMount", false, "spec", "podInfoOnMount"),
		boolean("StorageCapacity", false, "spec", "storageCapacity"), text("TokenRequests", func(o Object) any {
			if obj.Get(o, "spec", "tokenRequests") == nil {
				return "<unset>"
			}
			return joined("audience", "spec", "tokenRequests")(o)
		}),
		boolean("RequiresRepublish", false, "spec", "requiresRepublish"), text("Modes", func(o Object) any {
			return cmp.Or(strings.Join(obj.Texts(o, "spec", "volumeLifecycleModes"), ","), "<none>")
		}), ageColumn}
}
