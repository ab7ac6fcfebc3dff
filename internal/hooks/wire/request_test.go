package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
)

var (
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	configMaps  = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	namespaces  = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
)

// request has a ConfigMap in the parent's namespace, one in another, and a cluster-scoped object.
func request(parent kube.Key) *wire.Request {
	item := func(namespace, name string) wire.Item {
		return wire.Item{Key: kube.Key{Namespace: namespace, Name: name}, JSON: kube.Raw(`{"n":1.0}`)}
	}
	return &wire.Request{Controller: kube.Raw(`{"kind":"C"}`), Parent: kube.Raw(`{"kind":"P"}`), ParentKey: parent,
		Children: []wire.Group{{Resource: deployments}, {Resource: configMaps,
			Items: []wire.Item{item("shop", "a"), item("other", "b")}}},
		Related: []wire.Group{{Resource: namespaces, Items: []wire.Item{item("", "shop")}}}}
}

func encoded(t *testing.T, r *wire.Request, composite bool, version int, hook wire.Hook) string {
	t.Helper()
	body := r.Encode(composite, version, hook)
	if !json.Valid(body) {
		t.Fatalf("the request is not JSON: %s", body)
	}
	return string(body)
}

// Rules: HK-31, HK-35, HK-36, HK-37
func TestARequestOfVersion1HasOnlyTheNamespaceOfItsParent(t *testing.T) {
	got := encoded(t, request(kube.Key{Namespace: "shop", Name: "p"}), true, wire.V1, wire.Sync)
	want := `{"controller":{"kind":"C"},"parent":{"kind":"P"},` +
		`"children":{"Deployment.apps/v1":{},"ConfigMap.v1":{"a":{"n":1.0}}},` +
		`"related":{"Namespace.v1":{}},"finalizing":false}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Rules: HK-36, HK-109
func TestARequestOfVersion2NamesObjectsWithTheirNamespace(t *testing.T) {
	r := request(kube.Key{Namespace: "shop", Name: "p"})
	r.Finalizing = true
	got := encoded(t, r, true, wire.V2, wire.Finalize)
	want := `{"controller":{"kind":"C"},"parent":{"kind":"P"},` +
		`"children":{"Deployment.apps/v1":{},"ConfigMap.v1":{"shop/a":{"n":1.0},"other/b":{"n":1.0}}},` +
		`"related":{"Namespace.v1":{"shop":{"n":1.0}}},"finalizing":true}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Rules: HK-36
func TestUnderAClusterScopedParentBothVersionsNameNamespaces(t *testing.T) {
	r := request(kube.Key{Name: "p"})
	v1 := encoded(t, r, true, wire.V1, wire.Sync)
	if v2 := encoded(t, r, true, wire.V2, wire.Sync); v1 != v2 || !strings.Contains(v1, `"other/b":`) {
		t.Errorf("version 1: %s\nversion 2: %s", v1, v2)
	}
}

// Rules: HK-32, HK-35
func TestARequestOfADecoratorHasAnObjectAndAttachments(t *testing.T) {
	r := &wire.Request{Controller: kube.Raw(`{}`), Parent: kube.Raw(`{"a":1}`)}
	got := encoded(t, r, false, wire.V1, wire.Sync)
	if want := `{"controller":{},"object":{"a":1},"attachments":{},"related":{},"finalizing":false}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Rules: HK-33
func TestARequestOfCustomizeHasTheParentAloneForBothKinds(t *testing.T) {
	for _, composite := range []bool{true, false} {
		got := encoded(t, request(kube.Key{}), composite, wire.V1, wire.Customize)
		if want := `{"controller":{"kind":"C"},"parent":{"kind":"P"}}`; got != want {
			t.Errorf("composite %v: got %s, want %s", composite, got, want)
		}
	}
}
