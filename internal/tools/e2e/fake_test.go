package e2e

import (
	"net/http/httptest"
	"testing"

	"skiff/internal/testcluster/apiserver"
)

// startFake serves the embedded server on loopback.
func startFake(t *testing.T) *API {
	t.Helper()
	return startFakeWith(t, nil)
}

// startFakeWith starts an embedded server that evaluates CEL.
func startFakeWith(t *testing.T, c *apiserver.CEL) *API {
	t.Helper()
	_, api := serveFake(t, c)
	return api
}

func serveFake(t *testing.T, c *apiserver.CEL) (*apiserver.Server, *API) {
	t.Helper()
	return serveFakeWith(t, apiserver.Options{CEL: c})
}

// serveFakeWith starts an embedded server with options besides those that make it comparable with a real one.
func serveFakeWith(t *testing.T, o apiserver.Options) (*apiserver.Server, *API) {
	t.Helper()
	o.Users = map[string]apiserver.User{admin.Token: {Name: admin.Name, UID: admin.Name,
		Groups: []string{admin.Groups}}}
	// No controller empties deleted namespaces on the control plane that it is compared with either.
	o.KeepNamespaces, o.ProtectStorage = true, true
	server := apiserver.New(o)
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		web.Close()
	})
	api := must(NewAPI(web.URL, "", admin.Token))(t)
	return server, api
}
