package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Both servers compress the same answers, and say so in the same headers.
func TestEmbeddedServerCompressesAsTheRealOne(t *testing.T) {
	cluster := ownCluster(t)
	fake := startFake(t)
	const collection = "/api/v1/namespaces/default/configmaps"
	// Nothing in it depends on the server but metadata, so the sizes are some hundred bytes apart at most.
	sizes := map[string]int{"large": 140 << 10, "medium": 126 << 10, "small": 1 << 10}
	for _, api := range []*API{cluster.Admin, fake} {
		for name, size := range sizes {
			body := Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": Object{"name": name},
				"data": Object{"k": strings.Repeat("x", size)}}
			if _, err := api.Create(t.Context(), collection, body); err != nil {
				t.Fatal(err)
			}
		}
	}
	protobuf, table := "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, accept := range []string{"application/json", protobuf, table} {
		for _, encodings := range []string{"gzip", "identity", "br, gzip", "gzip;q=1", "GZIP", "gzip, identity"} {
			for _, path := range []string{"", "/large", "/medium", "/small", "?limit=1", "?limit=2",
				"?watch=1&timeoutSeconds=1", "/large?resourceVersion=0"} {
				if accept == protobuf && strings.HasPrefix(path, "/") {
					continue // the embedded server has lists and watches in protobuf only
				}
				var got [2]string
				for i, api := range []*API{cluster.Admin, fake} {
					resp := must(api.send(t.Context(), "GET", collection+path,
						http.Header{"Accept": {accept}, "Accept-Encoding": {encodings}}, nil))(t)
					resp.Body.Close()
					h := resp.Header
					got[i] = fmt.Sprintf("%d %q %q", resp.StatusCode, h.Values("Content-Encoding"), h.Values("Vary"))
				}
				if got[0] != got[1] {
					t.Errorf("GET %s as %s, encodings %s: real %s, embedded %s", path, accept, encodings, got[0],
						got[1])
				}
			}
		}
	}
}
