package manager

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/runtime/metrics"
)

// publicDashboard is what the dashboards that kubebuilder generates for controller-runtime ask for
// (grafana/controller-runtime-metrics.json and controller-resources-metrics.json).
var publicDashboard = strings.Fields(`
	controller_runtime_active_workers controller_runtime_reconcile_total controller_runtime_reconcile_errors_total
	controller_runtime_max_concurrent_reconciles controller_runtime_reconcile_time_seconds_bucket
	workqueue_depth workqueue_adds_total workqueue_retries_total workqueue_unfinished_work_seconds
	workqueue_queue_duration_seconds_bucket workqueue_work_duration_seconds_bucket
	workqueue_longest_running_processor_seconds rest_client_requests_total process_cpu_seconds_total
	process_resident_memory_bytes go_goroutines go_memstats_heap_inuse_bytes go_gc_duration_seconds`)

// served returns the names of all samples of a manager with everything that it can have.
func servedNames(t *testing.T) []string {
	t.Helper()
	requests := &Requests{}
	for _, x := range []kube.Exchange{{Host: "h", Method: "GET", Code: 200},
		{Host: "h", Method: "PATCH", Code: 409, Conflict: true, Retried: 429}} {
		requests.Observe(x)
	}
	client, err := kube.New(kube.Config{Server: "http://down.test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	elector, err := leader.New(leader.Options{Client: client, Namespace: "default", Name: "skiff", Identity: "a"})
	if err != nil {
		t.Fatal(err)
	}
	store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client})
	c := controller.New("maps", nothing, controller.Options{Elected: true}, controller.For(store))
	var out strings.Builder
	m := New(Options{Controllers: []*controller.Controller{c}, Elector: elector,
		Client: client, Requests: requests})
	page := &metrics.Page{}
	m.scrape(page)
	if _, err := page.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(out.String()) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok { // also those that have no sample yet
			line = rest
		}
		names = append(names, line[:strings.IndexAny(line, "{ ")])
	}
	// The counts of an operator, which this test has not.
	return append(names, "skiff_restart_total")
}

// Rules: MGR-09
func TestTheQueriesOfControllerRuntimesDashboardsFindTheirMetrics(t *testing.T) {
	names := servedNames(t)
	for _, name := range publicDashboard {
		if !slices.Contains(names, name) {
			t.Errorf("no %s is served", name)
		}
	}
}

// metricName is a metric that skiff could serve, in an expression.
var metricName = regexp.MustCompile(`\b(?:skiff|controller_runtime|workqueue|rest_client|leader_election|go|process)_\w+`)

func expectMetrics(t *testing.T, names []string, expr string) {
	t.Helper()
	found := metricName.FindAllString(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: asks for none of skiff's metrics", expr)
	}
	for _, name := range found {
		if !slices.Contains(names, name) {
			t.Errorf("%s: no %s is served", expr, name)
		}
	}
}

func TestTheDashboardAndTheAlertsAskForMetricsThatExist(t *testing.T) {
	names := servedNames(t)
	text, err := os.ReadFile(filepath.Join("../../../examples/monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title         string
		SchemaVersion int
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.Title == "" || dashboard.SchemaVersion < 36 || len(dashboard.Panels) < 10 ||
		len(dashboard.Templating.List) == 0 {
		t.Errorf("not a dashboard as Grafana opens it: %.300s", text)
	}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if p.Title == "" || p.Type == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 || ids[p.ID] {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			expectMetrics(t, names, q.Expr)
		}
	}
	text, err = os.ReadFile(filepath.Join("../../../examples/monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &alerts); err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts.Groups[0].Rules {
		expectMetrics(t, names, r.Expr)
		if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" ||
			r.Annotations["description"] == "" {
			t.Errorf("rule %+v", r)
		}
	}
}
