package apiserver

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/testcluster/apiserver/faults"
)

// Rules: FI-13, FD-24
func TestDefinitionsComeLateChangeAndGo(t *testing.T) {
	withServer(t, Options{CRDDelay: 10 * time.Second}, func(w *testServer) {
		w.must(201, "POST", crdPath, widgetCRD)
		w.must(404, "GET", widgetPath, "")
		time.Sleep(11 * time.Second)
		list := w.must(200, "GET", widgetPath, "")
		watch := w.watch(widgetPath + "?watch=1&resourceVersion=" + fmt.Sprint(list.at("metadata.resourceVersion")))
		w.must(200, "PATCH", crdPath+"/widgets.example.com",
			`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`,
			"Content-Type", "application/json-patch+json")
		synctest.Wait()
		if err := watch.end(); err != io.EOF {
			t.Errorf("the watch of a version that is no longer served: %v", err)
		}
		w.must(404, "GET", widgetPath, "")
		w.must(200, "DELETE", crdPath+"/widgets.example.com", "")

		w.s.Inject(Fault{Path: "/apis", Delay: 30 * time.Second, Rewrite: faults.Stale()})
		began := time.Now()
		a := w.must(200, "GET", "/apis", "", "Accept",
			"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		if !strings.Contains(a.raw, `"freshness":"Stale"`) || strings.Contains(a.raw, `"Current"`) ||
			strings.Contains(a.raw, "example.com") {
			t.Error(a.raw)
		}
		if time.Since(began) != 30*time.Second {
			t.Errorf("discovery took %v", time.Since(began))
		}
	})
}

// Rules: FI-14
func TestRequestsHaveABudgetAsOfPriorityAndFairness(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"userAgent":"test/","perSecond":2,
			"reply":{"code":429,"reason":"TooManyRequests","retryAfter":"1"}}]}`)
		for range 3 {
			for _, code := range []int{200, 200, 429, 429} {
				w.must(code, "GET", configMaps, "")
			}
			w.must(200, "GET", configMaps, "", "User-Agent", "other/1")
			time.Sleep(time.Second)
		}
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"verb":"watch","inFlight":1,"reply":{"code":429}}]}`)
		watch := w.watch(configMaps + "?watch=1")
		w.must(429, "GET", configMaps+"?watch=1", "")
		watch.close()
		synctest.Wait()
		w.watch(configMaps + "?watch=1").close()
	})
}

// Rules: FI-19
func TestASeedMakesARunRepeatItself(t *testing.T) {
	run := func(seed uint64) (transcript string) {
		withServer(t, Options{Seed: seed}, func(w *testServer) {
			w.s.Inject(Fault{Verb: "create", Probability: 0.3, Reply: &Reply{Code: 500}})
			for range 30 {
				a := w.do("POST", configMaps, `{"metadata":{"generateName":"a-"}}`)
				transcript += fmt.Sprintln(a.code, a.at("metadata.name"), a.at("metadata.resourceVersion"),
					a.at("metadata.creationTimestamp"))
				time.Sleep(time.Second)
			}
		})
		return transcript
	}
	if one, again := run(7), run(7); one != again {
		t.Errorf("the seed 7 has led to\n%s\nand to\n%s", one, again)
	}
	if run(7) == run(8) {
		t.Error("another seed leads to the same")
	}
	withServer(t, Options{}, func(w *testServer) { // what hits others changes nothing
		hits := func(seed, others int) (all string) {
			w.must(204, "PUT", "/skiff/faults", fmt.Sprintf(`{"seed":%d,"faults":[{"path":"/version","probability":0.5,`+
				`"reply":{"code":500}},{"path":"/api","probability":0.5,"reply":{"code":503}}]}`, seed))
			for range 20 {
				for range others {
					w.do("GET", "/api", "")
				}
				all += fmt.Sprint(w.do("GET", "/version", "").code, " ")
			}
			return all
		}
		if one, again := hits(7, 0), hits(7, 3); one != again || one == hits(8, 0) {
			t.Errorf("the seed 7 has led to %s and to %s", one, again)
		}
	})
}
