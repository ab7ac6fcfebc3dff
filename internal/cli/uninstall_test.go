package cli

import (
	"strings"
	"testing"

	"skiff/internal/install/check"
	"skiff/internal/testcluster/apiserver"
)

func TestUninstallShowsWhatItWouldDoAndDoesItWithYes(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	for _, args := range [][]string{{"uninstall"}, {"uninstall", "--yes"}} {
		want := "there is nothing to delete\n"
		if len(args) > 1 {
			want = "done\n"
		}
		r := skiff(t, append(args, "--server", c.url())...)
		r.Want(t, ExitDone)
		if r.Stdout != want {
			t.Errorf("an empty cluster: %q, want %q", r.Stdout, want)
		}
	}
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	all := must(customResources())(t)
	for _, r := range all {
		if r.Kind == "Redis" {
			c.create(r, "default", map[string]any{"spec": map[string]any{"port": 6379, "num": 1},
				"metadata": map[string]any{"name": "cache",
					"finalizers": []string{"skiff.dev/pods", "example.com/x"}}})
		}
	}
	show := skiff(t, "uninstall", "--keep-children", "--server", c.url())
	show.Want(t, ExitDone)
	for _, want := range []string{"would delete redis.skiff.dev default/cache, and keep what it owns; its " +
		"finalizer skiff.dev/pods is removed first; it WAITS for example.com/x, a finalizer that is not skiff's\n",
		"would delete the definition webservers.skiff.dev\n", "nothing was changed; --yes does it\n"} {
		if !strings.Contains(show.Stdout, want) {
			t.Errorf("no %q in %s", want, show.Stdout)
		}
	}
	skiff(t, "uninstall", "--yes", "--timeout", "6s", "--server", c.url()).Want(t, ExitFailed,
		"uninstall: not done within 6s: redis.skiff.dev default/cache waits for its finalizer example.com/x")
}

func TestCheckSaysWhatIsMissing(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	r := skiff(t, "check", "--server", c.url())
	r.Want(t, ExitDiffer)
	for _, want := range []string{"  version     v1.36.3, tested with skiff\n", "  user        admin\n",
		"! definition  redis.skiff.dev: not installed, run `skiff crds install`\n",
		"  rights      of the controllers in all namespaces: 40 of 40 granted\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in %s", want, r.Stdout)
		}
	}
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	selecting := []string{"check", "--watch-namespace-selector", "team=shop", "--server", c.url()}
	if r := skiff(t, selecting...); r.Code != ExitDiffer || !strings.Contains(r.Stdout, "! namespaces  none has the "+
		"labels team=shop: label one, or correct --watch-namespace-selector; the rights of the controllers are not "+
		"checked\n") {
		t.Errorf("a selector that selects nothing: %+v", r)
	}
	c.patch(namespaces, "", "default", object{"metadata": object{"labels": object{"team": "shop"}}})
	if r := skiff(t, selecting...); r.Code != ExitDone || !strings.Contains(r.Stdout,
		"  namespaces  1 with the labels team=shop: default\n") {
		t.Errorf("a selector that selects one: %+v", r)
	}
	if r := skiff(t, "check", "-o", "yaml", "--server", c.url()); r.Code != ExitDone || r.Stdout != "" {
		t.Errorf("nothing is missing: %+v", r)
	}
	for next := check.NextInstall; next <= check.NextBindPolicyAll; next++ {
		if nextSteps[next] == "" {
			t.Errorf("no command for %d", next)
		}
	}
	c.down()
	skiff(t, "check", "--server", c.url()).Want(t, ExitFailed, "/version", "connection refused")
}
