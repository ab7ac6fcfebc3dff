package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// notHeld is the answer to a read of an object for which there is no memory.
func notHeld(reason, why string) *cache.NotServed {
	return &cache.NotServed{Problem: health.Problem{Reason: reason, Severity: health.Stalled, Public: why}}
}

func TestTheObjectsOfANamespaceAreToldOneAfterTheOther(t *testing.T) {
	var p paces
	now := time.Now()
	for i := range 10 {
		if wait, ok := p.claim("a", now, shedReportEvery); !ok || wait != time.Duration(i)*shedReportEvery {
			t.Errorf("%d waits for %s, want %s", i, wait, time.Duration(i)*shedReportEvery)
		}
	}
	if wait, ok := p.claim("b", now, shedReportEvery); !ok || wait != 0 {
		t.Errorf("another namespace waits for %s", wait)
	}
	told := 10
	for ; told < 1_000_000; told++ {
		if _, ok := p.claim("a", now, shedReportEvery); !ok {
			break
		}
	}
	if most := int(SlowDelay/shedReportEvery) + 1; told != most {
		t.Errorf("%d have a turn, want %d: the rest is looked at again before", told, most)
	}
	now = now.Add(time.Second)
	if wait, ok := p.claim("b", now, shedReportEvery); !ok || wait != 0 || len(p.next) != 2 {
		t.Errorf("another namespace waits for %s, %t, %d namespaces are remembered", wait, ok, len(p.next))
	}
	now = now.Add(time.Hour)
	if p.claim("b", now, shedReportEvery); len(p.next) != 1 {
		t.Errorf("%d namespaces are remembered", len(p.next))
	}
}

func TestTellingThatAnObjectIsNotWorkedOnIsTriedAgainAfterABackoff(t *testing.T) {
	for name, err := range map[string]error{
		"forbidden": &kube.Status{Code: 403, Reason: "Forbidden"}, "failing": &kube.Status{Code: 418},
	} {
		synctest.Test(t, func(t *testing.T) {
			shed := func(context.Context, kube.Key) (Outcome, error) {
				return Done, notHeld(cache.OverBudget, "the pods take too much")
			}
			told := 0
			c := New("x", shed, Options{})
			c.shed = func(context.Context, kube.Key, string, string) error {
				told++
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			c.queue.Add(kube.Key{Namespace: "a", Name: "b"}, "changed")
			time.Sleep(10 * time.Minute)
			if failing, _ := c.streaks.count(); told > 40 || failing != 1 {
				t.Errorf("%s: tried %d times in 10 minutes, %d keys fail", name, told, failing)
			}
			cancel()
			running.Wait()
		})
	}
}

// The status of an object that is too large costs the server, and the watch of all namespaces, as much as the object.
func TestObjectsThatAreTooLargeAreToldOneEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times runTimes
		c := New("test", func(context.Context, kube.Key) (Outcome, error) {
			return Done, notHeld(cache.TooLarge, "it takes too much")
		}, Options{})
		c.shed = func(context.Context, kube.Key, string, string) error {
			times.note()
			return nil
		}
		stop := run(t, c)
		for i := range 60 {
			c.queue.Add(key(fmt.Sprint(i)), "changed")
		}
		time.Sleep(30*time.Second + shedReportEvery)
		synctest.Wait()
		expect(t, "told in 30 s", times.count(), 31)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		expect(t, "told in a minute", times.count(), 60)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A run that finds one child not held and fails for another one is tried again as soon as any that fails.
func TestARunThatAlsoFailsForAnotherReasonIsTriedAgainAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times runTimes
		refused := &kube.Status{Code: 422, Reason: "Invalid", Message: "the image is wrong"}
		failure := error(errors.New("the server is busy"))
		f := func(context.Context, kube.Key) (Outcome, error) {
			times.note()
			shed := notHeld(cache.OverBudget, "the pods take too much")
			return Done, fmt.Errorf("reconcile: %w", errors.Join(shed, failure))
		}
		lines := &logLines{}
		var told []string
		c := New("test", f, Options{Log: lines.logger()})
		c.shed = func(_ context.Context, _ kube.Key, _, message string) error {
			told = append(told, message)
			return nil
		}
		stop := run(t, c)
		c.queue.Add(key("a"), "changed")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := times.count(); n < 5 {
			t.Errorf("%d runs in a minute", n)
		}
		if len(lines.with("the server is busy")) == 0 {
			t.Error("no line has the failure")
		}
		expect(t, "told first", told[0], "the pods take too much")
		before := times.count()
		failure = refused
		c.queue.Add(key("a"), "changed")
		time.Sleep(time.Minute)
		synctest.Wait()
		expect(t, "runs in a minute after the refusal", times.count(), before+1)
		c.queue.Add(key("a"), "changed again") // the run before may have come too soon after a status was written
		time.Sleep(time.Second)
		synctest.Wait()
		if last := told[len(told)-1]; !strings.Contains(last, "the pods take too much; ") ||
			!strings.Contains(last, "the image is wrong") {
			t.Errorf("told %q", last)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
