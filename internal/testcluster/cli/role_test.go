package cli

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"skiff/examples"
	"skiff/internal/testcluster/apiserver"
)

// grant is one verb on one resource, "apps/deployments patch".
func grant(group, resource, verb string) string {
	if group != "" {
		resource = group + "/" + resource
	}
	return resource + " " + verb
}

// grantsOf returns what the roles in a file of the examples allow.
func grantsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	objects, err := parseManifests(name, []byte(examples.Text(name)))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range objects {
		addGrants(out, m.object)
	}
	if len(out) == 0 {
		t.Fatalf("%s grants nothing", name)
	}
	return out
}

// addGrants adds what a role allows.
func addGrants(out map[string]bool, role object) {
	rules, _ := role["rules"].([]any)
	for _, r := range rules {
		rule := r.(object)
		for _, group := range rule["apiGroups"].([]any) {
			for _, resource := range rule["resources"].([]any) {
				for _, verb := range rule["verbs"].([]any) {
					out[grant(group.(string), resource.(string), verb.(string))] = true
				}
			}
		}
	}
}

// neededFor returns the grant that a request needs.
func neededFor(t *testing.T, r apiserver.Request) string {
	t.Helper()
	parts := strings.Split(strings.Trim(r.Path, "/"), "/")
	group := ""
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, parts = parts[1], parts[3:]
	default:
		t.Fatalf("%s %s is no request about a resource", r.Method, r.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	resource := parts[0]
	if len(parts) == 3 {
		resource += "/" + parts[2]
	}
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPatch: "patch",
		http.MethodDelete: "delete"}[r.Method]
	switch {
	case verb == "":
		t.Fatalf("%s %s: this test does not know the method", r.Method, r.Path)
	case r.Watch():
		verb = "watch"
	case verb == "get" && len(parts) == 1:
		verb = "list"
	}
	return grant(group, resource, verb)
}

// notInTheTour are grants that need something to happen which does not in the tour, each with what that is.
var notInTheTour = map[string]string{
	"skiff.dev/webservers get":               "a write of a status or a child met a newer object",
	"skiff.dev/redis get":                    "the same",
	"skiff.dev/restarttriggers get":          "the same",
	"skiff.dev/webservers/finalizers update": "checked by an admission plugin that few clusters have",
	"skiff.dev/redis/finalizers update":      "the same",
	"apps/statefulsets get":                  "a target of this kind",
	"apps/statefulsets patch":                "the same",
	"apps/daemonsets get":                    "the same",
	"apps/daemonsets patch":                  "the same",
	"namespaces get":                         "a source in another namespace",
	"apps/deployments delete":                "a child that is no longer declared",
	"services delete":                        "the same",
	"services get":                           "before the first change of a Service",
	"services patch":                         "a change of a Service",
	"pods get":                               "a cache that is behind",
	"pods patch":                             "a pod that lost a label",
	"services list":                          "where the server does not stream lists",
	"pods list":                              "the same",
	"apps/deployments list":                  "the same",
	"skiff.dev/webservers list":              "the same",
	"skiff.dev/redis list":                   "the same",
	"skiff.dev/restarttriggers list":         "the same",
	"events.k8s.io/events patch":             "an Event that is repeated",
	"coordination.k8s.io/leases get":         "with --leader-elect",
	"coordination.k8s.io/leases watch":       "the same",
	"coordination.k8s.io/leases create":      "the same",
	"coordination.k8s.io/leases patch":       "the same",
}

// checkExampleRole compares the role for `skiff run` with skiff's requests of a whole tour.
func checkExampleRole(t *testing.T, requests []apiserver.Request) {
	t.Helper()
	granted, used := grantsOf(t, "install.yaml"), map[string]bool{}
	for _, r := range requests {
		if !strings.HasPrefix(r.UserAgent, "skiff/") || strings.HasPrefix(r.Path, "/openapi/") {
			continue // every user may read the OpenAPI documents
		}
		need := neededFor(t, r)
		used[need] = true
		if !granted[need] {
			t.Errorf("examples/install.yaml does not grant %s, which %s %s needs", need, r.Method, r.Path)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(granted)) {
		if why := notInTheTour[g]; !used[g] && why == "" {
			t.Errorf("examples/install.yaml grants %s, which the tour does not use", g)
		}
	}
	for g := range notInTheTour {
		if !granted[g] {
			t.Errorf("%s is not granted, but explained", g)
		}
	}
}
