package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
)

// Rules: HK-45, HK-46
func TestANameThatNoChildCanHaveIsRefusedWithItsPath(t *testing.T) {
	core := func(kind string) kube.Resource { return kube.Resource{Version: "v1", Kind: kind} }
	role := kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}
	custom := kube.Resource{Group: "user.example.com", Version: "v1", Kind: "User"}
	hostile := "\x1b]0;pwn\x07\u009b31m\u202e\u200b\r\n| a |"
	for _, test := range []struct {
		kind kube.Resource
		name string
		ok   bool
	}{
		{core("ConfigMap"), "a", true}, {core("ConfigMap"), "1.b-c", true},
		{core("ConfigMap"), strings.Repeat("a", 253), true},
		{core("ConfigMap"), strings.Repeat("a", 254), false}, {core("ConfigMap"), "A", false},
		{core("ConfigMap"), "a/b", false}, {core("ConfigMap"), "..", false}, {core("ConfigMap"), hostile, false},
		{core("ConfigMap"), "a\x00", false}, {core("ConfigMap"), "a\n", false},
		{core("Service"), "a.b", false}, {core("Service"), strings.Repeat("a", 64), false},
		{core("Service"), "a-1", true},
		{role, "system:a", true}, {role, "System:A_b", true}, {role, "a/b", false}, {role, "a%2fb", false},
		{role, "..", false}, {role, hostile, false}, {role, "a b", false}, {role, strings.Repeat("a", 254), false},
		{custom, "system:admin", true}, {custom, "a/b", false}, {custom, hostile, false},
	} {
		name, err := json.Marshal(test.name)
		if err != nil {
			t.Fatal(err)
		}
		o := options(func(o *wire.Options) { o.Kinds = []kube.Resource{test.kind} })
		_, err = wire.Decode(fmt.Appendf(nil, `{"children":[{"apiVersion":%q,"kind":%q,"metadata":{"name":"fine"}},
			{"apiVersion":%q,"kind":%q,"metadata":{"name":%s}}]}`, test.kind.APIVersion(), test.kind.Kind,
			test.kind.APIVersion(), test.kind.Kind, name), o)
		if (err == nil) != test.ok || err != nil && (!strings.HasPrefix(err.Error(), "children[1].metadata.name: ") ||
			strings.ContainsAny(err.Error(), "\x1b\u009b\u202e\u200b\r\n")) {
			t.Errorf("%s %q: %v", test.kind.Kind, test.name, err)
		}
	}
}
