package spec

import (
	"slices"
	"testing"
)

func TestRivalsAreCompositeControllersOfOneParentResource(t *testing.T) {
	composite := func(name, apiVersion, resource, selector string) string {
		return "---\napiVersion: metacontroller.k8s.io/v1alpha1\nkind: CompositeController\nmetadata: {name: " + name +
			"}\nspec:\n  parentResource: {apiVersion: " + apiVersion + ", resource: " + resource + selector +
			"}\n" + hooks
	}
	choice := ", labelSelector: {matchLabels: {a: b}}"
	all := read(t, composite("first", "example.com/v1", "things", "")+
		composite("version", "example.com/v2", "things", "")+
		composite("group", "example.org/v1", "things", "")+
		composite("resource", "example.com/v1", "others", "")+
		composite("chooses", "example.com/v1", "things", choice)+
		composite("chooses-too", "example.com/v1", "things", choice)+
		"---\n"+decorator+"  resources: [{apiVersion: example.com/v1, resource: things}]\n"+hooks)
	for _, c := range all {
		var names []string
		for _, rival := range c.Rivals(all) {
			names = append(names, rival.Name)
		}
		want := map[string][]string{"first": {"version", "chooses", "chooses-too"},
			"version": {"first", "chooses", "chooses-too"}, "chooses": {"first", "version"},
			"chooses-too": {"first", "version"}}[c.Name]
		if !slices.Equal(names, want) {
			t.Errorf("%s %s has the rivals %q, want %q", c.Kind, c.Name, names, want)
		}
	}
}
