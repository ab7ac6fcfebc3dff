package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
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

// microTime is what k8s.io/apimachinery reads as a MicroTime.
var microTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

func TestAnAuditLogThatCannotBeWrittenIsAnErrorOnceAndStopsNothing(t *testing.T) {
	full, gone := errors.New("full"), errors.New("gone")
	fails := []error{nil, full, gone, gone}
	f := devFlags{audit: "-"}
	var o devOptions
	closeLog, err := f.openAudit(&o, writerFunc(func(p []byte) (int, error) {
		err := fails[0]
		fails = fails[1:]
		return len(p), err
	}))
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		o.api.Audit(apiserver.AuditEvent{})
	}
	if err := closeLog(); !errors.Is(err, full) || errors.Is(err, gone) || len(fails) != 2 {
		t.Errorf("%v, and %d writes that were not tried", err, len(fails))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

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
			e.ObjectRef.Namespace != "default" || e.Received > e.At || !microTime.MatchString(e.Received) ||
			!microTime.MatchString(e.At) ||
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
