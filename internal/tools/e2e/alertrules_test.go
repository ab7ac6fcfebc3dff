package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// point is a sample of a series.
type point struct {
	at int64 // milliseconds
	v  float64
}

func (p point) T() int64                      { return p.at }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// allSeries is a storage.SeriesSet.
type allSeries struct {
	left []storage.Series
	now  storage.Series
}

func (s *allSeries) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.now, s.left = s.left[0], s.left[1:]
	return true
}
func (s *allSeries) At() storage.Series                { return s.now }
func (s *allSeries) Err() error                        { return nil }
func (s *allSeries) Warnings() annotations.Annotations { return nil }

// series are names and labels with their value at a minute.
type series map[string]func(minute int) float64

// minutes is how long each test lasts.
const minutes = 40

func (s series) queryable(t *testing.T) storage.Queryable {
	t.Helper()
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool,
		_ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found allSeries
		for name, at := range s {
			lset := must(parser.ParseMetric(name))(t)
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(lset.Get(m.Name)) }) {
				continue
			}
			var points []chunks.Sample
			for minute := range minutes + 1 {
				points = append(points, point{int64(minute) * 60_000, at(minute)})
			}
			found.left = append(found.left, storage.NewListSeries(lset, points))
		}
		return &found
	}}}
}

func always(v float64) func(int) float64 { return func(int) float64 { return v } }
func rising(per float64) func(int) float64 {
	return func(minute int) float64 { return per * float64(minute) }
}

// Each alert has series with which it fires in the end, and such with which it must not.
var alertTests = map[string]struct{ fires, quiet series }{
	"SkiffDown": {series{}, series{`skiff_build_info{version="1"}`: always(1)}},
	"SkiffHasNoLeader": {series{`leader_election_master_status{instance="a"}`: always(0)},
		series{`leader_election_master_status{instance="a"}`: always(0),
			`leader_election_master_status{instance="b"}`: always(1)}},
	"SkiffOutOfContact": {
		series{`skiff_unanswered_seconds{instance="a"}`: rising(60), // etcd hangs: bookmarks still come
			`skiff_last_answer_timestamp_seconds{instance="a"}`: rising(60)},
		series{`skiff_unanswered_seconds{instance="a"}`: func(minute int) float64 {
			return float64(20 * (minute % 2)) // a slow request now and then
		}, `skiff_last_answer_timestamp_seconds{instance="a"}`: rising(60)}},
	"SkiffWatchSilent": {
		series{`skiff_watch_last_activity_timestamp_seconds{resource="pods"}`: always(600),
			`skiff_cache_synced{resource="pods"}`: always(1)},
		series{`skiff_watch_last_activity_timestamp_seconds{resource="pods"}`: rising(60), // now
			`skiff_cache_synced{resource="pods"}`:                            always(1),
			`skiff_watch_last_activity_timestamp_seconds{resource="others"}`: always(0), // never synced: SkiffParked
			`skiff_cache_synced{resource="others"}`:                          always(0)}},
	"SkiffParked": {series{`skiff_parked{controller="redis",namespace="a",reason="forbidden"}`: always(1)},
		series{`skiff_parked{controller="redis",namespace="a",reason="not_synced"}`: func(minute int) float64 {
			return float64(max(0, 1-minute%5)) // now and then, for a minute
		}}},
	"SkiffOverBudget": {series{`skiff_shed_objects{resource="redis.skiff.dev",selector="",namespace="a"}`: always(45)},
		series{`skiff_shed_objects{resource="pods",selector="",namespace="a"}`: func(minute int) float64 {
			return float64(max(0, 1-minute%5)) // now and then, for a minute
		}}},
	"SkiffKeysStalled": {series{`skiff_stalled_keys{controller="redis"}`: always(2)},
		series{`skiff_stalled_keys{controller="redis"}`: always(0)}},
	"SkiffReloadStopped": {
		series{`skiff_problem_objects{controller="reload-deployments",reason="OtherFailed"}`: always(2)},
		series{`skiff_problem_objects{controller="reload-deployments",reason="WaitsForTurn"}`: always(9),
			`skiff_problem_objects{controller="webserver",reason="RolloutFailed"}`: always(1)}},
	"SkiffReconcileErrors": {
		series{`controller_runtime_reconcile_errors_total{controller="redis"}`: rising(30),
			`controller_runtime_reconcile_total{controller="redis",result="error"}`:   rising(30),
			`controller_runtime_reconcile_total{controller="redis",result="success"}`: rising(10)},
		series{`controller_runtime_reconcile_errors_total{controller="redis"}`: rising(1),
			`controller_runtime_reconcile_total{controller="redis",result="error"}`:   rising(1),
			`controller_runtime_reconcile_total{controller="redis",result="success"}`: rising(10)}},
	"SkiffReconcileStuck": {series{`workqueue_longest_running_processor_seconds{controller="redis"}`: rising(60)},
		series{`workqueue_longest_running_processor_seconds{controller="redis"}`: always(50)}},
	"SkiffQueueGrows": {series{`workqueue_depth{name="redis"}`: always(500)},
		series{`workqueue_depth{name="redis"}`: func(minute int) float64 { return float64(1000 * (minute % 2)) },
			`workqueue_depth{name="of another program"}`: always(500)}},
	"SkiffPanics": {series{`skiff_panics_total{part="reconcile"}`: rising(1)},
		series{`skiff_panics_total{part="reconcile"}`: always(7)}},
	"SkiffMassDelete": {series{`skiff_cache_incidents_total{resource="pods",kind="mass_delete"}`: rising(1)},
		series{`skiff_cache_incidents_total{resource="pods",kind="outdated"}`: rising(1)}},
}

// TestTheAlertsFireWhenTheyShouldAndOnlyThen does what `promtool test rules` does: an alert fires when its expression
// has had a result for as long as it says.
func TestTheAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	groups, errs := rulefmt.Parse(monitoring(t, "alerts.yaml"), false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute,
		LookbackDelta: 2 * time.Minute})
	defer engine.Close()
	fires := func(r rulefmt.Rule, on series) bool {
		for minute := minutes - int(time.Duration(r.For)/time.Minute); minute <= minutes; minute++ {
			q := must(engine.NewInstantQuery(context.Background(), on.queryable(t), nil, r.Expr,
				time.Unix(int64(minute)*60, 0)))(t)
			result := q.Exec(t.Context())
			vector, err := result.Vector()
			if err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			empty := len(vector) == 0
			q.Close()
			if empty {
				return false
			}
		}
		return true
	}
	for _, r := range groups.Groups[0].Rules {
		test, ok := alertTests[r.Alert]
		if !ok {
			t.Errorf("%s has no test", r.Alert)
			continue
		}
		if !fires(r, test.fires) {
			t.Errorf("%s does not fire", r.Alert)
		}
		if fires(r, test.quiet) {
			t.Errorf("%s fires without reason", r.Alert)
		}
	}
}
