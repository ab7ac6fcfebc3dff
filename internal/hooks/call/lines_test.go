//go:build unix

package call_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
)

var requestID = regexp.MustCompile(`"id":"[A-Z2-7]{8}-[0-9]+",`)

// withoutID returns the answer of a hook that repeats its request, without the id of that.
func withoutID(r call.Reply) string { return requestID.ReplaceAllString(string(r.Body), "") }

// Rules: HK-102
func TestALineIsAnsweredByALine(t *testing.T) {
	c, _ := newCaller(t, echo())
	if got := withoutID(ask(t, c, "{\n\"a\":\r\n\"b\\n\"}")); got != `{"hook":"sync", "a":  "b\n"}` {
		t.Errorf("got %s", got)
	}
	large := `{"a":"` + strings.Repeat("x", 3<<20) + `"}`
	if got := withoutID(ask(t, c, large)); got != `{"hook":"sync",`+large[1:] {
		t.Errorf("got %d bytes", len(got))
	}
}

// Rules: HK-102
func TestCallsAtOnceHaveAProcessEachAndGetTheirOwnAnswers(t *testing.T) {
	hook := shell(t, spec.Lines, `echo $$ >> pids; while read -r line; do echo "$line"; done`)
	c, _ := newCaller(t, hook, func(o *call.Options) { o.Workers = 3 })
	var calls sync.WaitGroup
	for n := range 6 {
		calls.Go(func() {
			for i := range 50 {
				want := fmt.Sprintf(`{"hook":"sync","n":%d}`, n*1000+i)
				reply, err := c.Call(t.Context(), call.Call{Body: fmt.Appendf(nil, `{"n":%d}`, n*1000+i)})
				if err != nil || withoutID(reply) != want {
					t.Errorf("got %s, %v, want %s", reply.Body, err, want)
				}
			}
		})
	}
	calls.Wait()
	pids, err := os.ReadFile(filepath.Join(hook.Exec.Dir, "pids"))
	if n := strings.Count(string(pids), "\n"); err != nil || n > 3 || n < 1 {
		t.Errorf("%d processes, %v", n, err)
	}
}

// Rules: HK-102
func TestALineMayAskForLaterOrSayWhatIsWrong(t *testing.T) {
	c, _ := newCaller(t, echo())
	for body, want := range map[string]time.Duration{`{"later":7}`: 7 * time.Second, `{"later":0}`: time.Second,
		`{"later":1.5,"x":{}}`: 1500 * time.Millisecond} {
		_, err := c.Call(t.Context(), call.Call{Body: []byte(body)})
		var later *call.Later
		if !errors.As(err, &later) || later.After != want {
			t.Errorf("%s: %v", body, err)
		}
	}
	_, err := c.Call(t.Context(), call.Call{Body: []byte(`{"error":"no such image, token=s3cr3t"}`)})
	if err == nil || call.IsUnavailable(err) || !strings.HasSuffix(err.Error(), ": no such image, token=[redacted]") {
		t.Errorf("got %v", err)
	}
	for _, body := range []string{`{"error":null,"later":null}`, `{"error":"","status":{"error":"x"}}`} {
		ask(t, c, body)
	}
}

// Rules: HK-102
func TestAProcessThatDoesNotAnswerAsAgreedIsEndedAndStartedAgainAfterAPause(t *testing.T) {
	for answer, want := range map[string]string{
		`echo oops`:                      `it printed a line that is not JSON: "oops"; print to stderr`,
		`exec head -c 2000000 /dev/zero`: "the answer has more than 1 MiB",
		`echo bye >&2; exit 4`:           "exit status 4: bye",
		`exit 0`:                         "it ended without an answer",
		`echo stuck >&2; sleep 1000`:     "no answer within 1s (answer sooner, or raise hooks.sync.exec.timeout): stuck",
	} {
		hook := shell(t, spec.Lines, "echo $$ > child; echo >> starts; read -r line; "+answer)
		hook.Timeout = time.Second
		c, _ := newCaller(t, hook, func(o *call.Options) { o.MaxAnswer, o.Workers = 1<<20, 1 })
		first := refused(t, c, "hook sync (sh): ", want)
		err := refused(t, c) // within the second in which it is not started again
		wantEnd(t, filepath.Join(hook.Exec.Dir, "child"))
		if call.IsUnavailable(err) {
			t.Errorf("%v: no hook was asked, and it counts as a failure of it", err)
		}
		if err.Error() != first.Error() { // the text stands in a status, which each of two processes would replace
			t.Errorf("%v\nbecomes, while the process is not started again, %v", first, err)
		}
		starts, err := os.ReadFile(filepath.Join(hook.Exec.Dir, "starts"))
		if err != nil || len(starts) != 1 {
			t.Errorf("%s: %d starts, %v", answer, len(starts), err)
		}
	}
}

