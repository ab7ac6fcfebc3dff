package kubeconfig

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// execUser is a user whose plugin is a shell script, with more fields of exec.
func (b *box) execUser(script, more string) string {
	path := b.write("plugin.sh", "echo run >> "+b.path("runs")+"\n"+script)
	return "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: " +
		"[" + path + "]" + more + "}"
}

// runs is how often the script has run.
func (b *box) runs() int {
	data, err := os.ReadFile(b.path("runs"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return strings.Count(string(data), "run")
}

// says is a script that prints an ExecCredential with this status.
func says(status string) string {
	return `printf '%s\n' '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{` +
		status + "}}'\n"
}

func (b *box) loadUser(user string) (kube.Config, error) {
	b.t.Helper()
	cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", config("c", "https://h", user))})
	return cfg, err
}

// plugin loads a user whose plugin is this script.
func (b *box) plugin(script, more string) *plugin {
	b.t.Helper()
	cfg, err := b.loadUser(b.execUser(script, more))
	if err != nil {
		b.t.Fatal(err)
	}
	return cfg.Credentials.(*plugin)
}

// Rules: AUTH-14
func TestAPluginIsToldWhatTheKubeconfigSays(t *testing.T) {
	b := newBox(t)
	ca := newCA(t, "ca")
	b.write("ca.crt", string(ca.pem))
	t.Setenv("INHERITED", "from the process")
	b.write("bin/plugin", "#!/bin/sh\n"+
		`printf '%s\n' "$1" "$2" "$A" "$INHERITED" "$KUBERNETES_EXEC_INFO" > `+b.path("seen")+
		"\ncat >> "+b.path("seen")+"\n"+says(`"token":"t"`))
	if err := os.Chmod(b.path("bin/plugin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ provide, spec string }{
		{"", `{"interactive":false}`},
		{", provideClusterInfo: true", `{"cluster":{"server":"https://h/p","tls-server-name":"n",` +
			`"certificate-authority-data":"` + b64(ca.pem) + `","proxy-url":"http://u:p@proxy","config":{"audience":"a","n":[1]}},"interactive":false}`},
	} {
		text := strings.Replace(config("c", "https://h/p/", "exec: {apiVersion: client.authentication.k8s.io/v1, "+
			"interactiveMode: IfAvailable, "+
			`command: bin/plugin, args: [one, "$A; two"], env: [{name: A, value: set}]`+tt.provide+"}"), "server:",
			`tls-server-name: n
    certificate-authority: ca.crt
    proxy-url: http://u:p@proxy
    extensions:
    - {name: other, extension: {x: y}}
    - {name: client.authentication.k8s.io/exec, extension: {audience: a, n: [1]}}
    server:`, 1)
		cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
		if err != nil {
			t.Fatal(err)
		}
		if got := header(t, cfg); got != "Bearer t" {
			t.Errorf("header %q", got)
		}
		seen, err := os.ReadFile(b.path("seen"))
		want := "one\n$A; two\nset\nfrom the process\n" +
			`{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":` + tt.spec + "}\n"
		if err != nil || string(seen) != want {
			t.Errorf("error %v, the plugin saw\n%s\nwant\n%s", err, seen, want)
		}
	}
}

// Rules: AUTH-14, AUTH-17
func TestAPluginThatCannotRunIsAnErrorBeforeItRuns(t *testing.T) {
	const v1 = "apiVersion: client.authentication.k8s.io/v1, "
	for _, tt := range []struct{ exec, say string }{
		{"{command: sh}", "apiVersion is missing: want client.authentication.k8s.io/v1 or " +
			"client.authentication.k8s.io/v1beta1"},
		{"{apiVersion: client.authentication.k8s.io/v1alpha1, command: sh}",
			`apiVersion "client.authentication.k8s.io/v1alpha1": ` +
				"want client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1; a newer version of " +
				"the plugin may write that"},
		{"{" + v1 + "interactiveMode: Never}", "command is missing"},
		{"{" + v1 + "command: sh}", "interactiveMode is missing: want Never or IfAvailable"},
		{"{" + v1 + "command: sh, interactiveMode: Sometimes}", `interactiveMode "Sometimes": want Never, IfAvailable or ` +
			`Always`},
		{"{" + v1 + "command: sh, interactiveMode: Always}", "interactiveMode is Always, but skiff gives plugins no " +
			"terminal: " +
			"log in beforehand and set IfAvailable, or use another credential"},
		{"{" + v1 + "command: sh, interactiveMode: Never, env: [{name: A=B, value: c}]}",
			`env: "A=B" is not the name of an environment variable`},
		{"{" + v1 + "command: no-such-plugin, interactiveMode: Never}",
			"find command no-such-plugin: executable file not found in $PATH; " +
				"install it, or give the full path as the command"},
		{"{" + v1 + `command: no-such-plugin, interactiveMode: Never, installHint: "Get it\n\n  from X."}`,
			"find command no-such-plugin: executable file not found in $PATH; Get it from X."},
	} {
		b := newBox(t)
		_, err := b.loadUser("exec: " + tt.exec)
		wantMessage(t, err, b.path("config")+`:13: user "c": exec: `+tt.say)
	}
	b := newBox(t)
	if _, err := b.loadUser("exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: sh}"); err != nil {
		t.Errorf("v1beta1 needs no interactiveMode: %v", err)
	}
	if _, err := b.loadUser("exec: null"); err != nil {
		t.Errorf("exec: null is no exec: %v", err)
	}
	_, err := b.loadUser("exec: {" + v1 + "interactiveMode: Never, command: ./missing}")
	wantMessage(t, err, b.path("config")+`:13: user "c": exec: find command `+b.path("missing")+
		": no such file or directory; install it, or give the full path as the command")
}

// Rules: AUTH-14
func TestWhatAPluginDoesWrongIsSaidWithoutWhatItPrinted(t *testing.T) {
	const canary = "canary-Zq7"
	id, other := newCA(t, "ca").issue("one"), newCA(t, "ca").issue("two")
	pem := func(field string, data []byte) string {
		return `"` + field + `":"` + strings.ReplaceAll(string(data), "\n", `\n`) + `"`
	}
	for name, tt := range map[string]struct{ script, say string }{
		"fails":          {"echo " + canary + "; exit 3", "exit status 3; its messages are in the log"},
		"killed":         {"kill -9 $$", "signal: killed; its messages are in the log"},
		"prints nothing": {"exit 0", "it printed nothing: want an ExecCredential as JSON"},
		"prints garbage": {"echo " + canary, "it printed no ExecCredential: want one as JSON"},
		"prints HTML":    {"echo '<html>" + canary + "'", "it printed no ExecCredential: want one as JSON"},
		"prints two values": {says(`"token":"`+canary+`"`) + says(`"token":"b"`), "it printed no ExecCredential: want " +
			"one as JSON"},
		"wrong type":  {says(`"token":["` + canary + `"]`), "it printed no ExecCredential: want one as JSON"},
		"without end": {"yes " + canary, "it printed more than 1048576 bytes"},
		"another version": {`echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential",` +
			`"status":{"token":"` + canary + `"}}'`,
			`it printed apiVersion "client.authentication.k8s.io/v1beta1", kind "ExecCredential": ` +
				"want client.authentication.k8s.io/v1, ExecCredential, as the kubeconfig says"},
		"another kind": {`echo '{"apiVersion":"v1","kind":"Secret"}'`,
			`it printed apiVersion "v1", kind "Secret": want client.authentication.k8s.io/v1, ExecCredential, as the ` +
				`kubeconfig says`},
		"no status": {`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}'`,
			"it printed an ExecCredential without a status"},
		"empty status": {says(""), "it printed an ExecCredential with neither a token nor a client certificate"},
		"half a pair": {says(pem("clientCertificateData", id.cert)),
			"it printed a client certificate without its key"},
		"the other half": {says(pem("clientKeyData", id.key)), "it printed a client key without its certificate"},
		"no pair": {says(pem("clientCertificateData", id.cert) + "," + pem("clientKeyData", other.key)),
			"it printed a client certificate that cannot be used: tls: private key does not match public key"},
		"broken token": {says(`"token":"` + canary + `\n"`), "it printed a token with white space or characters that a " +
			"header cannot carry"},
		"broken time": {says(`"token":"` + canary + `","expirationTimestamp":"soon"`),
			"it printed an expirationTimestamp that is not a time (RFC 3339)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			_, err := b.plugin(tt.script, "").Authorization(t.Context())
			wantMessage(t, err, b.path("config")+`:13: user "c": exec: the credential plugin failed: run sh: `+tt.say)
		})
	}
	b := newBox(t)
	_, err := b.plugin(says(`"token":"`+canary+`","expirationTimestamp":"2020-01-02T03:04:05Z"`),
		"").Authorization(t.Context())
	wantError(t, err, "run sh: it printed a credential that expired at 2020-01-02T03:04:05Z, and it is "+
		time.Now().UTC().Format("2006-01-02T"), ": log in again, or correct the clock")
}

// Rules: AUTH-14
func TestWhatAPluginSaysOnStandardErrorBecomesWarnings(t *testing.T) {
	b := newBox(t)
	p := b.plugin("printf 'one\\n\\033two\\r\\n\\nthree' >&2; "+says(`"token":"t"`), "")
	if _, err := p.Authorization(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, text := range []string{"one", "two", "three"} {
		want = append(want, b.path("config")+`:13: user "c": exec: sh says: `+text)
	}
	if fmt.Sprint(b.warnings) != fmt.Sprint(want) {
		t.Errorf("warnings %q\nwant     %q", b.warnings, want)
	}
	b = newBox(t)
	p = b.plugin("yes | head -c 100000 >&2; exit 1", "")
	if _, err := p.Authorization(t.Context()); err == nil ||
		len(strings.Join(b.warnings, "")) > 300*maxExecMessage/2 || len(b.warnings) > maxExecMessage {
		t.Errorf("%d warnings, error %v", len(b.warnings), err)
	}
}

// Rules: AUTH-18
func TestAPluginBesideAnotherCredentialNeverRuns(t *testing.T) {
	id := newCA(t, "ca").issue("someone")
	for _, other := range []string{"token: t", "username: u, password: p", "client-certificate-data: " + b64(id.cert) +
		", client-key-data: " + b64(id.key)} {
		b := newBox(t)
		cfg, err := b.loadUser(other + ", " + b.execUser(says(`"token":"plugin"`), ""))
		if err != nil || header(t, cfg) == "Bearer plugin" || b.runs() != 0 {
			t.Errorf("%s: error %v, %d runs", other[:5], err, b.runs())
		}
	}
}

// Rules: AUTH-15
func TestAPluginThatHangsIsKilledAndRequestsDoNotWaitForIt(t *testing.T) {
	b := newBox(t)
	p := b.plugin("sleep 1000 & echo $! > "+b.path("child")+"; wait", "")
	p.timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Authorization(ctx)
	wantMessage(t, err, b.path("config")+`:13: user "c": exec: wait for sh: context deadline exceeded`)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := p.Authorization(t.Context())
			wantMessage(t, err, b.path("config")+`:13: user "c": exec: the credential plugin failed: run sh: no credential within 2s: killed`)
		})
	}
	wg.Wait()
	if b.runs() != 1 {
		t.Errorf("51 requests started %d processes", b.runs())
	}
	b.wantEnd()
}

