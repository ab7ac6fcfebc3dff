package manager

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Rules: MGR-08
func TestProbesQuoteErrorsToThisMachineOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newServer(t)
		createMap(t, client, "one")
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client, LabelSelector: "by=test"})
		failing := controller.New("maps", func(context.Context, kube.Key) (controller.Outcome, error) {
			return controller.Done, controller.TerminalFor("InvalidSpec", errors.New(`invalid value "hush"`))
		}, controller.Options{}, controller.For(store))
		p, stop := run(t, Options{Client: client, Controllers: []*controller.Controller{failing,
			downController(t, "down")}, Attention: func() []health.Problem {
			return []health.Problem{{Public: "a hook fails", Quoted: "it says hush"}}
		}})
		time.Sleep(time.Minute)
		ask := func(host, query string) string {
			at := "http://" + host + "/readyz?" + query
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := p.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return string(body)
		}
		here, elsewhere := ask("127.0.0.1:8081", "verbose"), ask("10.0.0.7:8081", "verbose")
		expectText(t, "here", here, `"hush"`, "(it says hush)", "connection refused")
		expectText(t, "elsewhere", elsewhere, "! refused: default/one, once: InvalidSpec for ", "! a hook fails\n",
			hiddenNote,
			"[-]down failed: the API server cannot be reached; ")
		asJSON := ask("10.0.0.7:8081", "format=json")
		var report health.Report
		if err := json.Unmarshal([]byte(asJSON), &report); err != nil || report.Format != health.Format ||
			report.Passed || len(report.Checks) != 3 || report.Problems() != 4 {
			t.Errorf("%v, as JSON: %s", err, asJSON)
		}
		expectText(t, "as JSON, here", ask("127.0.0.1:8081", "format=json"), `"quoted":"invalid value \"hush\""`)
		for _, text := range []string{elsewhere, asJSON, ask("skiff.example:8081", "verbose")} {
			if strings.Contains(text, "hush") || strings.Contains(text, "refused)") {
				t.Errorf("it quotes an error:\n%s", text)
			}
		}
		expect(t, "stop", stop(), nil)
	})
	for from, want := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "[::ffff:127.0.0.1]:5": true,
		"10.0.0.1:5": false, "[fe80::1]:5": false} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil)
		if r.RemoteAddr = from; isLocal(r) != want {
			t.Errorf("a request from %s is local: %v", from, !want)
		}
	}
}
