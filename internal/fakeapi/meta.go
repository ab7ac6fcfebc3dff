package fakeapi

import (
	"net/http"
	"runtime"
	"strings"

	"skiff/internal/fakeapi/answer"
)

// serveMeta answers requests that are not for a resource: version, health, discovery and schemas. It returns false for
// any other path.
func (s *Server) serveMeta(w http.ResponseWriter, r *http.Request) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch path {
	case "":
		answer.JSON(w, http.StatusOK, map[string]any{"paths": anys([]string{"/api", "/api/v1", "/apis", "/healthz",
			"/livez", "/openapi/v3", "/readyz", "/version"})})
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
	return s.serveDiscovery(w, r, path)
}

func health(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "ok"
	if _, verbose := r.URL.Query()["verbose"]; verbose {
		text = "[+]ping ok\n" + strings.TrimPrefix(path, "/") + " check passed\n"
	}
	answer.Bytes(w, http.StatusOK, []byte(text))
}