func TestAProcessThatAPluginLeavesBehindIsKilled(t *testing.T) {
	b := newBox(t)
	p := b.plugin("sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > "+b.path("child")+"; "+says(`"token":"t"`), "")
	if got, err := p.Authorization(t.Context()); err != nil || got != "Bearer t" {
		t.Fatalf("%q, %v", got, err)
	}
	b.wantEnd()
}

func TestWhatAPluginSaysHasNoTokensInIt(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ." +
		"eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r5wW1gFWFOEjXk0"
	b := newBox(t)
	_, err := b.plugin("echo token "+jwt+" >&2; exit 1", "").Authorization(t.Context())
	if err == nil || len(b.warnings) != 1 ||
		!strings.HasSuffix(b.warnings[0], "says: token [redacted].[redacted].[redacted]") {
		t.Errorf("error %v, warnings %q", err, b.warnings)
	}
}

func TestAShortSecretThatAPluginIsGivenByNameIsNotLoggedEither(t *testing.T) {
	var c execConfig
	if err := yaml.Unmarshal([]byte(`{command: x, args: [login, --password=horse, --token, t0ken, --force=true, dev],
  env: [{name: MY_SECRET, value: battery}, {name: REGION, value: north}]}`), &c); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"horse is wrong, and so are t0ken and battery": "[redacted] is wrong, and so are [redacted] and [redacted]",
		"login in north of dev: true":                  "login in north of dev: true",
	} {
		if got := process.Redact(line, c.secrets()); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

// wantEnd waits until the process whose ID is in the file `child` has ended.
func (b *box) wantEnd() {
	b.t.Helper()
	child, err := os.ReadFile(b.path("child"))
	if err != nil {
		b.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(b.t, strings.TrimSpace(string(child))); {
		if time.Now().After(deadline) {
			b.t.Fatalf("process %s, which the plugin started, is still there", child)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// alive says whether a process runs; one that has ended and waits for its parent does not count.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if os.IsNotExist(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return !strings.Contains(string(stat), ") Z ")
}
