package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/testcluster/cel"
)

// What skiff-dev does with rules in CEL is what a real server does, in its words.
func TestSkiffDevEvaluatesRulesAsTheRealServer(t *testing.T) {
	cluster := ownCluster(t)
	runDifferential(t, readScript(t, "cel/selectable.txtar", nil), cluster.Admin, startFake(t), nil)
	if !t.Failed() {
		runDifferential(t, readScript(t, "cel/cel.txtar", nil), cluster.Admin, startWithCEL(t), nil)
	}
}

// Admission policies do the same on skiff-dev as on a real server, in the same words.
func TestSkiffDevEvaluatesPoliciesAsTheRealServer(t *testing.T) {
	cluster := ownCluster(t)
	fake := startWithCEL(t)
	runDifferential(t, readScript(t, "cel/policies.txtar", nil), cluster.Admin, fake, nil)
	runDifferential(t, readScript(t, "cel/mutations.txtar", nil), cluster.Admin, fake, nil)
}

// others are Go modules with definitions that have rules in CEL, and where the definitions are. The modules' proxy has
// their files; nothing of them is built.
var others = map[string][]string{
	"sigs.k8s.io/gateway-api@v1.4.0": {"config/crd/standard/*.yaml"},
	"sigs.k8s.io/karpenter@v1.8.0":   {"pkg/apis/crds/*.yaml"},
	"sigs.k8s.io/cluster-api@v1.11.0": {"config/crd/bases/*.yaml", "controlplane/kubeadm/config/crd/bases/*.yaml",
		"bootstrap/kubeadm/config/crd/bases/*.yaml"},
}

// The definitions of well-known projects get the same answer as from a real server, and so do the objects that the
// authors of one know to be wrong.
func TestSkiffDevServesTheDefinitionsOfOthers(t *testing.T) {
	cluster := ownCluster(t)
	fake := startWithCEL(t)
	script := Script{Name: "others"}
	add := func(path, file string) {
		text := must(os.ReadFile(file))(t)
		for i, part := range strings.Split("\n"+string(text), "\n---") {
			if strings.Contains(part, "kind:") {
				script.Steps = append(script.Steps, Step{Name: fmt.Sprint(filepath.Base(file), " ", i), Method: "POST",
					Path: path, Type: "application/yaml", Body: part})
			}
		}
	}
	for _, module := range slices.Sorted(maps.Keys(others)) {
		dir := downloadModule(t, module)
		for _, pattern := range others[module] {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("no files %s in %s: %v", pattern, module, err)
			}
			for _, file := range files {
				add("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", file)
			}
		}
	}
	definitions := len(script.Steps)
	const gateway = "/apis/gateway.networking.k8s.io/v1/"
	wrong := filepath.Join(downloadModule(t, "sigs.k8s.io/gateway-api@v1.4.0"), "hack", "invalid-examples", "standard")
	for kind, plural := range map[string]string{"gatewayclass": "", "gateway": "gateways", "httproute": "httproutes"} {
		files, err := filepath.Glob(filepath.Join(wrong, kind, "*.yaml"))
		if err != nil || plural != "" && len(files) == 0 {
			t.Fatalf("no wrong %s: %v", kind, err)
		}
		if plural != "" {
			script.Steps = append(script.Steps, Step{Name: kind + " is served", Path: gateway + "${ns}/" + plural,
				Until: "resourceVersion"})
		}
		for _, file := range files {
			if plural != "" {
				add(gateway+"${ns}/"+plural, file)
			}
		}
	}
	t.Logf("%d definitions, %d wrong objects", definitions, len(script.Steps)-definitions)
	runDifferential(t, script, cluster.Admin, fake, nil)
}

// downloadModule returns the directory of a module's files.
func downloadModule(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v: %s", module, err, out)
	}
	var m struct{ Dir string }
	noError(t, json.Unmarshal(out, &m))
	return m.Dir
}

// startWithCEL is startFake with CEL.
func startWithCEL(t *testing.T) *API {
	t.Helper()
	return startFakeWith(t, cel.New())
}
