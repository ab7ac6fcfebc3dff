package controller

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// A Func learns of a kind, reads it as soon as it is listed, and hears of its changes until it detaches it.
func TestAFuncAttachesAMirrorAndDetachesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createIn("default", secrets, "p")
		attached := cache.New[*configMap](cache.Options{Resource: secrets, Client: w.skiff})
		var c *Controller
		var mu sync.Mutex // guards what follows
		var causes []string
		var detach func()
		seen := -1
		c = New("test", func(_ context.Context, k kube.Key) (Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			if detach == nil {
				detach = c.Attach(Watches(attached, func(*configMap) []kube.Key { return []kube.Key{k} }),
					func() []kube.Key { return []kube.Key{k} })
			}
			all, err := attached.List("")
			if cache.Unserved(err, cache.NotSynced) != nil {
				return Done, nil
			}
			seen = len(all)
			return Done, err
		}, Options{}, Once(key("a")))
		stop := run(t, c)
		look := func() int {
			time.Sleep(time.Second)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return seen
		}
		expect(t, "listed", look(), 1)
		w.createIn("default", secrets, "q")
		expect(t, "followed", look(), 2)
		for cause := range c.Stats().Causes {
			causes = append(causes, cause)
		}
		if len(causes) < 2 {
			t.Errorf("causes %q", causes)
		}
		if text := status(c); !strings.Contains(text, "secrets: streaming, 2 objects") {
			t.Errorf("the status does not name the mirror:\n%s", text)
		}
		expect(t, "watches", len(WatchStates(c)), 1)
		expect(t, "ready", c.Ready(), nil)
		detach()
		expect(t, "watches", len(WatchStates(c)), 0)
		expect(t, "runs on", attached.Serves(""), false)
		w.createIn("default", secrets, "r")
		expect(t, "not followed", look(), 2)
		detach = nil
		c.queue.Add(key("a"), "changed")
		expect(t, "attached again", look(), 3)
		expect(t, "stop", stop(), nil)
		expect(t, "runs after the end", attached.Serves(""), false)
	})
}

// The writes of a plan are not stored: a second run without need would find them gone, and report a conflict.
func TestAPlanRunsAKeyAgainOnlyForAMirrorThatCouldNotBeRead(t *testing.T) {
	for name, want := range map[string]int{"listed within the run": 1, "not listed yet": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				attached := cache.New[*configMap](cache.Options{Resource: secrets, Client: w.skiff})
				if want == 2 { // no time passes within the first run
					for _, verb := range []string{"list", "watch"} { // a list may be streamed
						w.api.Inject(apiserver.Fault{Verb: verb, Resource: secrets.Plural, Delay: time.Millisecond})
					}
				}
				var c *Controller
				runs, once := 0, sync.Once{}
				c = New("test", func(context.Context, kube.Key) (Outcome, error) {
					runs++
					once.Do(func() {
						c.Attach(Watches(attached, func(*configMap) []kube.Key { return nil }),
							func() []kube.Key { return nil })
					})
					if want == 1 {
						time.Sleep(time.Second)
					}
					if _, err := attached.List(""); cache.Unserved(err, cache.NotSynced) != nil {
						return Unlisted, nil
					}
					return Done, nil
				}, Options{}, For(w.store("")))
				stop := c.Follow(t.Context())
				defer stop()
				if err := c.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				outcome, err := c.Once(t.Context(), key("a"))
				if outcome != Done || err != nil || runs != want {
					t.Errorf("%d runs, outcome %+v, %v", runs, outcome, err)
				}
			})
		})
	}
}

func TestAnAttachedMirrorThatIsForbiddenStopsNoPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.forbid("", secrets)()
		forbidden := cache.New[*configMap](cache.Options{Resource: secrets, Client: w.skiff})
		var c *Controller
		runs, once := 0, sync.Once{}
		c = New("test", func(context.Context, kube.Key) (Outcome, error) {
			once.Do(func() {
				c.Attach(Watches(forbidden, func(*configMap) []kube.Key { return nil }),
					func() []kube.Key { return nil })
			})
			runs++
			return Done, nil
		}, Options{}, For(w.store("")))
		stop := run(t, c)
		w.createIn("default", configMaps, "a")
		time.Sleep(time.Minute)
		w.createIn("default", configMaps, "b")
		time.Sleep(time.Minute)
		synctest.Wait()
		expect(t, "runs", runs, 2)
		expect(t, "ready", c.Ready(), nil)
		expect(t, "stop", stop(), nil)
	})
}
