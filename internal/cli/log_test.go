package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func TestBothFormatsOfTheLogHaveTheSameFields(t *testing.T) {
	lines := func(format string) []string {
		var out bytes.Buffer
		log := must((&logFlags{format: format, verbosity: 1}).logger(&out))(t)
		WarnIn(log)("careful")
		log = log.WithValues("controller", "webserver", "key", kube.Key{Namespace: "default", Name: "web"},
			"cause", "WebServer ADDED", "duration_ms", 2.5)
		log.Info("reconciled", "limit", 3*time.Second)
		log.V(1).Info("listed")
		log.Error(errors.New("no\nluck"), "reconcile failed")
		stamp := regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)`)
		return strings.Split(strings.TrimSpace(stamp.ReplaceAllString(out.String(), "TIME")), "\n")
	}
	about := `"controller":"webserver","key":"default/web","cause":"WebServer ADDED","duration_ms":2.5`
	const aboutText = `controller=webserver key=default/web cause="WebServer ADDED" duration_ms=2.5`
	asText := []string{`level=WARN msg=warning text=careful`, `level=INFO msg=reconciled ` + aboutText + ` limit=3s`,
		`level=DEBUG msg=listed ` + aboutText,
		`level=ERROR msg="reconcile failed" ` + aboutText + ` error="no\nluck"`}
	for i, want := range []string{
		`"level":"WARN","msg":"warning","text":"careful"`,
		`"level":"INFO","msg":"reconciled",` + about + `,"limit":"3s"`,
		`"level":"DEBUG","msg":"listed",` + about,
		`"level":"ERROR","msg":"reconcile failed",` + about + `,"error":"no\nluck"`,
	} {
		if got := lines("json"); got[i] != `{"time":"TIME",`+want+"}" {
			t.Errorf("json: got  %s\nwant %s", got[i], want)
		}
		if got := lines("text"); got[i] != "time=TIME "+asText[i] {
			t.Errorf("text: got  %s\nwant %s", got[i], asText[i])
		}
	}
}

// BenchmarkLogLine writes the line at the end of a run in each form; verbosity 1, because no limit then drops lines.
func BenchmarkLogLine(b *testing.B) {
	for _, format := range []string{"text", "json", "console"} {
		b.Run(format, func(b *testing.B) {
			log := must((&logFlags{format: format, verbosity: 1}).logger(io.Discard))(b)
			log = log.WithValues("controller", "webserver")
			b.ReportAllocs()
			for b.Loop() {
				log.Info("reconciled", "key", kube.Key{Namespace: "default", Name: "web"}, "cause",
					"WebServer default/web ADDED", "duration_ms", 2.5, "outcome", "done", "writes", int64(3))
			}
		})
	}
}

func TestALogLineThatQuotesAWholeObjectIsCut(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log := must((&logFlags{format: format}).logger(&out))(t)
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

// broken is an error and a Stringer that panics, as most do on a nil pointer.
type broken struct{ text string }

func (b *broken) Error() string  { return b.text }
func (b *broken) String() string { return b.text }

func TestAValueThatPanicsIsLoggedAsThat(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log := must((&logFlags{format: format}).logger(&out))(t)
		log.Error((*broken)(nil), "reconcile failed")
		log.WithValues("before", (*broken)(nil)).Info("next", "value", struct{ fmt.Stringer }{})
		said := "panic: runtime error: invalid memory address"
		if got := out.String(); strings.Count(got, "\n") != 2 || strings.Count(got, said) != 3 {
			t.Errorf("%s: %s", format, got)
		}
	}
}
