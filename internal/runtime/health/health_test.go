package health

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

var update = flag.Bool("update", false, "write the golden file anew")

var now = time.Date(2026, 11, 27, 16, 0, 0, 0, time.UTC)

// twelve are Problems of each class, as the packages make them.
func twelve() []Problem {
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	return []Problem{
		{Reason: "NoAnswer", Public: "no answer from https://10.0.0.1", Quoted: "dial tcp: connection refused",
			Next: "check the API server and the way to it", Since: at(12 * time.Second)},
		{Reason: "NoCredential", Public: "no credential for https://10.0.0.1", Quoted: "exec: aws: not found",
			Next: "log in again"},
		{Reason: "LeaseLost", Public: "the lease is lost", Since: at(90 * time.Second), Next: "no leader is known"},
		{Controller: "redis", Reason: "WorkersStuck", Public: "controller redis: 3 keys are due, and its workers " +
			"have made no progress", Since: at(2 * time.Minute), Next: "restart it"},
		{Reason: "LogBlocked", Public: "5 lines were dropped, and the log has not been read", Since: at(time.Hour)},
		{Controller: "webserver", Namespaces: []string{"a", "b"}, Reason: "Forbidden",
			Public: "namespaces a, b: may not list and watch services", Next: "skiff role -n a,b | kubectl apply -f-"},
		{Controller: "webserver", Reason: "NotFound", Public: "webservers.skiff.dev is not installed",
			Next: "run `skiff crds install`"},
		{Controller: "redis", Reason: "NotUpToDate", Public: "the server answers 500 InternalError; pods have not " +
			"been up to date", Quoted: "etcdserver: leader changed", Since: at(7 * time.Second),
			Next: "skiff tries again"},
		{Controller: "redis", Reason: "SilentWatch", Public: "pods: nothing received", Since: at(150 * time.Second)},
		{Controller: "webserver", Namespaces: []string{"shop"}, Reason: "InvalidSpec",
			Public: "refused: shop/web, 3 times: InvalidSpec", Quoted: `spec.image: invalid value "hush"`,
			Since: at(time.Minute)},
		{Controller: "site", Reason: "HookFails", Public: "CompositeController site: the sync hook has failed for 2",
			Quoted: "SyntaxError: expected ':' (hook.py:8)", Next: "it gets one call at a time until it answers"},
		{Reason: "Hostile", Public: "line\nbreak\x1b[2J\u202e", Quoted: strings.Repeat("long ", 1000), Next: "a\x00b"},
	}
}

// The golden file holds the twelve Problems as a probe prints them here and elsewhere, and as JSON.
func TestEachRendererPutsTheTwelveProblemsIntoWords(t *testing.T) {
	all := []Check{{Name: "shutdown", Problems: twelve(), Notes: []string{"this process leads", "two\nlines"}},
		{Name: "webserver", Failed: twelve()[7:9]}, {Name: "redis", Excluded: true}}
	var text strings.Builder
	WriteText(&text, all, true, now)
	text.WriteString("--- elsewhere\n")
	for _, c := range all {
		WriteText(&text, []Check{c.Hidden()}, true, now)
	}
	text.WriteString("--- not verbose\n")
	WriteText(&text, all, false, now)
	text.WriteString("--- JSON, elsewhere\n")
	report := NewReport([]Check{all[0].Hidden(), all[1].Hidden(), all[2]}, false, "")
	asJSON, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text.Write(append(asJSON, '\n'))
	const name = "testdata/twelve.txt"
	if *update {
		if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("got, with -update it is written to %s:\n%s", name, &text)
	}
	if n := report.Problems(); n != 14 {
		t.Errorf("the report has %d problems, want 14", n)
	}
}

func TestNothingQuotedAndNoControlCharacterIsInAHiddenText(t *testing.T) {
	for _, p := range twelve() {
		hidden, whole := p.Hidden().Text(now), p.Text(now)
		if p.Quoted != "" && strings.Contains(hidden, p.Quoted[:10]) {
			t.Errorf("%s quotes others when hidden: %s", p.Reason, hidden)
		}
		for _, text := range []string{hidden, whole} {
			if strings.ContainsAny(text, "\n\x1b\x00\u202e") || len(text) > 2*maxPublic+2*maxQuoted {
				t.Errorf("%s is not printable, or too long: %q", p.Reason, text)
			}
		}
	}
}

