package supervise

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Rules: HK-95
func TestCallsThatFailTogetherPauseAHookOnce(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	caller, err := call.New(&spec.Controller{Kind: spec.Composite, Name: "web"}, wire.Sync,
		&spec.Hook{Version: 1, Webhook: &spec.Webhook{URL: gone.URL}}, call.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	_, failure := caller.Call(t.Context(), call.Call{Body: []byte(`{}`)})
	if !call.IsUnavailable(failure) {
		t.Fatalf("the hook is not there, and the error is %v", failure)
	}
	h := &hook{name: wire.Sync, tell: func(events.Type, string, string) {}}
	parent := func(i int) kube.Key { return kube.Key{Namespace: "shop", Name: fmt.Sprint(i)} }
	for i := range 20 {
		if wait := h.begin(parent(i), time.Now()); wait > 0 {
			t.Fatalf("call %d waits %s", i, wait)
		}
	}
	for i := range 20 {
		h.end(parent(i), failure, false)
	}
	if wait := h.begin(parent(0), time.Now()); wait <= 0 || wait > firstPark {
		t.Errorf("after one outage the next call waits %s, want at most %s", wait, firstPark)
	}
}
