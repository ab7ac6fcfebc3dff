package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func monitoring(t *testing.T, name string) []byte {
	t.Helper()
	text := must(os.ReadFile(filepath.Join(repository, "examples", "monitoring", name)))(t)
	return text
}

func TestPrometheusReadsTheAlertRules(t *testing.T) {
	groups, errs := rulefmt.Parse(monitoring(t, "alerts.yaml"), false)
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) == 0 || len(groups.Groups[0].Rules) < 8 {
		t.Errorf("the rules were not read: %+v", groups)
	}
}

// Grafana puts values in the place of its variables.
func TestPrometheusReadsTheQueriesOfTheDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	noError(t, json.Unmarshal(monitoring(t, "dashboard.json"), &dashboard))
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*")
	read := 0
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			if _, err := parser.ParseExpr(variables.Replace(q.Expr)); err != nil {
				t.Errorf("%s: %v", q.Expr, err)
			}
			read++
		}
	}
	if read < 15 {
		t.Errorf("%d queries were read", read)
	}
}
