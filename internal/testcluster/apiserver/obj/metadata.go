package obj

import "strings"

// maxAnnotations is the limit of the total size of an object's annotations.
const maxAnnotations = 256 << 10

// MetadataCauses validates what metadata at a path has besides the name (apimachinery's ValidateObjectMeta).
func MetadataCauses(path string, meta map[string]any) (out []Cause) {
	for _, key := range Keys(Map(meta, "labels")) {
		out = append(out, InvalidAll(path+".labels", key, QualifiedName(key))...)
		if v := String(meta, "labels", key); LabelValue(v) != "" {
			out = append(out, Invalid(path+".labels", v, LabelValue(v)))
		}
	}
	total := 0
	for _, key := range Keys(Map(meta, "annotations")) {
		out = append(out, InvalidAll(path+".annotations", key, QualifiedName(key))...)
		total += len(key) + len(String(meta, "annotations", key))
	}
	if total > maxAnnotations {
		out = append(out, TooLong(path+".annotations", maxAnnotations))
	}
	out = append(out, ownerCauses(path+".ownerReferences", meta)...)
	for _, f := range Texts(meta, "finalizers") {
		out = append(out, InvalidAll(path+".finalizers", f, QualifiedName(f))...)
	}
	return out
}

func ownerCauses(field string, meta map[string]any) (out []Cause) {
	var controllers []string
	for _, ref := range Maps(meta, "ownerReferences") {
		for _, f := range []string{"apiVersion", "kind", "name", "uid"} {
			if String(ref, f) == "" {
				why := "must not be empty"
				if f == "apiVersion" {
					why = "version must not be empty"
				}
				out = append(out, Invalid(field+"."+f, "", why))
			}
		}
		version := String(ref, "apiVersion")
		if strings.Count(version, "/") > 1 {
			out = append(out, Invalid(field+".apiVersion", version, "version must not be empty"))
		}
		if version == "v1" && String(ref, "kind") == "Event" {
			out = append(out, Invalid(field, ref, "/v1, Kind=Event is disallowed from being an owner"))
		}
		if Bool(ref, "controller") {
			controllers = append(controllers, String(ref, "kind")+"/"+String(ref, "name"))
		}
	}
	for i := 1; i < len(controllers); i++ {
		out = append(out, Invalid(field, Slice(meta, "ownerReferences"), "Only one reference can have "+
			"Controller set to true. Found \"true\" in references for "+controllers[0]+" and "+controllers[i]))
	}
	return out
}
