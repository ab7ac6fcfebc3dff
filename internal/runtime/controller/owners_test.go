package controller

import (
	"fmt"
	"strings"
	"testing"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// One namespace with very many broken objects, and long texts, takes a bounded memory and no place of another.
func TestReportsAreBoundedForEachNamespace(t *testing.T) {
	var r reports
	long := &health.Problem{Reason: "Cycle", Public: strings.Repeat("x", 1<<20), Quoted: "hush"}
	for i := range 2 * maxReported {
		r.set(kube.Key{Namespace: "many", Name: fmt.Sprint(i)}, long)
	}
	r.set(kube.Key{Namespace: "other", Name: "a"}, long)
	if n := len(r.of["many"]); n != maxReported {
		t.Errorf("%d Problems of one namespace are kept", n)
	}
	if got := r.get(kube.Key{Namespace: "other", Name: "a"}); got.Reason != "Cycle" || got.Quoted != "" ||
		len(got.Public) > 2000 {
		t.Errorf("kept %s with %d bytes, quoted %q", got.Reason, len(got.Public), got.Quoted)
	}
	r.set(kube.Key{Namespace: "other", Name: "a"}, nil)
	r.Leave("many")
	if len(r.of) != 0 {
		t.Errorf("%d namespaces are left", len(r.of))
	}
}
