package httpd

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// Discovery answers a request that is not for a resource, given the served kinds and the documents about them. The
// error is NoSuchPath for a path that is none of its own.
func Discovery(w http.ResponseWriter, r *http.Request, set features.Set, docs *OpenAPI, all []*kinds.Kind) error {
	path := r.URL.Path
	if strings.HasPrefix(path, "/api") || path == "/version/" {
		path = strings.TrimSuffix(path, "/")
	}
	if r.Method != http.MethodGet && strings.Count(path, "/") <= 3 && readOnly(path, all) {
		return MethodNotAllowed()
	}
	of, check, single := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case path == "/", path == "/index.html":
		JSON(w, http.StatusOK, map[string]any{"paths": obj.Anys(paths(set, all))})
	case path == "/version":
		JSON(w, http.StatusOK, version(set))
	case path == "/metrics", path == "/metrics/slis":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
		text := []byte("# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single " +
			"healthcheck.\n# TYPE kubernetes_healthcheck gauge\n")
		for _, of := range health {
			for _, check := range checks(of) {
				text = fmt.Appendf(text, "kubernetes_healthcheck{name=%q,type=%q} 1\n", check, of)
			}
		}
		Bytes(w, http.StatusOK, text)
	case pages[path] != "" && set.On(pages[path]):
		return pageOf(w, r, of)
	case !slices.Contains(health, of):
		return serveKinds(w, r, path, docs, all)
	case single && !slices.Contains(checks(of), check):
		return NoSuchPath
	default:
		answerHealth(w, r, of, single)
	}
	return nil
}

func version(set features.Set) map[string]any {
	x := strconv.Itoa(set.Minor())
	out := map[string]any{"major": "1", "minor": x, "gitVersion": set.Version(), "gitCommit": "", "gitTreeState": "",
		"buildDate": "1970-01-01T00:00:00Z", "goVersion": runtime.Version(), "compiler": "gc",
		"platform": runtime.GOOS + "/" + runtime.GOARCH}
	if set.Since(33) { // KEP-4330, whose versions are shown since then
		out["emulationMajor"], out["emulationMinor"] = "1", x
		out["minCompatibilityMajor"], out["minCompatibilityMinor"] = "1", strconv.Itoa(set.Minor()-1)
	}
	return out
}

// health are the three endpoints of health checks.
var health = []string{"healthz", "livez", "readyz"}

// checks are the health checks of an endpoint that this server has, too; each is also a path of its own.
func checks(of string) []string {
	if of == "readyz" {
		return []string{"ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"}
	}
	return []string{"ping", "log", "etcd"}
}

// pages are those about the server itself, with their feature gates.
var pages = map[string]string{"/statusz": "ComponentStatusz", "/flagz": "ComponentFlagz"}

// paths returns all paths outside of the resources.
func paths(set features.Set, all []*kinds.Kind) []string {
	out := []string{"/.well-known/openid-configuration", "/api", "/apis", "/apis/", "/metrics", "/metrics/slis",
		"/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/version"}
	for path, gate := range pages {
		if set.On(gate) {
			out = append(out, path)
		}
	}
	for _, of := range health {
		out = append(out, "/"+of)
		for _, check := range checks(of) {
			out = append(out, "/"+of+"/"+check)
		}
	}
	for _, k := range all {
		if out = append(out, k.Root()); k.Group != "" {
			out = append(out, "/apis/"+k.Group)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// pageOf answers with a page for people about the server itself, of which this one says the least.
func pageOf(w http.ResponseWriter, r *http.Request, name string) error {
	if !accepts(r, "text/plain") {
		return NotAcceptable("only the following media types are accepted: application/json, " +
			"application/yaml, text/plain")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	Bytes(w, http.StatusOK, []byte("\napiserver "+name+"\nWarning: This endpoint is not meant to be machine "+
		"parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"))
	return nil
}

// readOnly reports whether the real server answers other methods than GET with 405. It takes any for other documents.
func readOnly(path string, all []*kinds.Kind) bool {
	return path == "/version" || path == "/api" || slices.ContainsFunc(all, func(k *kinds.Kind) bool {
		return !k.Custom && k.Root() == path
	})
}

func answerHealth(w http.ResponseWriter, r *http.Request, of string, single bool) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text, query := "ok", r.URL.Query()
	if !single {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	if query.Has("verbose") && !single {
		text = ""
		for _, check := range checks(of) {
			if slices.Contains(query["exclude"], check) {
				check += " excluded:"
			}
			text += "[+]" + check + " ok\n"
		}
		text += of + " check passed\n"
	}
	Bytes(w, http.StatusOK, []byte(text))
}
