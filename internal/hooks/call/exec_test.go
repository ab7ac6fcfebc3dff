//go:build unix

package call_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/process"
)

// wantEnd waits until the process whose ID is in a file has ended.
func wantEnd(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z ") {
			return // gone, or waits for a parent that does not collect it
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
		time.Sleep(time.Millisecond)
	}
}

// Rules: HK-101, HK-103
func TestAProgramGetsTheRequestAndAnEnvironmentWithoutCredentials(t *testing.T) {
	t.Setenv("KUBECONFIG", "/secret")
	t.Setenv("LANG", "C")
	hook := shell(t, spec.Oneshot, `printf '{"in":%s,"env":"%s"}' "$(cat)" "$(env | sort | tr '\n' ' ')"; pwd > here`)
	hook.Exec.Env = map[string]string{"MODE": "test"}
	c, _ := newCaller(t, hook)
	reply, err := c.Call(t.Context(), call.Call{Cause: "Pod shop/w\x00b changed", Body: []byte(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	got := string(reply.Body)
	for _, want := range []string{`"in":{"a":1}`, "SKIFF_HOOK=sync ", "SKIFF_CONTROLLER=web ", "MODE=test ", "LANG=C ",
		`SKIFF_CAUSE=Pod shop/w\u0000b changed`, "PATH="} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "KUBECONFIG") || strings.Contains(got, "GOFLAGS") {
		t.Errorf("the environment of skiff is in %s", got)
	}
	if here, err := os.ReadFile(filepath.Join(hook.Exec.Dir, "here")); err != nil ||
		strings.TrimSpace(string(here)) != hook.Exec.Dir {
		t.Errorf("it runs in %s, %v", here, err)
	}
}

// Rules: HK-41, HK-101
func TestAProgramThatFailsIsNamedWithItsLastLine(t *testing.T) {
	hook := shell(t, spec.Oneshot, `echo first >&2; echo "cannot open x, password=hunter2 $KEY" >&2; exit 3`)
	hook.Exec.Env = map[string]string{"KEY": "swordfish"}
	c, log := newCaller(t, hook)
	err := refused(t, c, "hook sync (sh): exit status 3: cannot open x, password=[redacted] [redacted]")
	if strings.Contains(err.Error(), "first") || !call.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
	if brief := call.Brief(err); brief != "exit status 3" {
		t.Errorf("in brief it is %q", brief)
	}
	if text := strings.Join(log.all(), "\n"); !strings.Contains(text, `"said"="first\n`) ||
		strings.Contains(text, "hunter2") || strings.Contains(text, "swordfish") ||
		!strings.Contains(text, `"controller"="web"`) {
		t.Errorf("log: %s", text)
	}
	c, _ = newCaller(t, shell(t, spec.Oneshot, `yes ab | head -n 300 | tr '\n' ' ' >&2; exit 1`))
	if err := refused(t, c, "exit status 1: ab ab"); len(err.Error()) > 256+100 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	c, _ = newCaller(t, &spec.Hook{Exec: &spec.Exec{Command: []string{"/no/such/program"}, Mode: spec.Oneshot}})
	refused(t, c, "hook sync (/no/such/program): start it: ", "no such file or directory")
	c, _ = newCaller(t, shell(t, spec.Oneshot, `kill -9 $$`))
	refused(t, c, "signal: killed")
}

// Rules: HK-101
func TestAProgramThatPrintsSomethingElseOnStdoutIsToldWhereLogsBelong(t *testing.T) {
	for script, want := range map[string]string{
		`echo debug 1`:                           `"debug 1" on stdout, which is not JSON`,
		`echo "key $KEY"; echo '{"a":1}'`:        `"key [redacted] {\"a\":1}" on stdout, which is not JSON`,
		`echo '{"msg":"hello"}'; echo '{"a":1}'`: `on stdout, which is not JSON`,
		`exit 0`:                                 `nothing on stdout`,
	} {
		hook := shell(t, spec.Oneshot, script)
		hook.Exec.Env = map[string]string{"KEY": "swordfish"}
		c, _ := newCaller(t, hook)
		err := refused(t, c, "hook sync (sh): it printed ", want, "; print ")
		if told := strings.Contains(err.Error(), "; print to stderr"); told != (script != "exit 0") {
			t.Errorf("%s: %v", script, err)
		}
		if call.IsUnavailable(err) { // which would stop the calls for other parents
			t.Errorf("%s: %v counts as an outage", script, err)
		}
	}
}

// Rules: HK-101
func TestAProgramThatExitsWith75IsCalledLater(t *testing.T) {
	for said, want := range map[string]time.Duration{"": time.Second, "busy": time.Second, "12": 12 * time.Second,
		"1e9": time.Hour, "-1": time.Second, "NaN": time.Second} {
		c, _ := newCaller(t, shell(t, spec.Oneshot, `echo "`+said+`" >&2; exit 75`))
		_, err := c.Call(t.Context(), call.Call{Body: []byte(`{}`)})
		var later *call.Later
		if !errors.As(err, &later) || later.After != want {
			t.Errorf("%q: %v, want %s", said, err, want)
		}
	}
}

// Rules: HK-101
func TestAProgramThatHangsIsKilledWithAllThatItStarted(t *testing.T) {
	for _, ignore := range []string{"", "trap '' TERM; "} {
		hook := shell(t, spec.Oneshot, ignore+
			`sleep 1000 & echo $! > child; echo waiting >&2; while :; do sleep 0.1; done`)
		hook.Timeout = time.Second // which is enough to start in
		c, _ := newCaller(t, hook)
		before := time.Now()
		err := refused(t, c, "hook sync (sh): no answer within 1s (answer sooner, or raise "+
			"hooks.sync.exec.timeout): waiting")
		took := time.Since(before)
		if !call.IsUnavailable(err) || (took > 2900*time.Millisecond) != (ignore != "") {
			t.Errorf("after %s: %v", took, err)
		}
		wantEnd(t, filepath.Join(hook.Exec.Dir, "child"))
	}
}

// Rules: HK-101
func TestAProcessThatAProgramLeavesBehindHoldsNoCall(t *testing.T) {
	hook := shell(t, spec.Oneshot, `sleep 1000 & echo $! > child; echo '{"a":1}'`)
	c, _ := newCaller(t, hook)
	if got := ask(t, c, `{}`); string(got.Body) != "{\"a\":1}\n" {
		t.Errorf("got %q", got.Body)
	}
	wantEnd(t, filepath.Join(hook.Exec.Dir, "child"))
}

// Rules: HK-106
func TestWhatAProgramPrintsIsBounded(t *testing.T) {
	c, _ := newCaller(t, shell(t, spec.Oneshot, `exec yes`), func(o *call.Options) { o.MaxAnswer = 1 << 20 })
	refused(t, c, "the answer has more than 1 MiB")
	c, log := newCaller(t, shell(t, spec.Oneshot, `yes | head -c 300000 >&2; echo '{}'`))
	before := time.Now()
	if got := ask(t, c, `{}`); string(got.Body) != "{}\n" {
		t.Errorf("got %q", got.Body)
	}
	n := len(log.all()) + strings.Count(strings.Join(log.all(), " "), `y\n`)
	if most := 101 + int(time.Since(before)/(200*time.Millisecond)); n < 50 || n > most {
		t.Errorf("%d lines are in the log, want 50 to %d", n, most)
	}
	c, log = newCaller(t, shell(t, spec.Oneshot, `head -c 3000000 /dev/zero | tr '\0' x >&2; echo '{}'`))
	ask(t, c, strings.Repeat(" ", 1<<20)+`{}`) // which it does not read
	if lines := log.all(); len(lines) != 1 || len(lines[0]) > 400 {
		t.Errorf("the log has %.500q", lines)
	}
}

// Rules: HK-101
func TestAsManyProgramsRunAtOnceAsThereAreWorkers(t *testing.T) {
	hook := shell(t, spec.Oneshot, `mkdir "run.$$"; ls -d run.* | wc -l; sleep 0.05; rmdir "run.$$"`)
	c, _ := newCaller(t, hook, func(o *call.Options) { o.Workers = 2 })
	var calls sync.WaitGroup
	var mu sync.Mutex
	most := 0
	for range 8 {
		calls.Go(func() {
			reply, err := c.Call(t.Context(), call.Call{Body: []byte(`{}`)})
			n, _ := strconv.Atoi(strings.TrimSpace(string(reply.Body)))
			mu.Lock()
			defer mu.Unlock()
			if most = max(most, n); err != nil || n < 1 {
				t.Errorf("%q, %v", reply.Body, err)
			}
		})
	}
	if calls.Wait(); most > 2 {
		t.Errorf("%d ran at once", most)
	}
}

// Rules: HK-96
func TestTheVersionOfAProgramIsThatOfItsFiles(t *testing.T) {
	hook := shell(t, spec.Oneshot, `echo '{}'`)
	script := hook.Exec.Command[1]
	hook.Exec.Command = []string{"sh", "hook.sh", "-x", "."}
	c, _ := newCaller(t, hook)
	before := ask(t, c, `{}`).Version
	if again := ask(t, c, `{}`).Version; again != before || c.Version() != before || before == "" {
		t.Errorf("version %q and %q", before, again)
	}
	if err := os.WriteFile(script, []byte("echo '{ }'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); c.Version() == before || ask(t, c, `{}`).Version == before; {
		if time.Now().After(deadline) {
			t.Fatal("the change was not seen within ten seconds")
		}
	}
}

// Rules: HK-100
func TestAScriptWithTheLineEndsOfWindowsIsNamed(t *testing.T) {
	for _, mode := range []spec.Mode{spec.Oneshot, spec.Lines} {
		for _, direct := range []bool{true, false} {
			hook := shell(t, mode, "#!/bin/sh\r\nexit 3\r\n")
			script := hook.Exec.Command[1]
			if direct {
				hook.Exec.Command = []string{script}
				if err := os.Chmod(script, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			c, _ := newCaller(t, hook, func(o *call.Options) { o.Workers = 1 })
			for range 2 { // the second call, in lines mode, starts no process
				refused(t, c, "the lines of "+script+" end with CR LF: save it with LF alone")
			}
		}
	}
}

// Rules: HK-101
func TestAProgramRunsAsTheUserThatIsAskedFor(t *testing.T) {
	as := process.ID{UID: 65534, GID: 65533}
	hook := &spec.Hook{Exec: &spec.Exec{Mode: spec.Oneshot, Dir: "/",
		Command: []string{"sh", "-c", `cat > /dev/null; echo "\"$(id -u) $(id -G) $HOME\""`}}}
	c, _ := newCaller(t, hook, func(o *call.Options) { o.RunAs = &as })
	reply, err := c.Call(t.Context(), call.Call{})
	if as.Check() != nil {
		if err == nil || !strings.Contains(err.Error(), "--exec-uid") {
			t.Errorf("not allowed: %v", err)
		}
		return
	}
	if err != nil || string(reply.Body) != "\"65534 65533 \"\n" {
		t.Errorf("%v, %q", err, reply.Body)
	}
}
