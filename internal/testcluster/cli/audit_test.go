package cli

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
)

// audited are the events of a file.
func audited(t *testing.T, file string) (events []apiserver.AuditEvent) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e apiserver.AuditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		events = append(events, e)
	}
	return events
}

func TestTheAuditLogHasEachRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dev := startDev(t, "--bare", "--audit-log", file)
	if err := dev.client.Create(t.Context(), configMaps, "default", named("new"), nil,
		kube.WriteOptions{FieldManager: "x"}); err != nil {
		t.Fatal(err)
	}
	dev.exists(configMaps, "default", "absent")
	as, _ := connect(t, dev.kubeconfig, kubeconfig.Flags{As: "ann"})
	if _, err := as.Raw(t.Context(), http.MethodGet, "/api/v1/namespaces/default/configmaps",
		url.Values{"watch": {"true"}, "timeoutSeconds": {"1"}}); err != nil {
		t.Fatal(err)
	}
	if code := dev.Stop(); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	events := audited(t, file)
	of := func(stage, verb, name string, code int) apiserver.AuditEvent {
		t.Helper()
		i := slices.IndexFunc(events, func(e apiserver.AuditEvent) bool {
			return e.Stage == stage && e.Verb == verb && e.ObjectRef != nil && e.ObjectRef.Name == name &&
				e.ObjectRef.Resource == "configmaps"
		})
		if i < 0 {
			t.Fatalf("no %s of %s %q in %+v", stage, verb, name, events)
		}
		e := events[i]
		if e.ResponseStatus == nil || e.ResponseStatus.Code != code || e.AuditID == "" || e.User.Username == "" ||
			e.ObjectRef.Namespace != "default" || e.Received.After(e.At) ||
			!slices.Equal(e.SourceIPs, []string{"127.0.0.1"}) {
			t.Errorf("%+v", e)
		}
		return e
	}
	of("ResponseComplete", "create", "", 201)
	of("ResponseComplete", "get", "absent", 404)
	begun, ended := of("ResponseStarted", "watch", "", 200), of("ResponseComplete", "watch", "", 200)
	if begun.AuditID != ended.AuditID || ended.ImpersonatedUser == nil || ended.ImpersonatedUser.Username != "ann" {
		t.Errorf("%+v, then %+v", begun, ended)
	}
}
