// Package sources is ConfigMaps and Secrets as a reason to restart a workload: the fields that a mirror keeps, without
// any value, and the hash by which a controller remembers a content.
//
// Packages reload and restart share the types, and so the mirrors of a process that runs both. The package asks no
// server and keeps nothing: which sources matter, and what follows from a change, is for the controllers to decide.
// Everything here is a pure function. No goroutine is started: the callers are the workers of the controllers.
package sources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// The resources.
var (
	ConfigMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	Secrets    = kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}
)

// The kinds, as in the name of a source.
const (
	ConfigMapKind = "configmap"
	SecretKind    = "secret"
)

// Meta is the metadata kept of a source. The annotations are those of skiff and of Stakater's Reloader: any other may
// be large, or have a Secret's values.
type Meta struct {
	kube.Meta
	Annotations kube.Labels `json:"annotations" prefix:"skiff.dev/ *reloader.stakater.com/"`
}

// SourceMeta returns the metadata.
func (m *Meta) SourceMeta() *Meta { return m }

// ConfigMap has the fields kept of a ConfigMap.
type ConfigMap struct {
	Meta   `json:"metadata"`
	Data   kube.Digests        `json:"data"`
	Binary kube.EncodedDigests `json:"binaryData"`
}

// Values returns the digests of the values by name, in order.
func (m *ConfigMap) Values() []kube.NamedDigest {
	if len(m.Binary) == 0 {
		return m.Data
	}
	all := slices.Concat([]kube.NamedDigest(m.Data), m.Binary) // a ConfigMap has no name in both
	slices.SortFunc(all, func(a, b kube.NamedDigest) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Secret has the fields kept of a Secret.
type Secret struct {
	Meta `json:"metadata"`
	Data kube.EncodedDigests `json:"data"`
}

// Values returns the digests of the values by name, in order.
func (s *Secret) Values() []kube.NamedDigest { return s.Data }

// Object is a ConfigMap or a Secret.
type Object interface {
	kube.Object
	SourceMeta() *Meta
	Values() []kube.NamedDigest
}

// hashSize is how many bytes of a hash are kept. Whoever may read a workload or a RestartTrigger may read the hash,
// and may have no right to the Secret. Four bytes miss a change in four billion, are too little to find a random
// value, and enough to pick the right value from a million likely ones: no hash can tell a change and hide a
// guessable value. All objects of a namespace have the same four bytes for a source, or a key, so that several tell
// no more than one.
const hashSize = 4

// Hash returns the hash of the values of a source, as "configmap/a", or of one key unless key is ""; "": there is no
// such key. Equal contents of sources with other names, or in other namespaces, have other hashes.
func Hash(namespace, source, key string, values []kube.NamedDigest) string {
	h, found := sha256.New(), key == ""
	fmt.Fprintf(h, "%s %s", namespace, source)
	for _, v := range values {
		if key != "" && v.Name != key {
			continue
		}
		found = true
		fmt.Fprintf(h, "\x00%s\x00%s", v.Name, v.Digest[:])
	}
	if !found {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:hashSize])
}

// Differing returns the names of the values in which two contents differ.
func Differing(a, b []kube.NamedDigest) (names []string) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			names, a = append(names, a[0].Name), a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			names, b = append(names, b[0].Name), b[1:]
		default:
			if a[0].Digest != b[0].Digest {
				names = append(names, a[0].Name)
			}
			a, b = a[1:], b[1:]
		}
	}
	return names
}

// ValidKey says whether a ConfigMap or Secret can have a key (validation.IsConfigMapKey).
func ValidKey(key string) bool {
	return key != "" && len(key) <= 253 && strings.Trim(key, "-._0123456789"+
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// MaxNames bounds the names in a text for people.
const MaxNames = 5

// WithKeys adds the names of keys to a name for people: "configmap/a (log.conf, x and 3 more)".
func WithKeys(name string, keys []string) string {
	n := len(keys)
	if n == 0 {
		return name
	}
	name += " (" + strings.Join(keys[:min(n, MaxNames)], ", ")
	if n > MaxNames {
		name += fmt.Sprintf(" and %d more", n-MaxNames)
	}
	return name + ")"
}
