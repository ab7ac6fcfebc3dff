package wire_test

import (
	"strings"
	"testing"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
)

// deployment is as long as an observed one.
const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME","namespace":"shop",` +
	`"labels":{"app":"web","controller-uid":"6f2f9d0e-0000-4000-8000-000000000001"}},"spec":{"replicas":3,"selector":` +
	`{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":` +
	`"web","image":"registry.example.com/shop/web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],` +
	`"resources":{"requests":{"cpu":"100m","memory":"64Mi"}},"env":[{"name":"A","value":"b"}]}]}}}}`

// BenchmarkEncode is the request for a parent with three children of 6 KiB.
func BenchmarkEncode(b *testing.B) {
	object := kube.Raw(`{"a":"` + strings.Repeat("x", 6<<10) + `"}`)
	r := &wire.Request{Controller: object[:1<<10], Parent: object, ParentKey: kube.Key{Namespace: "shop", Name: "p"}}
	for _, name := range []string{"a", "b", "c"} {
		r.Children = append(r.Children, wire.Group{Resource: deployments, Items: []wire.Item{
			{Key: kube.Key{Namespace: "shop", Name: name}, JSON: object}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Encode(true, wire.V1, wire.Sync)
	}
}

// BenchmarkDecode is an answer with three Deployments.
func BenchmarkDecode(b *testing.B) {
	var children []string
	for _, name := range []string{"a", "b", "c"} {
		children = append(children, strings.Replace(deployment, "NAME", name, 1))
	}
	body := []byte(`{"status":{"replicas":3},"children":[` + strings.Join(children, ",") + `]}`)
	o := options()
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := wire.Decode(body, o); err != nil {
			b.Fatal(err)
		}
	}
}
