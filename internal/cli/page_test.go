package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"skiff/internal/runtime/page"
	"skiff/internal/testcluster/apiserver"
)

// pageURL is the line of the log that says where the live page is.
var pageURL = regexp.MustCompile(`msg="serving the live page" url=(\S+)`)

// browse returns an answer of the live page. token is the password; "": none is sent.
func browse(t *testing.T, url, token string) (code int, body string) {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	if token != "" {
		req.SetBasicAuth("reader", token)
	}
	resp := must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must(io.ReadAll(resp.Body))(t))
}

// Rules: LP-01, LP-08, LP-14, LP-16, LP-17, LP-23
func TestTheLivePageShowsABrokenWebServerUntilItIsCorrectedAndNoContentOfIt(t *testing.T) {
	const canary = "canary-in-a-template"
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	token := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(token, []byte("hush\n"), 0o600))
	for _, password := range []string{"", "hush"} {
		name := "web" + password // nothing collects the children of the first one here
		args := []string{"run", "--server", c.url(), "--health-probe-bind-address", "127.0.0.1:0",
			"--debug-bind-address", "127.0.0.1:0"}
		if password != "" {
			args = append(args, "--debug-token-file", token)
		}
		running := program.Follow(t, args...)
		var url string
		running.Await("the URL", func() bool {
			if m := pageURL.FindStringSubmatch(running.Stderr.String()); m != nil {
				url = m[1]
			}
			return url != ""
		})
		shows := func(what string, shown func(page.State) bool) {
			t.Helper()
			running.Await(what, func() bool {
				var s page.State
				_, body := browse(t, url+"state?format=json", password)
				return json.Unmarshal([]byte(body), &s) == nil && shown(s)
			})
		}
		c.create(webServers, "default", object{"metadata": object{"name": name}, "spec": object{"image": "nginx:1",
			"template": object{"spec": object{"hostNetwork": true, "containers": []any{object{"name": "webserver",
				"env": []any{object{"name": "PASSWORD", "value": canary}}}}}}}})
		shows("it is stalled", func(s page.State) bool {
			return !s.Banner.Well && len(s.Attention) == 1 && s.Attention[0].Reason == "TemplateRefused"
		})
		for _, panel := range []string{"", "state", "owners", "timeline", "queue", "watches",
			"object/WebServer/default/" + name} {
			for _, format := range []string{"", "?format=json"} {
				code, body := browse(t, url+panel+format, password)
				if code != http.StatusOK || strings.Contains(body, canary) {
					t.Errorf("%s%s: %d %s", panel, format, code, body)
				}
			}
		}
		_, timeline := browse(t, url+"timeline?format=json", password)
		if got := strings.Contains(timeline, "hostNetwork must be false"); got != (password != "") {
			t.Errorf("with the token %q, the text of the error is shown: %v", password, got)
		}
		if code, _ := browse(t, url, "wrong"); (code == http.StatusOK) != (password == "") {
			t.Errorf("with another token: %d", code)
		}
		c.patch(webServers, "default", name, object{"spec": object{"template": nil}})
		shows("all is well", func(s page.State) bool { return s.Banner.Well && s.Owners == 1 })
		c.delete(webServers, "default", name)
		running.Stop()
	}
}

// Rules: LP-01, LP-04, LP-23
func TestTheLivePageIsOffAndIsNotShownToOthersWithoutAToken(t *testing.T) {
	if flag := newRun().Flags().Lookup("debug-bind-address"); flag.DefValue != "0" {
		t.Errorf("the default is %s", flag.DefValue)
	}
	for _, off := range []string{"", "0"} {
		if f := (servingFlags{page: off}); f.history() != nil {
			t.Errorf("with %q, runs are remembered for nothing", off)
		}
	}
	for _, address := range []string{"0.0.0.0:8082", "[::]:8082", "skiff.example.com:8082", "10.0.0.1:0"} {
		r := skiff(t, "run", "--server", "http://127.0.0.1:1", "--debug-bind-address", address)
		if r.Code != ExitUsage || !strings.Contains(r.Stderr, "give --debug-token-file, or a loopback address") {
			t.Errorf("%s: %+v", address, r)
		}
	}
}