// answering is the beginning of a hook in shell that answers with what is asked for, and repeats the id.
const answering = `log() { printf '{"level":"info","msg":"%s"}\n' "$1"; }
answer() { printf '%s\n' "$line" | sed 's/"hook":"sync",//'; }
`

// Rules: HK-102
func TestAnAnswerThatMayBeAnothersIsNotUsed(t *testing.T) {
	for name, script := range map[string]string{
		"a log line before the answer":             `while read -r line; do log working; sleep 0.02; answer; done`,
		"two lines without an id":                  `read -r line; printf '{}\n{}\n'`,
		"a log line at the start":                  `log started; while read -r line; do answer; done`,
		"an answer without an id, then a log line": `while read -r line; do echo '{"a":1}'; sleep 0.02; log done; done`,
		"the id of another request":                `while read -r line; do echo '{"a":1,"id":"x"}'; done`,
	} {
		t.Run(name, func(t *testing.T) {
			hook := shell(t, spec.Lines, answering+script)
			c, _ := newCaller(t, hook, func(o *call.Options) { o.Workers = 1 })
			for range 3 { // without a pause between them, which others would have to wait for
				reply, err := c.Call(t.Context(), call.Call{Body: []byte(`{"a":1}`)})
				if !call.IsMixed(err) || call.IsUnavailable(err) {
					t.Errorf("got %s, %v", reply.Body, err)
				}
			}
		})
	}
}

