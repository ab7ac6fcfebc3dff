package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The embedded API server answers as the real one does, script by script, but for the differences that
// testdata/differential-allowed.json explains. What a script holds has no unit test beside it.
//
// Rules: FC-06, FC-09, FC-10, FD-01, FD-03, FD-04, FD-08, FD-09, FD-10, FD-22, FD-25, FS-05, FS-06, FS-07
// Rules: FS-08, FS-09, FS-10, FS-11, FS-12, FS-13, FS-16, FS-20, FS-22, FS-23, FS-26, FS-28, FS-29, FS-31, FS-38
// Rules: FS-39, WRT-29
func TestEmbeddedServerAnswersAsTheRealOne(t *testing.T) {
	cluster := ownCluster(t)
	fake := startFake(t)
	installForScripts(t, cluster.Admin)
	installForScripts(t, fake)
	allowed := must(ReadAllowances(filepath.Join("testdata", "differential-allowed.json")))(t)
	scripts := slices.Concat(readScripts(t, "scripts", nil), kindScripts(t), refusedScripts(t))
	for _, script := range scripts {
		t.Run(script.Name, func(t *testing.T) {
			if !script.Alone {
				t.Parallel()
			}
			runDifferential(t, script, cluster.Admin, fake, allowed)
		})
	}
	t.Cleanup(func() { // when the last script has ended
		if t.Failed() || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
			return // a part of the scripts does not need all allowances
		}
		for _, a := range allowed {
			if !a.used.Load() {
				t.Errorf("this allowed difference was not seen, take it out: %s, %s, %s", a.Script, a.Step, a.Path)
			}
		}
	})
}

// runDifferential runs one script on both servers and reports each difference that is not allowed.
func runDifferential(t *testing.T, script Script, realAPI, fakeAPI *API, allowed []*Allowance) {
	var trees [2][]any
	var errs [2]error
	var wg sync.WaitGroup
	for i, api := range []*API{realAPI, fakeAPI} {
		wg.Go(func() {
			var answers []Answer
			if answers, errs[i] = RunScript(t.Context(), api, script); errs[i] == nil {
				trees[i], errs[i] = Normalize(answers)
			}
		})
	}
	wg.Wait()
	if errs[0] != nil || errs[1] != nil {
		t.Fatalf("real server: %v; embedded server: %v", errs[0], errs[1])
	}
	for i, step := range script.Steps {
		differences := slices.DeleteFunc(Compare("", trees[0][i], trees[1][i]), func(d Difference) bool {
			if step.Until != "" && d.Path == "Body.metadata.resourceVersion" && strings.Contains(d.Real, "covers") {
				return true // how much happened before a list had what was waited for differs from run to run
			}
			return slices.ContainsFunc(allowed, func(a *Allowance) bool { return a.Allows(script.Name, step.Name, d) })
		})
		if slices.ContainsFunc(differences, func(d Difference) bool { return d.Path == "Code" }) {
			// Nothing in the bodies is alike then.
			t.Errorf("step %q: %s", step.Name, Difference{"Code", summary(trees[0][i]), summary(trees[1][i])})
			continue
		}
		for _, d := range differences {
			t.Errorf("step %q: %s", step.Name, d)
		}
	}
}

// summary is the code of an answer, and what it says.
func summary(answer any) string {
	a, _ := answer.(map[string]any)
	if status := Object(a).Str("Body", "message"); status != "" {
		return fmt.Sprint(a["Code"], " ", status)
	}
	return fmt.Sprint(a["Code"], " ", present(a["Body"], true))
}

// installForScripts installs the CRDs and waits until both of their faces are there.
func installForScripts(t *testing.T, api *API) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	crd := must(os.ReadFile(filepath.Join(repository, "crds", "webserver.yaml")))(t)
	if _, err := api.Do(ctx, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml",
		string(crd)); err != nil {
		t.Fatal(err)
	}
	Eventually(t, limit, "WebServers are served", func() (bool, string) {
		_, err := api.Get(ctx, "/apis/skiff.dev/v1alpha1/webservers")
		return err == nil, errorText(err)
	})
}
