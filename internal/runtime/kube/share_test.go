package kube

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestPodsOfOneDeploymentShareLabelsAndOwners(t *testing.T) {
	object := func(name, app string, labels int) string {
		more := ""
		for i := range labels {
			more += fmt.Sprintf(`"%s-%d":"%s",`, app, i, strings.Repeat("x", 50))
		}
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":"u","resourceVersion":"5",`+
			`"labels":{%s"tier":"web","app":%q},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",`+
			`"name":%q,"uid":"r","controller":true}]}}`, name, more, app, app)
	}
	objects := []string{object("a", "one", 0), object("b", "one", 0), object("c", "other", 0),
		object("d", "many", sharedMax), object("e", "many", sharedMax)}
	for _, protobuf := range []bool{false, true} {
		var all ListResult[*pod]
		var err error
		if protobuf {
			body := protoListOf(t, pods, "20", objects...)
			in := newProtoReader(strings.NewReader(body), protoPlanOf[*pod](pods), expected{})
			_, err = decodeProtoPage(in, "Pod", &all)
		} else {
			_, err = decodePage(newScanner(bytes.NewReader([]byte(podList("20", "", objects...)))), "Pod", &all)
		}
		if err != nil || len(all.Items) != len(objects) {
			t.Fatalf("protobuf=%v: decoded %d pods: %v", protobuf, len(all.Items), err)
		}
		a, b, c, d, e := all.Items[0], all.Items[1], all.Items[2], all.Items[3], all.Items[4]
		if &a.Labels[0] != &b.Labels[0] || &a.OwnerReferences[0] != &b.OwnerReferences[0] {
			t.Errorf("protobuf=%v: two pods with the same labels and owner each have their own copy", protobuf)
		}
		if app, _ := c.Labels.Get("app"); app != "other" || c.OwnerReferences[0].Name != "other" {
			t.Errorf("protobuf=%v: a pod has labels %v and owner %v", protobuf, c.Labels, c.OwnerReferences)
		}
		if &d.Labels[0] == &e.Labels[0] || len(e.Labels) != sharedMax+2 || cap(e.Labels) != len(e.Labels) {
			t.Errorf("protobuf=%v: %d labels are shared, which the table would keep", protobuf, len(e.Labels))
		}
	}
}
