package kinds

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// maxData is the limit of the total data of a ConfigMap or a Secret.
const maxData = 1 << 20

// dataSize limits the data of a ConfigMap or a Secret: text in the field plain, base64 in the field encoded. at is the
// field that is reported.
func dataSize(o Object, plain, encoded, at string) []Cause {
	total := 0
	for _, v := range obj.Strings(o, plain) {
		total += len(v)
	}
	for _, v := range obj.Strings(o, encoded) {
		total += base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(v, "=")))
	}
	if total <= maxData {
		return nil
	}
	return []Cause{TooLong(at, maxData)}
}

// dataTwice refuses keys that are in both fields of a ConfigMap.
func dataTwice(s scope) []Cause {
	var out []Cause
	for _, key := range obj.Keys(obj.Map(s.o, "binaryData")) {
		if _, twice := obj.Map(s.o, "data")[key]; twice {
			out = append(out, Invalid("data["+key+"]", key, "duplicate of key present in binaryData"))
		}
	}
	return out
}

// secretKeys are the keys that Secrets of a type must have.
var secretKeys = map[string][]string{"kubernetes.io/tls": {"tls.crt", "tls.key"},
	"kubernetes.io/ssh-auth": {"ssh-privatekey"}, "kubernetes.io/dockercfg": {".dockercfg"},
	"kubernetes.io/dockerconfigjson": {".dockerconfigjson"}}

// secretRules validates what is declared by the type of a Secret.
func secretRules(s scope) []Cause {
	next := s.o
	var out []Cause
	kind, data := obj.String(next, "type"), obj.Map(next, "data")
	need := secretKeys[kind]
	if kind == "kubernetes.io/basic-auth" && data["username"] == nil && data["password"] == nil {
		need = []string{"password", "username"}
	}
	for _, key := range need {
		text, ok := data[key].(string)
		switch {
		case !ok || text == "" && key == "ssh-privatekey":
			out = append(out, Required("data["+key+"]", ""))
		case strings.HasPrefix(key, ".docker"):
			var config map[string]any
			decoded, _ := base64.StdEncoding.DecodeString(text) // what is no base64 has been refused before
			if err := json.Unmarshal(decoded, &config); err != nil {
				out = append(out, Invalid("data["+key+"]", "<secret contents redacted>", err.Error()))
			}
		}
	}
	const account = "kubernetes.io/service-account.name"
	if kind == "kubernetes.io/service-account-token" && obj.String(next, "metadata", "annotations", account) == "" {
		out = append(out, Required("metadata.annotations["+account+"]", ""))
	}
	return out
}

// keyPairWarnings are those about certificates that nobody can use.
func keyPairWarnings(o Object) []string {
	if obj.String(o, "type") != "kubernetes.io/tls" {
		return nil
	}
	var pair [2][]byte
	for i, key := range secretKeys["kubernetes.io/tls"] {
		pair[i], _ = base64.StdEncoding.DecodeString(obj.String(o, "data", key))
	}
	if _, err := tls.X509KeyPair(pair[0], pair[1]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// immutableData refuses changes of ConfigMaps and Secrets that are immutable.
func immutableData(s scope) []Cause {
	next, cur := s.o, s.old
	if !obj.Bool(cur, "immutable") {
		return nil
	}
	var out []Cause
	for _, f := range []string{"immutable", "data", "binaryData"} {
		if !patch.Equal(next[f], cur[f]) {
			out = append(out, Forbidden(f, "field is immutable when `immutable` is set"))
		}
	}
	return out
}

// encodeStringData moves stringData of a Secret, which is write-only, to data.
func encodeStringData(s scope) {
	for key, v := range obj.Strings(s.o, "stringData") {
		obj.Set(s.o, base64.StdEncoding.EncodeToString([]byte(v)), "data", key)
	}
	delete(s.o, "stringData")
}

var modes = []string{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"}

// accessModes are those of volumes and of claims of volumes.
func accessModes(s scope) []Cause {
	var out []Cause
	for _, m := range obj.Slice(s.o, "spec", "accessModes") {
		if text, _ := m.(string); !slices.Contains(modes, text) {
			out = append(out, NotSupported("spec.accessModes", m, modes...))
		}
	}
	return out
}

// claimChange allows changes of the size and the class of a claim only.
func claimChange(s scope) []Cause {
	if s.stored == nil {
		return nil
	}
	spec, was := obj.Clone(obj.Map(s.root, "spec")), obj.Clone(obj.Map(s.stored, "spec"))
	size, before := obj.Get(spec, "resources", "requests", "storage"), obj.Get(was, "resources", "requests", "storage")
	if was["volumeName"] == nil {
		delete(spec, "volumeName")
	}
	if obj.String(s.root, "status", "phase") == "Bound" {
		obj.Set(spec, before, "resources", "requests", "storage")
		delete(spec, "volumeAttributesClassName")
		delete(was, "volumeAttributesClassName")
	}
	var out []Cause
	if !patch.Equal(spec, was) {
		out = append(out, Forbidden("spec", "spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims"))
	}
	capacity := cmp.Or(obj.String(s.stored, "status", "capacity", "storage"), "0")
	if less, ok := compareQuantities(size, before); ok && less < 0 {
		if c, ok := compareQuantities(size, capacity); ok && c <= 0 {
			out = append(out, Forbidden("spec.resources.requests.storage",
				"field can not be less than status.capacity"))
		}
	}
	return out
}

// notSources are the fields of a PersistentVolume's spec that are no volume source.
var notSources = []string{"capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName",
	"mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName"}

// volumeSource requires that a PersistentVolume has one source, which cannot change.
func volumeSource(s scope) []Cause {
	spec := obj.Map(s.root, "spec")
	var out []Cause
	var sources []string
	for _, name := range obj.Keys(spec) {
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
	if s.stored == nil || len(sources) == 0 {
		return out
	}
	if !patch.Equal(spec[sources[0]], obj.Get(s.stored, "spec", sources[0])) {
		out = append(out, Forbidden("spec.persistentvolumesource",
			"spec.persistentvolumesource is immutable after creation"))
	}
	return out
}
