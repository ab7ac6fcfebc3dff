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

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"

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

func TestUsualLinesOfTheTextLogAreAsStdrWritesThem(t *testing.T) {
	stamp := regexp.MustCompile(`time=\S+`)
	write := func(plain bool, do func(log logr.Logger)) string {
		var out bytes.Buffer
		log := stdr.New(textLines{&out})
		do(log.WithSink(textLog{LogSink: log.GetSink(), out: &out, verbosity: 1, plain: plain}))
		return stamp.ReplaceAllString(out.String(), "TIME")
	}
	for _, v := range []any{"", "a b", `quotes " and \`, "a\nb\x00\u2028\U0001F600\xff",
		kube.Key{Namespace: "default", Name: "web"}, kube.Key{Name: "node"}, -3, int64(1) << 60, 2.5, 1e21, 0.1, true,
		nil, 3 * time.Second, errors.New("no"),
		[]string{"a"}, map[string]int{"a": 1}, struct{ A int }{1}, new(int), uint8(7), float32(0.5)} {
		for name, do := range map[string]func(log logr.Logger){
			"value":      func(log logr.Logger) { log.Info("said", "one", 1, "v", v, "more", "x") },
			"WithValues": func(log logr.Logger) { log.WithValues("v", v).WithValues("w", "x").Info("said", "one", 1) },
			"WithName":   func(log logr.Logger) { log.WithName("n").Info("said", "v", v) },
			"level":      func(log logr.Logger) { log.V(1).Info("said", "v", v) },
			"not said":   func(log logr.Logger) { log.V(2).Info("said", "v", v) },
			"error":      func(log logr.Logger) { log.WithValues("w", "x").Error(errors.New("no"), "said", "v", v) },
			"warning":    func(log logr.Logger) { log.Info("careful", kube.Warn("v", v)...) },
			"odd":        func(log logr.Logger) { log.Info("said \"it\"", "one", v, "two"); log.Info("said", 5, v) },
			"long":       func(log logr.Logger) { log.Info("said", "v", strings.Repeat("x", maxLogged), "w", v) },
		} {
			if got, want := write(true, do), write(false, do); got != want {
				t.Errorf("%s %#v:\ngot  %s\nwant %s", name, v, got, want)
			}
		}
	}
}

func BenchmarkLogLine(b *testing.B) {
	log := must((&logFlags{format: "text", verbosity: 1}).logger(io.Discard))(b)
	log = log.WithValues("controller", "webserver")
	b.ReportAllocs()
	for b.Loop() {
		log.Info("reconciled", "key", kube.Key{Namespace: "default", Name: "web"}, "cause",
			"WebServer default/web ADDED", "duration_ms", 2.5, "outcome", "done", "writes", int64(3))
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
