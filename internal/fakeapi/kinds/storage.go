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
			Columns: []Column{length("Drivers", "Drivers indicates the number of CSI drivers registered on the node",
				"spec", "drivers"), ageColumn}},
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
			Columns: []Column{{Name: "Attacher", Type: "string", Format: "name", Description: "attacher indicates " +
				"the name of the volume driver that MUST handle this request.", Cell: func(o Object, _ time.Time) any {
				return obj.String(o, "spec", "attacher")
			}}, text("PV", "persistentVolumeName represents the name of the persistent volume to attach.",
				field("spec", "source", "persistentVolumeName")),
				text("Node", "nodeName represents the node that the volume should be attached to.",
					field("spec", "nodeName")),
				boolean("Attached", "attached indicates the volume is successfully attached.", false, "status",
					"attached"), ageColumn}},
		{Resource: clusterScoped(in("volumeattributesclasses", "VolumeAttributesClass")), ShortNames: []string{"vac"},
			DeleteReturns: true, Validate: rules(required("driverName"), immutable("driverName", "parameters")),
			Columns: []Column{text("DriverName", "Name of the CSI driver", field("driverName")), ageColumn}},
	}
}

// boolean is a column of a boolean field, with the value of a missing one.
func boolean(name, description string, missing bool, path ...string) Column {
	return Column{Name: name, Type: "boolean", Description: description, Cell: func(o Object, _ time.Time) any {
		if v, ok := obj.Get(o, path...).(bool); ok {
			return v
		}
		return missing
	}}
}

// length is a column of the length of a list.
func length(name, description string, path ...string) Column {
	return Column{Name: name, Type: "integer", Description: description, Cell: func(o Object, _ time.Time) any {
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
		text("Capacity", "capacity is the description of the persistent volume's resources and capacity.",
			orNone("0", "spec", "capacity", "storage")),
		text("Access Modes", "accessModes contains all ways the volume can be mounted.", func(o Object) any {
			return shortModes(obj.Slice(o, "spec", "accessModes"))
		}),
		text("Reclaim Policy", "persistentVolumeReclaimPolicy defines what happens to a persistent volume when "+
			"released from its claim.", field("spec", "persistentVolumeReclaimPolicy")),
		text("Status", "phase indicates if a volume is available, bound to a claim, or released by a claim.",
			claimStatus),
		text("Claim", "claimRef is part of a bi-directional binding between PersistentVolume and "+
			"PersistentVolumeClaim.", func(o Object) any {
			claim := obj.Map(o, "spec", "claimRef")
			if claim == nil {
				return ""
			}
			return obj.String(claim, "namespace") + "/" + obj.String(claim, "name")
		}),
		text("StorageClass", "StorageClass of the pv", field("spec", "storageClassName")),
		text("VolumeAttributesClass", "VolumeAttributesClass of the pv",
			orNone("<unset>", "spec", "volumeAttributesClassName")),
		text("Reason", "reason is a brief CamelCase string that describes any failure and is meant for machine "+
			"parsing and tidy display in the CLI.", field("status", "reason")),
		ageColumn,
		wide(text("VolumeMode", "volumeMode defines if a volume is intended to be used with a formatted filesystem "+
			"or to remain in raw block state.", orNone("<unset>", "spec", "volumeMode")))}
}

func storageClassDefaults(o Object) {
	obj.Default(o, "Delete", "reclaimPolicy")
	obj.Default(o, "Immediate", "volumeBindingMode")
}

func storageClassColumns() []Column {
	return []Column{
		{Name: "Name", Type: "string", Description: nameText, Cell: func(o Object, _ time.Time) any {
			name := obj.String(o, "metadata", "name")
			for _, a := range []string{"storageclass.kubernetes.io/is-default-class",
				"storageclass.beta.kubernetes.io/is-default-class"} {
				if obj.String(o, "metadata", "annotations", a) == "true" {
					return name + " (default)"
				}
			}
			return name
		}},
		text("Provisioner", "provisioner indicates the type of the provisioner.", field("provisioner")),
		text("ReclaimPolicy", "reclaimPolicy controls the reclaimPolicy for dynamically provisioned "+
			"PersistentVolumes of this storage class.", orNone("Delete", "reclaimPolicy")),
		text("VolumeBindingMode", "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and "+
			"bound.", orNone("Immediate", "volumeBindingMode")),
		text("AllowVolumeExpansion", "allowVolumeExpansion shows whether the storage class allow volume expand.",
			func(o Object) any { return obj.Bool(o, "allowVolumeExpansion") }),
		ageColumn}
}

// nameText describes the column of names.
const nameText = "Name must be unique within a namespace."

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
		boolean("AttachRequired", "attachRequired indicates this CSI volume driver requires an attach operation",
			true, "spec", "attachRequired"),
		boolean("PodInfoOnMount", "podInfoOnMount indicates this CSI volume driver requires additional pod "+
			"information", false, "spec", "podInfoOnMount"),
		boolean("StorageCapacity", "storageCapacity indicates that the CSI volume driver wants pod scheduling to "+
			"consider the storage capacity", false, "spec", "storageCapacity"),
		text("TokenRequests", "tokenRequests indicates the CSI driver needs pods' service account tokens",
			func(o Object) any {
				if obj.Get(o, "spec", "tokenRequests") == nil {
					return "<unset>"
				}
				return joined("audience", "spec", "tokenRequests")(o)
			}),
		boolean("RequiresRepublish", "requiresRepublish indicates the CSI driver wants `NodePublishVolume` being "+
			"periodically called", false, "spec", "requiresRepublish"),
		text("Modes", "volumeLifecycleModes defines what kind of volumes this CSI volume driver supports.",
			func(o Object) any {
				return cmp.Or(strings.Join(obj.Texts(o, "spec", "volumeLifecycleModes"), ","), "<none>")
			}), ageColumn}
}
