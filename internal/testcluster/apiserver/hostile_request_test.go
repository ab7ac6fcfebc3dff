package apiserver

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The answer to any request is in a form that it accepts, and the server answers the next one.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][5]string{
		{"GET", "/api/v1/pods?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
			"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "", ""},
		{"GET", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=x&sendInitialEvents=true",
			"application/vnd.kubernetes.protobuf;type=watch", "", ""},
		{"GET", "/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "", ""},
		{"POST", "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict&fieldManager=m",
			"application/yaml", "application/yaml",
			"kind: Pod\nmetadata: {name: a, name: b}\nspec: {containers: [{name: c, image: .inf}]}"},
		{"POST", "/api/v1/namespaces/default/configmaps", "*/*", "application/vnd.kubernetes.protobuf",
			"k8s\x00\n\x02"},
		{"PATCH", "/api/v1/namespaces/default/configmaps/x?force=true&fieldManager=m", "application/json",
			"application/apply-patch+yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}"},
		{"PATCH", "/api/v1/namespaces/default", "", "application/strategic-merge-patch+json",
			`{"metadata":{"$patch":"replace","labels":{"$retainKeys":["a"]}}}`},
		{"PATCH", "/api/v1/namespaces/default", "", "application/strategic-merge-patch+json",
			`{"metadata":{"$patch":"unknown"}}`},
		{"DELETE", "/api/v1/namespaces/default/pods?labelSelector=a+in+(b)&fieldSelector=metadata.name%3Da", "", "",
			`{"propagationPolicy":"Orphan","preconditions":{"uid":"x"},"gracePeriodSeconds":-1}`},
		{"HEAD", "/readyz?verbose&exclude=etcd", "text/plain", "", ""},
		{"GET", "/openapi/v3/api/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, method, target, accept, contentType, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || len(target) > 2000 || !strings.HasPrefix(u.Path, "/") {
			return
		}
		s := New(Options{})
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if strings.Contains(target, "watch") {
			ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
		}
		r := httptest.NewRequestWithContext(ctx, "GET", "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, u, target
		r.Header = http.Header{"Accept": {accept}, "Content-Type": {contentType}}
		began, w := time.Now(), httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s %s took %s", method, target, took)
		}
		got, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
		switch {
		case got == "application/json" && w.Body.Len() > 0 && !strings.Contains(target, "watch") &&
			!json.Valid(w.Body.Bytes()):
			t.Errorf("%s %s was answered %s", method, target, w.Body)
		case w.Code < 300 && strings.HasPrefix(u.Path, "/api/v1/") && accept != "" && !accepts(accept, got):
			t.Errorf("%s %s was answered in %s, but accepts %s", method, target, got, accept)
		}
		again := httptest.NewRecorder()
		s.ServeHTTP(again, httptest.NewRequest("POST", pods+"?dryRun=All", strings.NewReader(podBody("another"))))
		if again.Code != http.StatusCreated && again.Code != http.StatusForbidden {
			t.Errorf("after %s %s another request was answered %d %s", method, target, again.Code, again.Body)
		}
	})
}

// accepts reports whether a header has a media type, or a range of which that is.
func accepts(header, mediaType string) bool {
	for part := range strings.SplitSeq(header, ",") {
		mt, _, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err == nil && (mt == mediaType || mt == "*/*" || mt == "application/*") {
			return true
		}
	}
	return false
}
