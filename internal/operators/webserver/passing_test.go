package webserver

import (
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
	"skiff/internal/testcluster/apiserver"
)

// What passes by itself is never parked, so it is no reason for Stalled, however long it lasts.
func TestAnOutageIsReportedAndIsNoReasonToBeStalled(t *testing.T) {
	story(t, func(w *world) {
		remove := w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", UserAgent: operatortest.Agent,
			Reply: &apiserver.Reply{Code: 503, Reason: "ServiceUnavailable", Message: "the webhook is starting"}})
		w.Create("web", article)
		w.Pass(10 * time.Minute)
		w.WantCondition("web", "Degraded", "True/DeploymentFailed")
		w.WantCondition("web", "Stalled", "False/AsExpected")
		const want = "the webhook is starting; skiff tries again within 2 minutes"
		if got := w.Message("web", "Degraded"); got != want {
			t.Errorf("message %q, want %q", got, want)
		}
		w.Forget()
		w.Pass(30 * time.Minute)
		if n := w.Count("PATCH"); n > 0 {
			t.Errorf("%d writes of the status that say nothing new", n)
		}
		remove()
		w.Pass(2 * time.Minute)
		w.Want("replicas", w.replicas(), 3)
	})
}

func TestARefusalThatLastsIsStalledAndSaysWhenItIsTriedAgain(t *testing.T) {
	story(t, func(w *world) {
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", UserAgent: operatortest.Agent,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}})
		w.Create("web", article)
		w.Pass(12 * time.Minute)
		w.WantCondition("web", "Stalled", "True/DeploymentRefused")
		const want = "exceeded quota; raise the quota or ask for less, skiff tries again every 5 to 8 minutes, " +
			"and at once when something changes"
		if got := w.Message("web", "Stalled"); got != want {
			t.Errorf("message %q, want %q", got, want)
		}
	})
}
