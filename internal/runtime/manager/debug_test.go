package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func TestTheDebugPageShowsKeysWithTheirCausesAndWatchesAndNoContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newServer(t)
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client,
			Namespaces: []string{"default"}, LabelSelector: "by=test"})
		c := controller.New("maps", func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
			switch k.Name {
			case "bad":
				return controller.Done, controller.Terminal(errors.New("canary-in-an-error"))
			case "slow":
				<-ctx.Done()
				return controller.Done, ctx.Err()
			}
			return controller.After(time.Hour).Because("canary\x1b[31m"), nil
		}, controller.Options{Workers: 1, ReconcileTimeout: time.Hour}, controller.For(store))
		all := runAll(t, Options{Controllers: []*controller.Controller{c}})
		p := all.debug
		for _, name := range []string{"bad", "later"} {
			create(t, client, configMaps, "default", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": name, "labels": map[string]string{"by": "test"}},
				"data":     map[string]string{"password": "canary-in-an-object"}})
		}
		time.Sleep(time.Second)
		createMap(t, client, "slow")
		time.Sleep(time.Second)
		for i := range 2 * maxDebugKeys {
			createMap(t, client, fmt.Sprintf("many-%03d", i))
		}
		time.Sleep(time.Second)
		code, body := p.get("/debug/controllers")
		expect(t, "code", code, http.StatusOK)
		var page debugPage
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		maps := page.Controllers[0]
		expect(t, "running", maps.Running, 1)
		expect(t, "due", maps.Due, 2*maxDebugKeys)
		expect(t, "first key", maps.Keys[0].Key+" "+maps.Keys[0].Running, "default/slow 2s")
		expect(t, "second key", maps.Keys[1].Key+" "+strings.Join(maps.Keys[1].Causes, ","),
			"default/many-000 ConfigMap default/many-000 ADDED")
		expect(t, "keys", len(maps.Keys)+maps.KeysOmit, 1+2*maxDebugKeys+2)
		expect(t, "shown", len(maps.Keys), maxDebugKeys)
		expect(t, "failing", fmt.Sprintf("%s %v", maps.Failing[0].Key, maps.Failing[0].Stalled), "default/bad true")
		watch := page.Watches[0]
		expect(t, "watch", watch.Resource+" "+watch.Phase+" "+watch.Selector+" "+watch.Namespace,
			"configmaps streaming by=test default")
		if watch.ResumeAt == "" || watch.Age == "" {
			t.Errorf("no resume point or age in %+v", watch)
		}
		if strings.Contains(body, "canary-in") || strings.Contains(body, "\x1b") {
			t.Errorf("the page has contents of objects, errors or control characters: %s", body)
		}
		code, _ = p.get("/debug/pprof/heap")
		expect(t, "heap profile", code, http.StatusOK)
		code, _ = p.get("/debug/pprof/cmdline") // which may have a token
		expect(t, "command line", code, http.StatusNotFound)
		go func() { expectNoError(t, all.stop()) }()
		time.Sleep(controller.DrainTimeout)
		synctest.Wait()
	})
}

// A healthy watch is renewed every ten minutes, a server that refuses is no reason to restart, one that has gone is.
func TestLivezWatchFailsWhenAWatchIsSilentForHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		defer api.Close()
		pipe := api.ListenPipe()
		defer pipe.Close()
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		var j journal
		p, stop := run(t, Options{Controllers: []*controller.Controller{
			j.noting("webserver", client, webServers), // not installed
			j.noting("maps", client, configMaps),
		}})
		probe := func(after time.Duration, want int) string {
			t.Helper()
			time.Sleep(after)
			code, body := p.get("/livez/watch")
			expect(t, fmt.Sprintf("/livez/watch %s later: %s", after, body), code, want)
			return body
		}
		probe(0, 200)
		for range 12 {
			probe(20*time.Minute, 200)
		}
		pipe.Blackhole(true)
		probe(15*time.Minute, 200)
		expectText(t, "/livez/watch", probe(30*time.Minute, 503), "livez watch check failed",
			"no event, bookmark or renewal within 30m0s: ", "configmaps in default for ")
		code, _ := p.get("/healthz")
		expect(t, "/healthz", code, 200)
		code, body := p.get("/livez?exclude=watch")
		expect(t, "/livez without it "+body, code, 200)
		pipe.Blackhole(false)
		probe(5*time.Minute, 200)
		expect(t, "stop", stop(), nil)
	})
}
