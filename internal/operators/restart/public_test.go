package restart

import (
	"strings"
	"testing"
	"time"

	"skiff/internal/testcluster/operatortest"
)

// See the test of WebServers.
//
// Rules: LP-08
func TestReadersWithoutATokenAreToldWhatIsWrongAndShownNoContent(t *testing.T) {
	const redis = `"source":{"selector":{"matchLabels":{"app":"redis-cluster"}}}`
	const predixy = `"targets":[{"kind":"Deployment","name":"predixy"}]`
	specs := map[string]string{
		"rt":      `{` + redis + `,` + predixy + `,"debounce":"1s"}`,
		"missing": `{` + redis + `,"targets":[{"kind":"Deployment","name":"none"}]}`,
		"invalid": `{"source":{"selector":{"matchLabels":{"app":"canary value"}}},` + predixy + `}`,
		"none":    `{"source":{"selector":{"matchLabels":{"app":"none"}}},` + predixy + `}`,
	}
	prepare := func(w *operatortest.Env) {
		e := inCluster(w)
		e.deploy("predixy", 2)
		e.pod("redis-0")
		w.Pass(10 * time.Second)
	}
	replaced := func(w *operatortest.Env) { (&env{w}).replace("redis-0") }
	hurts := []operatortest.Hurt{{Name: "nothing", After: replaced}}
	for _, hurt := range operatortest.Refusals([]string{"patch", "get"}, deployments, resource) {
		hurt.After = replaced
		hurts = append(hurts, hurt)
	}
	shown := operatortest.HidesCanaries(t, options, prepare, specs, hurts)
	for _, want := range []string{
		"there is no deployment/none; create it or correct the target, skiff looks again",
		"no pod in namespace default matches the selector; resumes when one does",
		"the spec is not valid; correct the spec",
		"the server answers 403 Forbidden; grant it, skiff tries again",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("nobody is told: %s", want)
		}
	}
}
