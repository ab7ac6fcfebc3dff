package apiserver

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/kube"
)

const gauges = "/apis/example.com/%s/namespaces/default/gauges"

// Rules: FC-07
func TestADefinitionServesItsObjectsInSeveralVersions(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const schema = `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`
		w.must(201, "POST", crdPath, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"gauges.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
			"names":{"plural":"gauges","kind":"Gauge"},"versions":[
			{"name":"v1beta1","served":true,"storage":false,"deprecated":true,`+schema+`},
			{"name":"v1","served":true,"storage":true,`+schema+`},
			{"name":"v1alpha1","served":false,"storage":false,`+schema+`}]}}`)
		synctest.Wait()
		old, now := fmt.Sprintf(gauges, "v1beta1"), fmt.Sprintf(gauges, "v1")
		asOld, asNew := w.watch(old+"?watch=1"), w.watch(now+"?watch=1")
		a := w.must(201, "POST", old, `{"apiVersion":"example.com/v1beta1","kind":"Gauge","metadata":{"name":"a"},
			"spec":{"size":1}}`)
		const warning = `299 - "example.com/v1beta1 Gauge is deprecated; use example.com/v1 Gauge"`
		if got := a.header.Get("Warning"); got != warning || a.at("apiVersion") != "example.com/v1beta1" {
			t.Errorf("warning %s of %s", got, a.raw)
		}
		if b := w.must(200, "GET", now+"/a", ""); b.at("apiVersion") != "example.com/v1" ||
			b.at("spec.size") != int64(1) || b.at("metadata.uid") != a.at("metadata.uid") ||
			b.header.Get("Warning") != "" {
			t.Errorf("in the other version: %s, warning %q", b.raw, b.header.Get("Warning"))
		}
		for version, st := range map[string]*stream{"v1beta1": asOld, "v1": asNew} {
			if f := st.next(); f.Type != "ADDED" || f.at("apiVersion") != "example.com/"+version {
				t.Errorf("the watch of %s saw %s %v", version, f.Type, f.Object)
			}
			st.close()
		}
		if g := w.must(200, "GET", "/apis/example.com", ""); g.at("preferredVersion.version") != "v1" {
			t.Errorf("the group prefers %v", g.at("preferredVersion"))
		}
		w.must(404, "GET", fmt.Sprintf(gauges, "v1alpha1"), "")
		crd := w.must(200, "GET", crdPath+"/gauges.example.com", "")
		if got := fmt.Sprint(crd.at("status.storedVersions")); got != "[v1]" {
			t.Errorf("stored versions %s", got)
		}
		w.must(200, "PATCH", crdPath+"/gauges.example.com",
			`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`, "Content-Type", string(kube.JSONPatch))
		synctest.Wait()
		w.must(404, "GET", old+"/a", "")
		w.must(200, "GET", now+"/a", "")
	})
}

// Rules: WRT-29
func TestAPUTCreatesALeaseOrAnEventThatIsMissing(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		for path, body := range map[string]string{
			"/apis/coordination.k8s.io/v1/namespaces/default/leases/a": `{"apiVersion":"coordination.k8s.io/v1",
				"kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"me"}}`,
			"/api/v1/namespaces/default/events/a": `{"apiVersion":"v1","kind":"Event","metadata":{"name":"a"},
				"involvedObject":{"namespace":"default"},"reason":"Put","type":"Normal"}`,
		} {
			a := w.must(201, "PUT", path, body)
			if b := w.must(200, "GET", path, ""); b.raw != a.raw {
				t.Errorf("%s: answered %s, stored %s", path, a.raw, b.raw)
			}
		}
		w.must(404, "PUT", configMaps+"/a", configMap("a"))
	})
}

// always is a source of random numbers with one number.
type always uint64

func (n always) Uint64() uint64 { return uint64(n) }

// Rules: WRT-15
func TestANameThatIsTakenEightTimesIsAlreadyExists(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		body := func(base string) string {
			return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"` + base + `"}}`
		}
		long := strings.Repeat("x", 63)
		name, _ := w.must(201, "POST", configMaps, body(long)).at("metadata.name").(string)
		if len(name) != 63 || !strings.HasPrefix(name, long[:58]) {
			t.Errorf("generated %q", name)
		}
		w.s.mu.Lock()
		w.s.rand = rand.New(always(1 << 63)) // one suffix from here on
		w.s.mu.Unlock()
		taken := w.must(201, "POST", configMaps, body("a-")).at("metadata.name")
		a := w.must(409, "POST", configMaps, body("a-"))
		if a.at("reason") != "AlreadyExists" || a.at("details.name") != taken {
			t.Errorf("answered %s, want that %v is there", a.raw, taken)
		}
		w.must(201, "POST", configMaps, body("b-"))
	})
}
