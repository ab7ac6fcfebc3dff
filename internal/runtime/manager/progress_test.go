package manager

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/testcluster/apiserver"
)

// working returns a controller of config maps with a Func.
func working(client *kube.Client, elected bool, f controller.Func) *controller.Controller {
	store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client, LabelSelector: "by=test"})
	return controller.New("things", f, controller.Options{Elected: elected, Workers: 2}, controller.For(store))
}

func TestWorkersThatAreStuckAreSaidAndAnotherReplicaTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		release := make(chan struct{})
		a := startReplicaWith(t, api, "a", func(r *replica, o *Options) {
			o.PageAddr = "page"
			o.Controllers = []*controller.Controller{working(r.client.Guard(r.elector.Held), true,
				func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
					<-release // whatever ctx says
					return controller.Done, nil
				})}
		})
		time.Sleep(time.Second)
		b := startReplica(t, api, "b")
		for i := range 8 {
			createMap(t, client, fmt.Sprint("map-", i))
		}
		began := time.Now()
		time.Sleep(110 * time.Second)
		code, body := a.get("/livez")
		expect(t, "/livez before two minutes "+body, code, 200)
		time.Sleep(20 * time.Second)
		code, body = a.get("/livez/workers")
		expect(t, "/livez/workers", code, 503)
		code, _ = a.get("/livez")
		expect(t, "/livez", code, 503)
		const said = "controller things: 6 keys are due, and its workers have made no progress"
		expectText(t, "/livez/workers", body, "[-]workers failed: "+said+" for 2m")
		_, body = a.get("/readyz?verbose")
		expectText(t, "status", body, "\n    ! "+said+" for 2m")
		s := stateOf(t, a.page)
		if s.Banner.Well || len(s.Attention) != 1 || s.Attention[0].Reason != "WorkersStuck" ||
			!strings.HasPrefix(s.Attention[0].Message, said) || !strings.Contains(s.Banner.Text, said) ||
			s.Attention[0].Since.Sub(began).Abs() > 10*time.Second {
			t.Errorf("the page says %+v, %+v", s.Banner, s.Attention)
		}
		_, body = a.metrics.get("/metrics")
		expectText(t, "/metrics", body, "\nskiff_no_progress_seconds{controller=\"things\"} 1")
		if a.elector.Held() == nil {
			t.Error("what is stuck could write")
		}
		time.Sleep(leader.DefaultLeaseDuration + 5*time.Second)
		expect(t, "written by", writer(api, "map-7"), any("b"))

		close(release)
		time.Sleep(time.Minute)
		code, body = a.get("/livez")
		expect(t, "/livez when the workers are back "+body, code, 200)
		expect(t, "stop", a.stop(), nil)
		expect(t, "stop", b.stop(), nil)
	})
}

// It must not restart where that does not help, and not for work that takes its time.
func TestWhatOnlyTakesItsTimeIsNotStuck(t *testing.T) {
	for name, test := range map[string]struct {
		run   func(ctx context.Context) error // of each key
		maps  int
		sever func(api *apiserver.Server)
	}{
		"nothing is due":       {run: func(context.Context) error { return nil }, maps: 3},
		"nothing but one runs": {run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, maps: 1},
		"each run takes all its time": {maps: 50,
			run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		"the server does not answer": {maps: 50,
			run:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			sever: func(api *apiserver.Server) { api.Inject(apiserver.Fault{Cut: apiserver.Blackhole}) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, client := newServer(t)
				p, stop := run(t, Options{Client: client, Controllers: []*controller.Controller{working(client, false,
					func(ctx context.Context, _ kube.Key) (controller.Outcome, error) {
						return controller.Done, test.run(ctx)
					})}})
				for i := range test.maps {
					createMap(t, client, fmt.Sprint("map-", i))
				}
				time.Sleep(time.Second)
				if test.sever != nil {
					test.sever(api)
				}
				for range 40 {
					time.Sleep(30 * time.Second)
					if code, body := p.get("/livez/workers"); code != 200 {
						t.Fatalf("/livez/workers: %d %s", code, body)
					}
				}
				_ = stop()
			})
		})
	}
}
