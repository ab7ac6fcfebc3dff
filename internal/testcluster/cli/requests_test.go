package cli

import (
	"strings"
	"testing"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
)

func TestTheRequestsOfARunningDevAreShown(t *testing.T) {
	dev := startDev(t, "--bare")
	dev.exists(configMaps, "default", "before")
	list := skiffDev(t, "requests", "--kubeconfig", dev.kubeconfig)
	if list.Code != cli.ExitDone || !strings.Contains(list.Stdout, "  404  GET     "+
		"/api/v1/namespaces/default/configmaps/before  ") {
		t.Errorf("exit code %d, %s%s", list.Code, list.Stdout, list.Stderr)
	}
	f := skiffDevs.Follow(t, "requests", "-f", "--kubeconfig", dev.kubeconfig)
	next := func(what string) {
		t.Helper()
		for !strings.Contains(f.Next(), what) {
			continue
		}
	}
	next("configmaps/before  ")
	if err := dev.client.Create(t.Context(), configMaps, "default", named("after"), nil,
		kube.WriteOptions{FieldManager: "x"}); err != nil {
		t.Fatal(err)
	}
	next("  201  POST    /api/v1/namespaces/default/configmaps?fieldManager=x  ")
	if code := f.Stop(); code != cli.ExitDone {
		t.Errorf("exit code %d: %s", code, f.Stderr)
	}
}

func TestTheRequestsAreNotShownToOthers(t *testing.T) {
	dev := startDev(t, "--bare")
	r := skiffDev(t, "requests", "--kubeconfig", dev.kubeconfig, "--token", "odd")
	if r.Code != cli.ExitFailed || !strings.Contains(r.Stderr, "401") && !strings.Contains(r.Stderr, "Unauthorized") {
		t.Errorf("exit code %d: %s", r.Code, r.Stderr)
	}
}
