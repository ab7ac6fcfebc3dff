package operatortest

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// Forget clears the list of requests.
func (w *Env) Forget() { w.API.ForgetRequests() }

// Requests returns the controller's requests since Forget in the form "POST pods 201", without lists, watches and
// Events. The method of a server-side apply is APPLY (with the field manager if that is not skiff), of a JSON patch
// JSONPATCH, of a dry run TRY.
func (w *Env) Requests() []string {
	var out []string
	for _, r := range w.API.Requests() {
		if what, ok := object(r); ok {
			out = append(out, fmt.Sprintf("%s %s %d", method(r), what, r.Status))
		}
	}
	return out
}

// object returns the object of a request of the controller, "pods/a/status". It returns false for a request that
// Requests leaves out.
func object(r apiserver.Request) (string, bool) {
	_, what, ok := strings.Cut(r.Path, "/namespaces/default/") // most lists and watches are of all namespaces
	return what, ok && r.UserAgent == Agent && what != "events" && !strings.HasPrefix(what, "events/") &&
		(r.Method != "GET" || strings.Contains(what, "/"))
}

func method(r apiserver.Request) string {
	manager := r.Query.Get("fieldManager")
	switch {
	case r.Query.Get("dryRun") != "":
		return "TRY"
	case r.ContentType == string(kube.JSONPatch):
		return "JSONPATCH"
	case r.ContentType != string(kube.ApplyPatch):
		return r.Method
	case manager != "skiff":
		return "APPLY as " + manager
	}
	return "APPLY"
}

// Writes returns the requests that are not GETs.
func (w *Env) Writes() []string {
	return slices.DeleteFunc(w.Requests(), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

// Count returns how many requests start with prefix.
func (w *Env) Count(prefix string) int {
	return len(slices.DeleteFunc(w.Requests(), func(r string) bool { return !strings.HasPrefix(r, prefix) }))
}

// WantRequests checks the requests, in order.
func (w *Env) WantRequests(want ...string) {
	w.Helper()
	w.WantLines("requests", w.Requests(), want)
}

// WantWrites checks the writes, in order.
func (w *Env) WantWrites(want ...string) {
	w.Helper()
	w.WantLines("writes", w.Writes(), want)
}

// WantLines checks a list, and prints both lists line by line if they differ.
func (w *Env) WantLines(what string, got, want []string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

var eventResource = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}

// Events returns the Events of the controller about an object, in the order of their names.
func (w *Env) Events(kind, name string) []map[string]any {
	return slices.DeleteFunc(w.API.List(eventResource, "default"), func(e map[string]any) bool {
		return At(e, "regarding", "kind") != kind || At(e, "regarding", "name") != name ||
			At(e, "reportingController") != "skiff.dev/"+w.Controller
	})
}

// EventLines returns the Events about a custom resource, sorted, in short: "Normal CreateService Service/web-service".
func (w *Env) EventLines(name string) []string {
	var out []string
	for _, e := range w.Events(w.Resource.Kind, name) {
		line := fmt.Sprint(e["type"], " ", e["reason"])
		if related := e["related"]; related != nil {
			line += fmt.Sprint(" ", At(related, "kind"), "/", At(related, "name"))
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
