package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// A service account with all rights but three, in one namespace: skiff check names the three, prints what grants them,
// and is content when that is applied. With rights in no other namespace it says so of that.
func TestCheckNamesTheRightsThatAServiceAccountLacks(t *testing.T) {
	s := newScope(t)
	rights := without(without(without(allRights(), "delete", "pods"), "patch", "deployments.apps"), "create",
		"events.events.k8s.io")
	s.Apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skiff}\n---\n" +
		grant("Role", "skiff", "system:serviceaccount:"+s.NS+":skiff", rights))
	token := strings.TrimSpace(s.Kubectl("create", "token", "skiff"))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	noError(t, (Kubeconfig{Server: s.c.Server, CAFile: s.c.CAFile, Token: token}).Write(kubeconfig))
	check := func(code int, args ...string) Result {
		t.Helper()
		r := runSkiff(t, s, append([]string{"check", "--kubeconfig", kubeconfig, "--watch-namespaces", s.NS},
			args...)...)
		if r.Code != code || r.Stderr != "" {
			t.Fatalf("skiff check %v: want exit code %d: %v", args, code, r)
		}
		return r
	}
	r := check(3)
	t.Logf("\n%s", r.Stdout)
	for _, want := range []string{
		"  user        system:serviceaccount:" + s.NS + ":skiff\n",
		"  definition  redis.skiff.dev: installed, with all fields of this skiff; validation not compared: this " +
			"user may not get customresourcedefinitions\n",
		"skiff run does not need it, but with this, skiff check compares whole definitions:\n",
		"! rights      of the controllers in namespace " + s.NS + ": 37 of 40 granted\n",
		"!               missing: patch deployments.apps\n",
		"!               missing: delete pods\n",
		"!               missing: create events.events.k8s.io\n",
		"kind: RoleBinding\n",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in %s", want, r.Stdout)
		}
	}
	var report struct {
		OK     bool
		Rights []struct{ Missing []struct{ Resource string } }
	}
	if err := json.Unmarshal([]byte(check(3, "-o", "json").Stdout), &report); err != nil || report.OK ||
		len(report.Rights) != 1 || len(report.Rights[0].Missing) != 3 {
		t.Errorf("as JSON: %+v, %v", report, err)
	}
	s.Apply(check(3, "-o", "yaml").Stdout)
	check(0)
	other := check(3, "--watch-namespaces", s.NS+",default")
	if !strings.Contains(other.Stdout, "! rights      of the controllers in namespace default: 0 of 40 granted\n") {
		t.Errorf("rights in namespace default: %s", other.Stdout)
	}
	check(3, "--leader-elect", "--leader-election-namespace", s.NS)
}

// As an administrator nothing is missing, and definitions are compared.
func TestCheckComparesDefinitions(t *testing.T) {
	s := newScope(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	r := runSkiff(t, s, "check", "--kubeconfig", kubeconfig, "--leader-elect", "--leader-election-namespace", s.NS)
	if r.Code != 0 || strings.Count(r.Stdout, ": installed, the same as in this skiff\n") != 3 ||
		!strings.HasSuffix(r.Stdout, "nothing is missing\n") {
		t.Errorf("skiff check: %v", r)
	}
}
