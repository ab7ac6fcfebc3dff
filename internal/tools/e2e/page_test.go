package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/runtime/page"
)

// pageToken is what readers of the page need.
const pageToken = canary + "-page"

// content is in objects, and may be in the log where a server refuses one and says why, but on no page.
const content = "content-4e7a10"

// pageReader reads the live page of a process.
type pageReader struct {
	*testing.T
	skiff           *Skiff
	binary, address string // of skiff, and of the page
	token           string // a file; "": the page needs none
}

// startPage runs skiff with its live page as the administrator, on a server.
func startPage(t *testing.T, c *Cluster, kubeconfig, token string, args ...string) pageReader {
	t.Helper()
	p := pageReader{T: t, binary: must(skiffBinary())(t), address: loopback(must(freePort())(t)), token: token}
	args = append([]string{"run", "--controllers", "webserver", "--debug-bind-address", p.address}, args...)
	if token != "" {
		args = append(args, "--debug-token-file", token)
	}
	p.skiff = must(c.StartSkiffCommand(p.binary, "skiff-page", kubeconfig, args...))(t)
	t.Cleanup(func() {
		if !p.skiff.Exited() {
			if err := p.skiff.Terminate(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Log(p.skiff.Tail(40))
		}
	})
	waitReady(t, p.skiff)
	return p
}

// get returns an answer of the page.
func (p pageReader) get(path string) string {
	p.Helper()
	req := must(http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.address+path, nil))(p.T)
	if p.token != "" {
		req.SetBasicAuth("reader", pageToken)
	}
	client := http.Client{Timeout: 10 * time.Second}
	resp := must(client.Do(req))(p.T)
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(p.T)
	if resp.StatusCode != http.StatusOK {
		p.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	return string(body)
}

func (p pageReader) state() (s page.State) {
	p.Helper()
	noError(p.T, json.Unmarshal([]byte(p.get("/debug/state?format=json")), &s))
	return s
}

// status runs skiff status on the page.
func (p pageReader) status(args ...string) Result {
	p.Helper()
	argv := append([]string{p.binary, "status", "--debug-bind-address", p.address}, args...)
	if p.token != "" {
		argv = append(argv, "--debug-token-file", p.token)
	}
	return must(runCommand(p.Context(), []string{"KUBECONFIG=", "HOME=" + p.TempDir()}, "", argv...))(p.T)
}

// everything is what all endpoints and skiff status say.
func (p pageReader) everything(objects ...string) map[string]string {
	p.Helper()
	all := map[string]string{"status": p.status().String(), "status -o json": p.status("-o", "json").String()}
	paths := []string{"/debug/", "/debug/state", "/debug/owners", "/debug/timeline", "/debug/queue", "/debug/watches"}
	for _, name := range objects {
		paths = append(paths, "/debug/object/WebServer/"+name)
	}
	for _, path := range paths {
		all[path], all[path+" as JSON"] = p.get(path), p.get(path+"?format=json")
	}
	return all
}

// wellWithin waits until nothing needs attention.
func (p pageReader) wellWithin(d time.Duration) {
	p.Helper()
	Eventually(p, d, "all is well", func() (bool, string) {
		s := p.state()
		return s.Banner.Well && len(s.Attention) == 0, fmt.Sprintf("%+v", s)
	})
}

// Each way in which a WebServer breaks on a real server is there within two seconds, and goes when it is mended. What
// is in the objects and in the answers of the server is in no answer, but for readers with the token the error.
//
// Rules: LP-02, LP-05, LP-08, LP-10, LP-11, LP-23, LP-28
func TestTheLivePageShowsWhatBreaksOnARealServerAndNoContentOfIt(t *testing.T) {
	s := newScope(t)
	token := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(token, []byte(pageToken), 0o600))
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	election := []string{"--watch-namespaces", s.NS, "--leader-elect", "--leader-election-namespace", s.NS}
	leader := startPage(t, s.c, kubeconfig, "", election...)
	Eventually(t, limit, "the first one leads", func() (bool, string) {
		state := leader.state()
		return !state.Standby && strings.HasPrefix(state.Leader, "this process leads"), fmt.Sprintf("%+v", state)
	})
	standby := startPage(t, s.c, kubeconfig, token, election...)
	leader.wellWithin(limit)
	Eventually(t, limit, "the standby knows who leads", func() (bool, string) {
		state := standby.state()
		return state.Standby && strings.Contains(state.Leader, "; the leader is "), fmt.Sprintf("%+v", state)
	})
	r := standby.status()
	said := strings.Join(strings.Fields(r.Stdout), " ") // where a line ends depends on the length of the port
	if r.Code != 0 || !strings.Contains(said, "this process stands by; ") {
		t.Errorf("skiff status of the standby: %s", r)
	}

	env := `env: [{name: PASSWORD, value: ` + content + `-env}]`
	s.Kubectl("create", "secret", "generic", "hidden", "--from-literal=password="+content+"-secret")
	s.Kubectl("create", "deployment", "taken", "--image="+content+".example.com/image")
	for _, test := range []struct {
		name, state, reason string
		broken, mended      string // the spec
	}{
		{"refused", "stalled", "TemplateRefused", `image: "nginx:1", template: {spec: {hostNetwork: true, containers: ` +
			`[{name: webserver, ` + env + `}]}}`, `image: "nginx:1"`},
		{"invalid", "stalled", "DeploymentRefused", `image: "nginx:1", template: {spec: {containers: [{name: webserver, ` +
			`terminationMessagePolicy: ` + content + `, ` + env + `}]}}`, `image: "nginx:1"`},
		{"taken", "degraded", "NameTaken", `image: "nginx:1"`, ""}, // looked at again each minute: it is deleted instead
	} {
		s.Apply(WebServerManifest(test.name, test.broken))
		began := time.Now()
		var found page.Trouble
		Eventually(t, limit, test.name+" needs attention", func() (bool, string) {
			state := leader.state()
			i := slices.IndexFunc(state.Attention, func(one page.Trouble) bool { return one.Name == test.name })
			if i >= 0 {
				found = state.Attention[i]
			}
			return i >= 0, fmt.Sprintf("%+v", state)
		})
		t.Logf("%s: there after %s: %+v", test.name, time.Since(began).Round(time.Millisecond), found)
		if found.State != test.state || found.Reason != test.reason || found.Message+found.Step == "" ||
			found.Since.IsZero() ||
			found.Command != "kubectl describe webservers.skiff.dev "+test.name+" -n "+s.NS {
			t.Errorf("%s: attention is for %+v", test.name, found)
		}
		line := "WebServer " + s.NS + "/" + test.name + ", " + test.reason
		if r := leader.status(); r.Code != 3 || !strings.Contains(r.Stdout, line) {
			t.Errorf("skiff status: %s", r)
		}
		if r := s.TryKubectl(strings.Fields(found.Command)[1:]...); r.Code != 0 {
			t.Errorf("%s: %s", found.Command, r)
		}
		for _, p := range []pageReader{leader, standby} {
			for where, text := range p.everything(s.NS + "/" + test.name) {
				// The text of an error quotes the template, for readers with the token alone.
				quoted := p.token != "" && strings.Contains(text, content) && !strings.Contains(text, content+"-")
				if strings.Contains(text, content) && !quoted {
					t.Errorf("%s: a canary is in %s: %s", test.name, where, text)
				}
			}
		}
		if test.mended == "" {
			s.Kubectl("delete", "webserver", test.name)
		} else {
			s.Apply(WebServerManifest(test.name, test.mended))
		}
		leader.wellWithin(limit)
	}
}