// Rules: HK-102
func TestALineThatComesLateIsNobodysAnswer(t *testing.T) {
	hook := shell(t, spec.Lines, answering+`while read -r line; do answer; answer; log done; done`)
	c, l := newCaller(t, hook, func(o *call.Options) { o.Workers = 1 })
	for i := range 20 {
		want := fmt.Sprintf(`{"n":%d}`, i)
		if got := withoutID(ask(t, c, want)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if lines := l.all(); len(lines) != 1 || !strings.Contains(lines[0], "print logs to stderr") {
		t.Errorf("log %q", lines)
	}
}

// Rules: HK-102
func TestAProcessThatPrintedALateLineGetsNoOtherRequest(t *testing.T) {
	hook := shell(t, spec.Lines, answering+`echo >> starts
while read -r line; do answer; (sleep 0.05; log late; touch late) & done`)
	c, _ := newCaller(t, hook, func(o *call.Options) { o.Workers = 1 })
	for i := range 5 {
		want := fmt.Sprintf(`{"n":%d}`, i)
		if got := withoutID(ask(t, c, want)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		wantFile(t, filepath.Join(hook.Exec.Dir, "late"))
	}
	starts, err := os.ReadFile(filepath.Join(hook.Exec.Dir, "starts"))
	if err != nil || len(starts) != 5 {
		t.Errorf("%d starts, %v", len(starts), err)
	}
}

// wantFile waits for a file, and removes it.
func wantFile(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); os.Remove(path) != nil; {
		if time.Now().After(deadline) {
			t.Fatalf("no file %s", path)
		}
	}
}

// Rules: HK-102
func TestAProgramThatDoesNotRepeatTheIDIsStartedForEachRequest(t *testing.T) {
	hook := shell(t, spec.Lines, `echo >> starts; while read -r line; do echo '{"a":1}'; done`)
	c, l := newCaller(t, hook, func(o *call.Options) { o.Workers = 1 })
	for range 3 {
		if got := ask(t, c, `{"n":1}`); string(got.Body) != `{"a":1}` {
			t.Errorf("got %s", got.Body)
		}
	}
	starts, err := os.ReadFile(filepath.Join(hook.Exec.Dir, "starts"))
	if err != nil || len(starts) != 3 {
		t.Errorf("%d starts, %v", len(starts), err)
	}
	if lines := l.all(); len(lines) != 1 || !strings.Contains(lines[0], `add \"id\" to the answer`) {
		t.Errorf("log %q", lines)
	}
}

// Rules: HK-102
func TestAProcessThatIsAskedAloneIsWaitedFor(t *testing.T) {
	hook := shell(t, spec.Lines, answering+`while read -r line; do answer; sleep 0.05; log late; done`)
	c, _ := newCaller(t, hook, func(o *call.Options) { o.Alone = true })
	if reply, err := c.Call(t.Context(), call.Call{Body: []byte(`{"a":1}`)}); !call.IsMixed(err) {
		t.Errorf("got %s, %v", reply.Body, err)
	}
}

// Rules: HK-102
func TestTheEndOfItsInputEndsAProcess(t *testing.T) {
	hook := shell(t, spec.Lines, `echo $$ > child; while read -r line; do echo "$line"; done; echo closed > end`)
	c, _ := newCaller(t, hook)
	ask(t, c, `{"a":1}`)
	c.Close()
	if text, err := os.ReadFile(filepath.Join(hook.Exec.Dir, "end")); err != nil || string(text) != "closed\n" {
		t.Errorf("%q, %v", text, err)
	}
	wantEnd(t, filepath.Join(hook.Exec.Dir, "child"))
	hook = shell(t, spec.Lines, `trap '' TERM; echo $$ > child; read -r line; echo "$line"; while :; do sleep 0.1; done`)
	c, _ = newCaller(t, hook)
	ask(t, c, `{"a":1}`)
	c.Close()
	wantEnd(t, filepath.Join(hook.Exec.Dir, "child"))
}

// Rules: HK-96, HK-102
func TestAProcessThatEndedBetweenCallsIsANewVersionOfTheHook(t *testing.T) {
	hook := shell(t, spec.Lines, `echo $$ >> pids; read -r line; echo "$line"`)
	c, _ := newCaller(t, hook, func(o *call.Options) { o.Workers = 1 })
	versions := map[string]bool{}
	for range 4 {
		version := ask(t, c, `{"a":1}`).Version
		if versions[version] = true; c.Version() != version {
			t.Errorf("version %q and %q", version, c.Version())
		}
	}
	pids, err := os.ReadFile(filepath.Join(hook.Exec.Dir, "pids"))
	if n := strings.Count(string(pids), "\n"); n != 4 || len(versions) != 4 {
		t.Errorf("%d processes, versions %v, %v", n, versions, err)
	}
}

// Rules: HK-96, HK-102
func TestTheEndOfAllProcessesIsOneRestart(t *testing.T) {
	hook := shell(t, spec.Lines, `echo $$ >> pids; while read -r line; do echo "$line"; done`)
	c, _ := newCaller(t, hook, func(o *call.Options) { o.Workers = 3 })
	all := func(do func()) {
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(do)
		}
		calls.Wait()
	}
	pids := func() []string {
		text, _ := os.ReadFile(filepath.Join(hook.Exec.Dir, "pids")) // which the first process makes
		return strings.Fields(string(text))
	}
	for len(pids()) < 3 {
		all(func() { ask(t, c, `{"a":1}`) })
	}
	before := c.Version()
	for _, pid := range pids() {
		n, _ := strconv.Atoi(pid)
		if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	versions := map[string]bool{}
	for deadline := time.Now().Add(time.Minute); len(pids()) < 6; { // calls fail that come before skiff sees the end
		if time.Now().After(deadline) {
			t.Fatalf("processes %q", pids())
		}
		all(func() { _, _ = c.Call(t.Context(), call.Call{Body: []byte(`{"a":1}`)}) })
		versions[c.Version()] = true
	}
	delete(versions, before)
	if len(versions) > 1 {
		t.Errorf("versions %v after %s", versions, before)
	}
}

// Rules: HK-96
func TestAProcessRunsFromTheFilesAsTheyAre(t *testing.T) {
	hook := shell(t, spec.Lines, `while read -r line; do echo '{"n":1}'; done`)
	c, _ := newCaller(t, hook)
	before := ask(t, c, `{"a":1}`)
	script := hook.Exec.Command[1]
	if err := os.WriteFile(script, []byte(`while read -r line; do echo '{"new":2}'; done`), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		after := ask(t, c, `{"a":1}`)
		if string(after.Body) == `{"new":2}` && after.Version != before.Version {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %s", after.Body)
		}
	}
}

// Rules: HK-92
func TestCloseWaitsForTheCallThatIsUnderWay(t *testing.T) {
	for _, mode := range []spec.Mode{spec.Oneshot, spec.Lines} {
		hook := shell(t, mode, `read -r line; touch asked; while ! [ -e go ]; do sleep 0.01; done; echo '{"done":1}'`)
		c, _ := newCaller(t, hook)
		answer := make(chan string, 1)
		go func() {
			reply, err := c.Call(t.Context(), call.Call{Body: []byte("{\"a\":1}\n")})
			answer <- strings.TrimSpace(string(reply.Body)) + fmt.Sprint(err)
		}()
		for {
			if _, err := os.Stat(filepath.Join(hook.Exec.Dir, "asked")); err == nil {
				break
			}
		}
		closed := make(chan struct{})
		go func() { c.Close(); close(closed) }()
		select {
		case <-closed:
			t.Errorf("%s: Close did not wait", mode)
		default:
		}
		if err := os.WriteFile(filepath.Join(hook.Exec.Dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := <-answer; got != `{"done":1}<nil>` {
			t.Errorf("%s: %s", mode, got)
		}
		<-closed
	}
}