func TestEachTextIsBoundedAndPrintable(t *testing.T) {
	long := strings.Repeat("\x1b[2J", 10<<10)
	p := Problem{Subject: long, Public: long, Quoted: long, Next: long, Since: now.Add(time.Hour)}
	for name, text := range map[string]string{"Text": p.Text(now), "Message": p.Message(now), "Note": p.Note(),
		"Whole": p.Whole()} {
		if strings.Contains(text, "\x1b") || len(text) > 32<<10 {
			t.Errorf("%s has %d bytes: %.100q", name, len(text), text)
		}
	}
	if text := (Problem{Public: "x", Since: now.Add(time.Hour)}).Message(now); text != "x for 0s" {
		t.Errorf("a clock that was set back makes %q", text)
	}
	quote := Problem{Quoted: "no such field"}
	if quote.Whole() != "no such field" || quote.Note() != "no such field" {
		t.Errorf("where skiff has nothing to say: %q, %q", quote.Whole(), quote.Note())
	}
}

func TestWhyARequestFailsIsSplitIntoTheWordsOfSkiffAndThoseOfOthers(t *testing.T) {
	const hush = "hush"
	for reason, err := range map[string]error{
		"NoCredential": &kube.CredentialError{Err: errors.New(hush)},
		"NoAnswer":     fmt.Errorf("list pods: %w", &kube.NoAnswerError{Err: errors.New(hush)}),
		"Refused":      &kube.Status{Code: 500, Reason: "InternalError", Message: hush},
		"Failed":       fmt.Errorf("decode: %w", errors.New(hush)),
	} {
		p := OfError(err)
		if p.Reason != reason || strings.Contains(p.Public+p.Next, hush) || !strings.Contains(p.Quoted, hush) {
			t.Errorf("%v is %+v, want reason %s and %q in Quoted alone", err, p, reason, hush)
		}
	}
	for code, next := range map[int]string{404: "install its CRD", 403: "grant list and watch"} {
		p := OfError(&kube.Status{Code: code, Reason: "R", Message: hush})
		if !strings.Contains(p.Next, next) {
			t.Errorf("after a %d the next step is %q", code, p.Next)
		}
	}
	if p := OfError(&kube.Status{Code: 401, Reason: "Unauthorized", Message: hush}); p.Reason != "Unauthorized" ||
		strings.Contains(p.Text(now), hush) {
		t.Errorf("401 is %+v", p)
	}
}

// A message of a condition begins with what happened, ends with what to do, and is the same for each attempt.
func TestAFailedWriteIsExplainedWithTheNextStep(t *testing.T) {
	forbidden := func(text string) *kube.Status { return &kube.Status{Code: 403, Reason: "Forbidden", Message: text} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{&kube.Status{Code: 422, Message: "spec.x: no"},
			"PodRefused stalled: the API server refuses the Pod (spec.x: no); correct the spec"},
		{&kube.NoAnswerError{Err: errors.New("10.0.0.1:54321: reset")},
			"PodFailed: the API server cannot be reached; skiff tries again"},
		{&kube.CredentialError{Err: errors.New("hush")},
			"PodFailed: skiff has no credential for the API server; skiff tries again"},
		{forbidden(`pods "a" is forbidden: exceeded quota: q`), `PodRefused: the API server refuses the Pod (pods "a" ` +
			`is forbidden: exceeded quota: q); raise the quota or ask for less, skiff tries again`},
		{forbidden(`pods "a" is forbidden: violates PodSecurity "x"`), `PodRefused: the API server refuses the Pod ` +
			`(pods "a" is forbidden: violates PodSecurity "x"); set securityContext under spec.template.spec, skiff ` +
			`tries again`},
		{forbidden(`pods is forbidden: User "u" cannot create resource "pods"`), `PodFailed: the server answers 403 ` +
			`Forbidden (pods is forbidden: User "u" cannot create resource "pods"); grant it, skiff tries again`},
		{&kube.Status{Code: 500, Reason: "InternalError", Message: "etcd is away"},
			"PodFailed: the server answers 500 InternalError (etcd is away); skiff tries again"},
		{errors.New("local"), "PodFailed: the request failed (local); skiff tries again"},
	} {
		p := OfWrite("Pod", test.err, "skiff tries again", Failing)
		if got := strings.TrimSpace(p.Reason+" "+string(p.Severity)) + ": " + p.Note(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
