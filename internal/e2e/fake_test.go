package e2e

import (
	"net/http/httptest"
	"testing"

	"skiff/internal/fakeapi"
)

// startFake serves the embedded server on loopback.
func startFake(t *testing.T) *API {
	t.Helper()
	// Nobody empties deleted namespaces on the control plane that it is compared with either.
	server := fakeapi.New(fakeapi.Options{Token: admin.Token, KeepNamespaces: true})
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		web.Close()
	})
	api, err := NewAPI(web.URL, "", admin.Token)
	if err != nil {
		t.Fatal(err)
	}
	return api
}
