// Package discovery answers requests that are not for a resource: which kinds are served, in the aggregated form and
// the older one, their OpenAPI schemas, the version, and health. It needs nothing but the served kinds, keeps no
// state and runs on the goroutine of the request.
package discovery

import (
	"net/http"
	"runtime"
	"slices"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
)

// Version is the server version that /version reports.
const Version = "v1.36.3"

// Serve answers a request that is not for a resource, given the served kinds. It returns false for any other path.
func Serve(w http.ResponseWriter, r *http.Request, all []*kinds.Kind) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method != http.MethodGet && strings.Count(path, "/") <= 3 && readOnly(path, all) {
		answer.Error(w, answer.MethodNotAllowed())
		return true
	}
	switch path {
	case "":
		answer.JSON(w, http.StatusOK, map[string]any{"paths": obj.Anys([]string{"/.well-known/openid-configuration",
			"/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/openid/v1/jwks", "/readyz",
			"/version"})})
		return true
	case "/version":
		answer.JSON(w, http.StatusOK, map[string]any{"major": "1", "minor": "36",
			"emulationMajor": "1", "emulationMinor": "36",
			"minCompatibilityMajor": "1", "minCompatibilityMinor": "35", "gitVersion": Version,
			"gitCommit": "", "gitTreeState": "",
			"buildDate": "1970-01-01T00:00:00Z", "goVersion": runtime.Version(), "compiler": "gc",
			"platform": runtime.GOOS + "/" + runtime.GOARCH})
		return true
	case "/healthz", "/livez", "/readyz":
		health(w, r, path)
		return true
	}
	return serveKinds(w, r, path, all)
}

// readOnly reports whether the real server answers other methods than GET with 405. It takes any for other documents.
func readOnly(path string, all []*kinds.Kind) bool {
	return path == "/version" || path == "/api" || slices.ContainsFunc(all, func(k *kinds.Kind) bool {
		return !k.Custom && k.Root() == path
	})
}

func health(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "ok"
	if _, verbose := r.URL.Query()["verbose"]; verbose {
		text = "[+]ping ok\n" + strings.TrimPrefix(path, "/") + " check passed\n"
	}
	answer.Bytes(w, http.StatusOK, []byte(text))
}
