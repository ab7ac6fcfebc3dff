package outside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// prometheusOperator is a module, in the newest release that the module proxy has.
const prometheusOperator, prometheusOperatorVersion = "github.com/prometheus-operator/prometheus-operator", "v0.85.0"

// The recipe examples/testing/operator.sh runs an operator of others, with the modules of its own release.
func TestThePrometheusOperatorWorksOnSkiffDev(t *testing.T) {
	need(t, "sh", "kubectl")
	program := prometheusOperator + "/cmd/operator"
	dir, _ := write(t, "go.mod", "module operator\n\ngo 1.26.0\n\nrequire "+prometheusOperator+" "+
		prometheusOperatorVersion+"\n\ntool "+program+"\n")
	run(t, dir, "go", "mod", "tidy")
	run(t, dir, "go", "build", "-o", dir, program)
	source, err := try(t, dir, "go", "list", "-m", "-f", "{{.Dir}}", prometheusOperator)
	if err != nil {
		t.Fatalf("find the definitions: %v\n%s", err, source)
	}
	// Its definitions have rules in CEL.
	run(t, filepath.Join(repository, "internal", "testcluster", "cel"), "go", "build", "-o", dir, "./skiff-dev")
	script, err := filepath.Abs(filepath.Join(repository, "examples", "testing", "operator.sh"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := try(t, dir, filepath.Join(dir, "skiff-dev"), "--controllers", "none", "--crds",
		filepath.Join(strings.TrimSpace(string(source)), "example", "prometheus-operator-crd"), "--", "sh", script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"statefulset.apps/prometheus-web   2/2",
		"prometheus-web-2   quay.io/prometheus/prometheus:v3.1.0", "failed to parse version",
		`prometheus.monitoring.coreos.com "web" deleted`, "pod/prometheus-web-0 condition met"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
