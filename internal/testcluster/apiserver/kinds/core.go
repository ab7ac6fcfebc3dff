package kinds

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"skiff/internal/testcluster/apiserver/obj"
	"strings"
)

// maxData is the limit of the total data of a ConfigMap or a Secret.
const maxData = 1 << 20

// dataSize limits the data of a ConfigMap or a Secret: text in the field plain, base64 in the field encoded. at is the
// field that is reported.
func dataSize(plain, encoded, at string) func(scope) {
	return func(s scope) {
		total := 0
		for _, v := range obj.Strings(s.root, plain) {
			total += len(v)
		}
		for _, v := range obj.Strings(s.root, encoded) {
			total += base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(v, "=")))
		}
		if total > maxData {
			s.add(obj.TooLong(at, maxData))
		}
	}
}

// dataTwice refuses keys that are in both fields of a ConfigMap.
func dataTwice(s scope) {
	for _, key := range obj.Keys(obj.Map(s.o, "binaryData")) {
		if _, twice := obj.Map(s.o, "data")[key]; twice {
			s.invalid("data["+key+"]", key, "duplicate of key present in binaryData")
		}
	}
}

// notDockerConfig returns why a text is no Docker configuration, a JSON object in base64; "" if it is one.
func notDockerConfig(encoded string) string {
	var config map[string]any
	decoded, _ := base64.StdEncoding.DecodeString(encoded) // what is no base64 has been refused before
	if err := json.Unmarshal(decoded, &config); err != nil {
		return err.Error()
	}
	return ""
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
