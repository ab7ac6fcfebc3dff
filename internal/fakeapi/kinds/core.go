package kinds

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"strings"

	"skiff/internal/fakeapi/cause"
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
	return []Cause{cause.TooLong(at, maxData)}
}

// dataTwice refuses keys that are in both fields of a ConfigMap.
func dataTwice(s scope) []Cause {
	var out []Cause
	for _, key := range obj.Keys(obj.Map(s.o, "binaryData")) {
		if _, twice := obj.Map(s.o, "data")[key]; twice {
			out = append(out, cause.Invalid("data["+key+"]", key, "duplicate of key present in binaryData"))
		}
	}
	return out
}

// dockerConfig refuses a Docker configuration that is no JSON object.
func dockerConfig(s scope) []Cause {
	for _, key := range []string{".dockercfg", ".dockerconfigjson"} {
		text := obj.String(s.o, "data", key)
		if text == "" || obj.String(s.o, "type") != "kubernetes.io/"+key[1:] {
			continue
		}
		var config map[string]any
		decoded, _ := base64.StdEncoding.DecodeString(text) // what is no base64 has been refused before
		if err := json.Unmarshal(decoded, &config); err != nil {
			return []Cause{cause.Invalid("data["+key+"]", "<secret contents redacted>", err.Error())}
		}
	}
	return nil
}

// keyPairWarnings are those about certificates that nobody can use.
func keyPairWarnings(o Object) []string {
	if obj.String(o, "type") != "kubernetes.io/tls" {
		return nil
	}
	var pair [2][]byte
	for i, key := range []string{"tls.crt", "tls.key"} {
		pair[i], _ = base64.StdEncoding.DecodeString(obj.String(o, "data", key))
	}
	if _, err := tls.X509KeyPair(pair[0], pair[1]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// encodeStringData moves stringData of a Secret, which is write-only, to data.
func encodeStringData(s scope) {
	for key, v := range obj.Strings(s.o, "stringData") {
		obj.Set(s.o, base64.StdEncoding.EncodeToString([]byte(v)), "data", key)
	}
	delete(s.o, "stringData")
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
		out = append(out, cause.Forbidden("spec", "spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims"))
	}
	capacity := cmp.Or(obj.String(s.stored, "status", "capacity", "storage"), "0")
	if less, ok := compareQuantities(size, before); ok && less < 0 {
		if c, ok := compareQuantities(size, capacity); ok && c <= 0 {
			out = append(out, cause.Forbidden("spec.resources.requests.storage",
				"field can not be less than status.capacity"))
		}
	}
	return out
}
