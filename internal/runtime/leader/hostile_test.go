package leader

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"skiff/internal/testcluster/apiserver"
)

// frames has the watch of b's lease bring a text, again each time.
func (w *world) frames(text string) (remove func()) {
	return w.api.Inject(apiserver.Fault{UserAgent: "b", Verb: "watch",
		Reply: &apiserver.Reply{Code: 200, ContentType: "application/json", Body: text}})
}

func TestAStandbySurvivesFramesThatItsWatchDidNotAskFor(t *testing.T) {
	for name, frame := range map[string]string{
		"the end of initial events": `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1000",` +
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		"another lease": `{"type":"MODIFIED","object":{"metadata":{"name":"other","namespace":"default",` +
			`"resourceVersion":"1000"},"spec":{"holderIdentity":"x","leaseDurationSeconds":86400}}}`,
		"no object": `{"type":"MODIFIED","object":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				a := w.start("a")
				w.wantLeader("a", 0)
				remove := w.frames(frame)
				b := w.start("b")
				time.Sleep(time.Minute)
				if s := b.Standing(); s.Holder != "a" || time.Until(s.Expires) > DefaultLeaseDuration {
					t.Errorf("b takes %q for the leader until %s from now", s.Holder, time.Until(s.Expires))
				}
				remove()
				if n := b.Panics(); n > 0 {
					t.Errorf("%d panics", n)
				}
				a.end()
				w.wantLeader("b", DefaultRetryPeriod*13/10)
				b.end()
			})
		})
	}
}

func TestASilentWatchOfTheLeaseIsLeftAfterHalfAMinute(t *testing.T) {
	run(t, func(w *world) {
		w.create(map[string]any{"holderIdentity": "gone", "leaseDurationSeconds": 86_400, "renewTime": now()})
		b := w.new("b", Options{})
		remove := w.api.Inject(apiserver.Fault{UserAgent: "b", Verb: "watch", Cut: apiserver.Blackhole})
		b.start()
		time.Sleep(time.Minute)
		remove()
		w.patch(map[string]any{"spec": map[string]any{"holderIdentity": ""}})
		w.wantLeader("b", 2*watchIdle)
		b.end()
	})
}

func TestAServerThatAnswersEachTryWithAConflictIsNotAskedWithoutAPause(t *testing.T) {
	run(t, func(w *world) {
		w.create(map[string]any{"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now()})
		w.api.Inject(apiserver.Fault{UserAgent: "b", Verb: "patch", Reply: &apiserver.Reply{Code: 409,
			Reason: "Conflict", Message: "no"}})
		b := w.start("b")
		time.Sleep(time.Minute)
		if n := len(w.api.Requests()); n > 150 {
			t.Errorf("%d requests in a minute", n)
		}
		b.end()
	})
}

func TestAPanicOfLedWorkGivesTheLeaseUpAndTheProcessContendsAgain(t *testing.T) {
	run(t, func(w *world) {
		a := w.new("a", Options{})
		ctx, stop := context.WithCancel(w.t.Context())
		began := 0
		go func() {
			a.ended <- a.Run(ctx, func(ctx, leaseCtx context.Context) {
				if began++; began == 1 {
					panic("a bug of the work")
				}
				a.lead(ctx, leaseCtx)
			})
		}()
		a.stop = stop
		b := w.start("b")
		w.wantLeader("b", time.Second)
		b.end()
		w.wantLeader("a", DefaultLeaseDuration*13/10)
		if a.Panics() != 1 || a.Held() != nil {
			t.Errorf("%d panics, %v", a.Panics(), a.Held())
		}
		a.end()
	})
}

func TestAPanicWhileItWaitsForTheLeaseCostsAStandbyOnlyThatTry(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.new("b", Options{})
		panicked := false
		b.log = logr.New(funcr.New(func(_, args string) {
			if !panicked {
				panicked = true
				panic("a bug of the log")
			}
		}, funcr.Options{}).GetSink())
		b.start()
		time.Sleep(time.Minute)
		a.end()
		w.wantLeader("b", time.Second)
		if !panicked || b.Panics() != 1 {
			t.Errorf("panicked %v, %d counted", panicked, b.Panics())
		}
		b.end()
	})
}

func TestALeaseThatLostItsTimeOfAcquisitionIsRenewed(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		w.patch(map[string]any{"spec": map[string]any{"acquireTime": nil}})
		time.Sleep(time.Minute)
		if w.leader() != "a" || len(w.terms) != 1 {
			t.Errorf("the lease was lost: %v", w.terms)
		}
		a.end()
	})
}

func TestALeaseWithTheMostTransitionsIsTaken(t *testing.T) {
	run(t, func(w *world) {
		w.create(map[string]any{"holderIdentity": "gone", "leaseDurationSeconds": 1, "renewTime": now(),
			"leaseTransitions": math.MaxInt32})
		a := w.start("a")
		w.wantLeader("a", time.Minute)
		a.end()
	})
}