// Rules: LP-10, LP-28
func TestTheLivePageSaysThatTheServerIsFrozen(t *testing.T) {
	s := newScope(t)
	proxy := must(StartTCPProxy(strings.TrimPrefix(s.c.Server, "https://")))(t)
	t.Cleanup(proxy.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	noError(t, Kubeconfig{Server: "https://" + proxy.Addr, CAFile: s.c.CAFile, Token: admin.Token}.Write(path))
	p := startPage(t, s.c, path, "", "--watch-namespaces", s.NS)
	p.wellWithin(limit)
	proxy.Freeze()
	thaw := sync.OnceFunc(proxy.Thaw)
	t.Cleanup(thaw) // a frozen one cannot be closed
	frozen := time.Now()
	// The manager's tests hold 30 s, where no other program takes time from skiff; here it takes about 25 s.
	Eventually(t, limit, "the page says that nothing answers", func() (bool, string) {
		state := p.state()
		return strings.Contains(state.Banner.Text, "; first: skiff, no answer from https://"+proxy.Addr),
			fmt.Sprintf("%+v", state)
	})
	t.Logf("said after %s", time.Since(frozen).Round(time.Second))
	if r := p.status(); r.Code != 3 || !strings.Contains(r.Stdout, "✖ process  skiff, NoAnswer, ") {
		t.Errorf("skiff status: %s", r)
	}
	thaw()
	p.wellWithin(limit)
}

// Rules: LP-09
func TestWhatALyingServerSaysIsNoHTMLOnTheLivePage(t *testing.T) {
	const evil = `<img src=x onerror=alert(1)>`
	h := must(StartHostile(attack{on: "webservers", list: func(a *assault) {
		a.pages(func(i int) string {
			if i == 3 { // a name that cannot be in a path is not read at all
				return item(evil, i+1, "")
			}
			return item(fmt.Sprint("web-", i), i+1, `,"spec":{"image":"nginx:1","template":{"spec":{"hostNetwork":true}}},`+
				`"status":{"conditions":[{"type":"Stalled","status":"True","reason":"`+evil+`"},{"type":"`+evil+
				`","status":"`+evil+`","reason":"x"}]}`)
		}, 4)
	}, watch: func(a *assault) { a.rests(time.Minute) }}, t.TempDir()))(t)
	t.Cleanup(func() { h.Calm(); h.Close() })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	noError(t, Kubeconfig{Server: h.Server, CAFile: h.CAFile, Token: admin.Token}.Write(path))
	c := must(sharedCluster())(t) // for its directory of logs
	p := startPage(t, c, path, "")
	Eventually(t, limit, "the objects are there", func() (bool, string) {
		state := p.state()
		return state.Owners == 3 && len(state.Attention) == 4 && state.Attention[0].Reason == "NotRead" &&
				state.Attention[1].Reason == evil,
			fmt.Sprintf("%+v", state)
	})
	for where, text := range p.everything() {
		if strings.Contains(text, "<img") && !strings.HasSuffix(where, "JSON") && !strings.HasPrefix(where, "status") {
			t.Errorf("it is HTML in %s: %s", where, text)
		}
	}
}
