package e2e

import (
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// look is what the engineer on call looks at.
func (w *walk) look() {
	leaders := 0
	for _, r := range w.running {
		text := must(scrape(w.Context(), r.metrics))(w)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
			w.Error(err)
		}
		w.says(text, `controller_runtime_reconcile_total{controller="webserver"`, "workqueue_depth{",
			"rest_client_requests_total{", "skiff_watch_last_activity_timestamp_seconds{", `version="v99.0.0-next"`)
		w.note("/metrics", text)
		if w.leads(r) {
			leaders++
		}
		for path, want := range map[string]string{"/readyz?verbose": "readyz check passed",
			"/livez/watch": "ok", "/healthz": "ok"} {
			code, body, err := r.probe(path)
			w.note(path, body)
			if err != nil || code != 200 || !strings.Contains(body, want) {
				w.Errorf("%s: %d %s %v", path, code, body, err)
			}
		}
		w.quiet(r)
		status := runSkiff(w, w.Scope, "status", "--health-probe-bind-address",
			strings.TrimPrefix(r.probes, "http://"))
		w.note("skiff status", status.Stdout)
		if status.Code != 0 || !strings.Contains(status.Stdout, " is ready; all is well\n") {
			w.Errorf("skiff status: %v", status)
		}
	}
	if leaders != 1 {
		w.Errorf("%d replicas lead", leaders)
	}
	noForbidden(w.Scope, w.running[0].Log()+w.running[1].Log())
}

func crdPath(plural string) string {
	return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + plural + ".skiff.dev"
}

// remove takes the order in which something is likely to be forgotten: the definitions go while skiff still runs.
func (w *walk) remove() {
	w.says(w.skiff(0, "uninstall"), "would delete webservers.skiff.dev "+w.NS+"/web\n", "nothing was changed")
	w.says(w.skiff(0, "uninstall", "--yes"), "deleted the definition webservers.skiff.dev\n", "done\n")
	w.apply(w.manifests, "delete", "--ignore-not-found")
	for _, r := range w.running {
		err := r.Terminate()
		w.note("the log of "+r.Name, r.Log())
		if err != nil {
			w.Errorf("%v\n%s", err, r.Tail(20))
		}
	}
	kinds := strings.Fields(w.Kubectl("api-resources", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { // they stay for an hour
		return kind == "events" || kind == "events.events.k8s.io"
	})
	Eventually(w, limit, "nothing of skiff is left", func() (bool, string) {
		var left []string
		all := w.Kubectl("get", strings.Join(kinds, ","), "-A", "--ignore-not-found", "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.labels} `+
				`{.metadata.deletionTimestamp}{"\n"}{end}`)
		for line := range strings.Lines(all) {
			ofUser := strings.Contains(line, " "+w.NS+"/") && !strings.Contains(line, "kube-root-ca.crt") &&
				!strings.HasPrefix(line, "ServiceAccount ") // what each namespace has
			if ofUser || strings.Contains(line, "skiff") {
				left = append(left, line)
			}
		}
		return len(left) == 0, strings.Join(left, "")
	})
}
