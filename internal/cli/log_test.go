package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"skiff/internal/kube"
)

func TestBothFormatsOfTheLogHaveTheSameFields(t *testing.T) {
	lines := func(format string) []string {
		var out bytes.Buffer
		log, err := (&logFlags{format: format, verbosity: 1}).logger(&out)
		if err != nil {
			t.Fatal(err)
		}
		warnIn(log)("careful")
		log = log.WithValues("controller", "webserver", "key", kube.Key{Namespace: "default", Name: "web"},
			"cause", "WebServer ADDED", "duration_ms", 2.5)
		log.Info("reconciled", "limit", 3*time.Second)
		log.V(1).Info("listed")
		log.Error(errors.New("no\nluck"), "reconcile failed")
		stamp := regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)`)
		return strings.Split(strings.TrimSpace(stamp.ReplaceAllString(out.String(), "TIME")), "\n")
	}
	about := `"controller":"webserver","key":"default/web","cause":"WebServer ADDED","duration_ms":2.5`
	asText := strings.NewReplacer(`":`, `"=`, `,"`, ` "`)
	for i, want := range []string{
		`"level":"WARN","msg":"warning","text":"careful"`,
		`"level":"INFO","msg":"reconciled",` + about + `,"limit":"3s"`,
		`"level":"DEBUG","msg":"listed",` + about,
		`"level":"ERROR","msg":"reconcile failed",` + about + `,"error":"no\nluck"`,
	} {
		if got := lines("json"); got[i] != `{"time":"TIME",`+want+"}" {
			t.Errorf("json: got  %s\nwant %s", got[i], want)
		}
		if got := lines("text"); got[i] != `"time"="TIME" `+asText.Replace(want) {
			t.Errorf("text: got  %s\nwant %s", got[i], asText.Replace(want))
		}
	}
}

func TestALogLineThatQuotesAWholeObjectIsCut(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := (&logFlags{format: format}).logger(&out)
		if err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("x", 1_500_000)
		log.Error(errors.New(long), "reconcile failed", "value", long)
		log.Info("next")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || len(lines[0]) > 3*maxLogged || !strings.Contains(lines[0], "reconcile failed") {
			t.Errorf("%s: %d lines, the first of %d bytes", format, len(lines), len(lines[0]))
		}
		if format == "json" && !json.Valid([]byte(lines[0])) {
			t.Errorf("not JSON: %.200s", lines[0])
		}
	}
}
