package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

func TestAPodWithoutANodeIsSeenBeingDeletedBeforeItIsGone(t *testing.T) {
	const in = "/api/v1/namespaces/team/pods"
	for name, request := range map[string]struct{ method, path, body string }{
		"DELETE":                  {"DELETE", in + "/p", ""},
		"DELETE of the present":   {"DELETE", in + "/p", `{"preconditions":{"resourceVersion":"%s"}}`},
		"DELETE of all":           {"DELETE", in, ""},
		"eviction":                {"POST", in + "/p/eviction", `{"metadata":{"name":"p"}}`},
		"DELETE of the namespace": {"DELETE", "/api/v1/namespaces/team", ""},
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, Options{}, func(w *testServer) {
				w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
				pod := w.must(201, "POST", in, podBody("p"))
				watch := w.watch(fmt.Sprintf("%s?watch=1&resourceVersion=%v", in, pod.at("metadata.resourceVersion")))
				defer watch.close()
				answered := make(chan response, 1)
				go func() {
					body := request.body
					if body != "" && request.method == "DELETE" {
						body = fmt.Sprintf(body, pod.at("metadata.resourceVersion"))
					}
					answered <- w.do(request.method, request.path, body)
				}()
				f := watch.next()
				for f.at("metadata.deletionTimestamp") == nil { // the condition of an eviction
					f = watch.next()
				}
				seen, read := time.Now(), w.do("GET", in+"/p", "")
				if f.Type != "MODIFIED" || read.at("metadata.deletionTimestamp") == nil ||
					read.at("metadata.resourceVersion") != f.at("metadata.resourceVersion") ||
					fmt.Sprint(read.at("metadata.deletionGracePeriodSeconds")) != "0" {
					t.Errorf("%s %v, and a reader sees\n%s", f.Type, f.Object, read.raw)
				}
				if f := watch.next(); f.Type != "DELETED" || time.Since(seen) != removalGap {
					t.Errorf("%s after %v, want DELETED after %v", f.Type, time.Since(seen), removalGap)
				}
				if a := <-answered; a.code/100 != 2 {
					t.Error(a.raw)
				}
				synctest.Wait()
				if a := w.do("GET", in+"/p", ""); a.code != 404 {
					t.Error(a.raw)
				}
			})
		})
	}
}

var podKind = kube.Resource{Version: "v1", Plural: "pods"}

func TestAPodThatIsBeingDeletedCanOnlyGo(t *testing.T) {
	const merge = string(kube.MergePatch)
	for name, meanwhile := range map[string]func(w *testServer){
		"another DELETE": func(w *testServer) {
			w.must(200, "DELETE", pods+"/p", "")
			w.must(404, "GET", pods+"/p", "")
		},
		"a DELETE in a dry run": func(w *testServer) {
			w.must(200, "DELETE", pods+"/p?dryRun=All", "")
			w.must(200, "GET", pods+"/p", "")
		},
		"a DELETE of another": func(w *testServer) {
			w.must(409, "DELETE", pods+"/p", `{"preconditions":{"uid":"other"}}`)
			w.must(200, "GET", pods+"/p", "")
		},
		"a change": func(w *testServer) {
			w.must(200, "PATCH", pods+"/p", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", merge)
			w.must(404, "GET", pods+"/p", "")
		},
		"a binding": func(w *testServer) {
			a := w.must(409, "POST", pods+"/p/binding", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`)
			if want := `Operation cannot be fulfilled on pods/binding "p": pod p is being deleted, cannot be assigned ` +
				`to a host`; a.at("message") != want {
				w.t.Errorf("%s\nwant %s", a.raw, want)
			}
		},
		"the server's end": func(w *testServer) { w.s.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, Options{}, func(w *testServer) {
				w.must(201, "POST", pods, podBody("p"))
				var first sync.WaitGroup
				var a response
				first.Go(func() { a = w.do("DELETE", pods+"/p", "") })
				synctest.Wait()
				meanwhile(w)
				faster := len(w.s.List(podKind, "")) == 0
				first.Wait()
				if a.code != 200 || a.at("metadata.deletionTimestamp") == nil ||
					(a.at("metadata.resourceVersion") == nil) != (faster && name != "the server's end") {
					t.Error(a.raw)
				}
				if left := w.s.List(podKind, ""); len(left) > 0 {
					t.Error(left)
				}
			})
		})
	}
}

func TestASuccessorOfAPodOutlivesItsDeletion(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", pods, podBody("p"))
		var first sync.WaitGroup
		first.Go(func() { w.must(200, "DELETE", pods+"/p", "") })
		synctest.Wait()
		w.must(200, "DELETE", pods+"/p", "")
		w.must(201, "POST", pods, podBody("p"))
		first.Wait()
		w.must(200, "GET", pods+"/p", "")
	})
}

func TestAPodIsDeletedAlsoForAClientThatGoesAway(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", pods, podBody("p"))
		ctx, cancel := context.WithCancel(w.t.Context())
		req, err := http.NewRequestWithContext(ctx, "DELETE", PipeURL+pods+"/p", nil)
		if err != nil {
			t.Fatal(err)
		}
		var client sync.WaitGroup
		client.Go(func() {
			if _, err := w.client.Do(req); err == nil {
				t.Error("answered")
			}
		})
		synctest.Wait()
		cancel()
		client.Wait()
		synctest.Wait()
		w.must(404, "GET", pods+"/p", "")
	})
}

func TestAPodWithAFinalizerWaitsForIt(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", pods, `{"metadata":{"name":"p","finalizers":["skiff.dev/x"]},"spec":{"containers":[{
			"name":"c","image":"i"}]}}`)
		begin := time.Now()
		a := w.must(200, "DELETE", pods+"/p", "")
		if a.at("metadata.deletionTimestamp") == nil || time.Since(begin) != 0 {
			t.Errorf("after %v: %s", time.Since(begin), a.raw)
		}
		time.Sleep(time.Minute)
		w.must(200, "GET", pods+"/p", "")
		w.must(200, "PATCH", pods+"/p", `{"metadata":{"finalizers":null}}`, "Content-Type", string(kube.MergePatch))
		w.must(404, "GET", pods+"/p", "")
	})
}

func TestADryRunOfADeletionShowsNothing(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", pods, podBody("p"))
		begin, from := time.Now(), w.s.Revision()
		a := w.must(200, "DELETE", pods+"/p?dryRun=All", "")
		if a.at("metadata.deletionTimestamp") == nil || w.s.Revision() != from || time.Since(begin) != 0 {
			t.Errorf("after %v: %s", time.Since(begin), a.raw)
		}
	})
}
