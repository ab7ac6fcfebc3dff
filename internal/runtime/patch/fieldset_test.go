package patch

import "testing"

func TestAFieldSetOwnsPlaces(t *testing.T) {
	set, err := ReadFieldSet([]byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{}},"f:finalizers":{"v:\"a\"":{}}},
		"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:spec":{"f:containers":{
			"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:ports":{
				"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{"f:containerPort":{}}}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	field := func(up *Path, names ...string) *Path {
		for _, name := range names {
			up = up.below(name)
		}
		return up
	}
	containers := field(nil, "spec", "template", "spec", "containers")
	web := containers.item(map[string]any{"name": "web"}, "web", 0)
	port := func(n int64) *Path {
		return field(web, "ports").item(map[string]any{"containerPort": n, "protocol": "TCP"}, "", 0)
	}
	for _, c := range []struct {
		at   *Path
		owns bool
	}{
		{nil, true},
		{field(nil, "spec"), true},
		{field(nil, "spec", "replicas"), true},
		{field(nil, "spec", "selector", "matchLabels", "app"), true}, // owned whole
		{field(nil, "spec", "paused"), false},
		{field(nil, "status"), false},
		{field(nil, "metadata", "labels", "app"), true},
		{field(nil, "metadata", "labels", "tier"), false},
		{containers, true},
		{web, true},
		{field(web, "image"), true},
		{field(web, "command"), false},
		{field(web, "image").item(nil, "", 1), true},
		{containers.item(map[string]any{"name": "sidecar"}, "sidecar", 0), false},
		{port(80), true},
		{port(8080), false},
	} {
		if got := set.Owns(c.at); got != c.owns {
			t.Errorf("owns %s: %t", c.at, got)
		}
	}
	finalizers, _ := FieldSet(set["f:metadata"].(map[string]any)).Field("finalizers")
	if _, ok := finalizers.Member("a"); !ok || finalizers.Itself() {
		t.Errorf("of the finalizers: a %t, all %t", ok, finalizers.Itself())
	}
	other := SetOf("spec", "paused")
	set.Unite(other)
	if !set.Owns(field(nil, "spec", "paused")) || !set.Owns(field(nil, "spec", "replicas")) {
		t.Errorf("united: %v", set)
	}
}
