package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
)

var (
	inShop  = wire.CustomizeOptions{Version: wire.V1, Parent: kube.Key{Namespace: "shop", Name: "p"}}
	ofShop  = wire.CustomizeOptions{Version: wire.V2, Parent: kube.Key{Namespace: "shop", Name: "p"}}
	cluster = wire.CustomizeOptions{Version: wire.V1, Parent: kube.Key{Name: "p"}}
)

// related returns an answer with one rule for ConfigMaps, which has these fields too.
func related(fields string) string {
	return `{"relatedResources":[{"apiVersion":"v1","resource":"configmaps"` + fields + `}]}`
}

// Rules: HK-65, HK-66, HK-67, HK-68, HK-69
func TestARuleSelectsWhatItsFieldsSay(t *testing.T) {
	web, front := kube.Labels{{Key: "app", Value: "web"}}, kube.Labels{{Key: "tier", Value: "front"}}
	objects := []struct {
		key               kube.Key
		labels, namespace kube.Labels
	}{
		{kube.Key{Namespace: "shop", Name: "a"}, web, front},
		{kube.Key{Namespace: "shop", Name: "b"}, nil, front},
		{kube.Key{Namespace: "other", Name: "a"}, web, nil},
		{kube.Key{Name: "a"}, web, nil},
	}
	for _, test := range []struct {
		fields string
		o      wire.CustomizeOptions
		want   string
	}{
		{``, cluster, "shop/a shop/b other/a a"},
		{``, ofShop, "shop/a shop/b other/a a"},
		{``, inShop, "shop/a shop/b a"},
		{`,"labelSelector":{},"names":[]`, cluster, "shop/a shop/b other/a a"},
		{`,"labelSelector":{"matchLabels":{"app":"web"}}`, ofShop, "shop/a other/a a"},
		{`,"labelSelector":{"matchLabels":{"app":"web"}}`, inShop, "shop/a a"},
		{`,"labelSelector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}`, cluster, "shop/a other/a a"},
		{`,"names":["z","a"]`, ofShop, "shop/a other/a a"},
		{`,"names":["a"]`, inShop, "shop/a a"},
		{`,"namespace":"shop","names":["b"]`, inShop, "shop/b"},
		{`,"namespace":"other"`, ofShop, "other/a a"},
		{`,"namespace":"shop","labelSelector":{"matchLabels":{"app":"web"}}`, cluster, "shop/a a"},
		{`,"namespaceSelector":{"matchLabels":{"tier":"front"}}`, ofShop, "shop/a shop/b"},
		{`,"namespaceSelector":{"matchLabels":{"tier":"front"}},"labelSelector":{"matchLabels":{"app":"web"}}`, cluster,
			"shop/a"},
	} {
		rules, err := wire.DecodeCustomize([]byte(related(test.fields)), test.o)
		if err != nil || len(rules) != 1 {
			t.Errorf("%s: %v", test.fields, err)
			continue
		}
		var got []string
		for _, o := range objects {
			if rules[0].Matches(o.key, o.labels, o.namespace) {
				got = append(got, o.key.String())
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s, version %d: selects %q, want %q", test.fields, test.o.Version, got, test.want)
		}
	}
}

// Rules: HK-66, HK-68, HK-69
func TestRulesThatExcludeEachOtherAreRefusedWithThePath(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"a",`, 10_001), ",")
	for _, test := range []struct {
		text string
		o    wire.CustomizeOptions
		want string
	}{
		{`null`, ofShop, "it is null: want a JSON object"},
		{`{"relatedResources":{}}`, ofShop, "relatedResources: must be a list, is an object"},
		{`{"relatedResources":[null]}`, ofShop, "relatedResources[0]: must be an object, is null"},
		{`{"relatedResources":[{}]}`, ofShop, "relatedResources[0].apiVersion: is missing"},
		{`{"relatedResources":[{"apiVersion":"v1"}]}`, ofShop, "relatedResources[0].resource: is missing"},
		{`{"relatedResources":[{"apiVersion":"v1","resource":"ConfigMap"}]}`, ofShop,
			"relatedResources[0].resource: must be a lower-case plural"},
		{`{"relatedResources":[` + strings.TrimSuffix(strings.Repeat("{},", 101), ",") + `]}`, ofShop,
			"relatedResources: has 101 items, at most 100 are allowed"},
		{related(`,"names":["a"],"labelSelector":{}`), ofShop, "names: cannot be used together with labelSelector"},
		{related(`,"names":["a"],"namespaceSelector":{}`), ofShop,
			"names: cannot be used together with namespaceSelector"},
		{related(`,"namespace":"a","namespaceSelector":{}`), ofShop,
			"namespace: cannot be used together with namespaceSelector"},
		{related(`,"namespaceSelector":{}`), inShop, "namespaceSelector: needs version v2"},
		{related(`,"namespace":"other"`), inShop, `namespace: is "other", but the parent is in shop`},
		{related(`,"names":[1]`), ofShop, "names[0]: must be a string, is a number"},
		{related(`,"names":[` + many + `]`), ofShop, "have more than 10000 names"},
		{`{"relatedResources":[` + strings.TrimSuffix(strings.Repeat(`{"apiVersion":"v1","resource":"secrets","names":[`+
			strings.TrimSuffix(strings.Repeat(`"a",`, 6000), ",")+`]},`, 2), ",") + `]}`, ofShop,
			"relatedResources[1].names: all rules together have more than 10000 names"},
		{related(`,"labelSelector":{"matchLabels":{"a":1}}`), ofShop, "relatedResources[0].labelSelector: "},
		{related(`,"labelSelector":{"matchExpressions":[{"key":"a","operator":"Like"}]}`), ofShop,
			"relatedResources[0].labelSelector: a: operator: must be In"},
		{related(`,"labels":{}`), wire.CustomizeOptions{Version: wire.V2, Strict: true},
			"relatedResources[0].labels: unknown field"},
		{related(`,"labelSelector":{"matchLabel":{}}`), wire.CustomizeOptions{Version: wire.V2, Strict: true},
			"relatedResources[0].labelSelector.matchLabel: unknown field"},
	} {
		rules, err := wire.DecodeCustomize([]byte(test.text), test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.200s: got %+v, %v, want %s", test.text, rules, err, test.want)
		}
	}
}

// Rules: HK-69
func TestANamespaceSelectorIsForNamespacedKinds(t *testing.T) {
	rules, err := wire.DecodeCustomize([]byte(related(`,"namespaceSelector":{}`)), ofShop)
	if err != nil {
		t.Fatal(err)
	}
	if err := rules[0].CheckScope(configMaps); err != nil {
		t.Error(err)
	}
	if err := rules[0].CheckScope(namespaces); err == nil {
		t.Error("a cluster-scoped kind was accepted")
	}
}

func FuzzDecodeCustomize(f *testing.F) {
	f.Add([]byte(related(`,"names":["a"],"namespace":"shop"`)), true)
	f.Add([]byte(related(`,"labelSelector":{"matchLabels":{"a":"b"}},"namespaceSelector":{}`)), false)
	f.Fuzz(func(t *testing.T, body []byte, strict bool) {
		rules, err := wire.DecodeCustomize(body, wire.CustomizeOptions{Version: wire.V2, Strict: strict})
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		for _, r := range rules {
			if r.APIVersion == "" || r.Resource == "" {
				t.Error(fmt.Sprint("accepted ", r))
			}
			r.Matches(kube.Key{Namespace: "a", Name: "b"}, nil, nil)
		}
	})
}
