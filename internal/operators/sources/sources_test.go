package sources

import (
	"fmt"
	"slices"
	"testing"

	"skiff/internal/runtime/kube"
)

// values are the digests of names and values.
func values(pairs ...string) (all []kube.NamedDigest) {
	for i := 0; i < len(pairs); i += 2 {
		one := kube.NamedDigest{Name: pairs[i]}
		copy(one.Digest[:], pairs[i+1])
		all = append(all, one)
	}
	return all
}

func TestDifferingValuesAreNamed(t *testing.T) {
	a, b := values("a", "1", "b", "1", "d", "1"), values("b", "2", "c", "1", "d", "1")
	if got := Differing(a, b); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
}

func TestAHashIsOfTheNamespaceTheSourceAndTheKeysThatCount(t *testing.T) {
	content := values("a", "1", "b", "1")
	all := Hash("shop", "configmap/app", "", content)
	for name, other := range map[string]string{
		"another namespace": Hash("blog", "configmap/app", "", content),
		"another name":      Hash("shop", "configmap/web", "", content),
		"another kind":      Hash("shop", "secret/app", "", content),
		"one key":           Hash("shop", "configmap/app", "a", content),
		"another value":     Hash("shop", "configmap/app", "", values("a", "1", "b", "2")),
		"another key":       Hash("shop", "configmap/app", "", values("a", "1", "c", "1")),
	} {
		if other == all || len(other) != 2*hashSize {
			t.Errorf("%s: %q, and before %q", name, other, all)
		}
	}
	if got := Hash("shop", "configmap/app", "c", content); got != "" {
		t.Errorf("a missing key has the hash %q", got)
	}
	key := Hash("shop", "configmap/app", "a", content)
	if got := Hash("shop", "configmap/app", "a", values("a", "1", "b", "2")); got != key {
		t.Errorf("the hash of a key is %q, and %q after another key has changed", key, got)
	}
}

func TestAListOfKeysIsBounded(t *testing.T) {
	var keys []string
	for n, want := range []string{"a", "a (k1)", "a (k1, k2)", "", "", "a (k1, k2, k3, k4, k5)",
		"a (k1, k2, k3, k4, k5 and 1 more)"} {
		if got := WithKeys("a", keys); want != "" && got != want {
			t.Errorf("%d keys: %q, want %q", n, got, want)
		}
		keys = append(keys, fmt.Sprint("k", n+1))
	}
}

// Both are seen by containers as one directory, in the order of names.
func TestTextAndBinaryKeysAreInOneOrder(t *testing.T) {
	m := &ConfigMap{Data: values("b", "1"), Binary: values("a", "1", "c", "1")}
	var names []string
	for _, v := range m.Values() {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) || m.Data[0].Name != "b" {
		t.Errorf("got %q", names)
	}
}
