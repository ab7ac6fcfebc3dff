package manager

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/page"
)

// stateOf is what a live page says.
func stateOf(t *testing.T, p prober) (s page.State) {
	t.Helper()
	code, body := p.get("/debug/state?format=json")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Rules: LP-05, LP-10
func TestAStandbyServesTheLivePageAndSaysWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		shown := func(_ *replica, o *Options) { o.PageAddr = "page" }
		a := startReplicaWith(t, api, "a", shown)
		time.Sleep(time.Second)
		b := startReplicaWith(t, api, "b", shown)
		createMap(t, client, "one")
		time.Sleep(time.Minute)
		leads, stands := stateOf(t, a.page), stateOf(t, b.page)
		if leads.Standby || !strings.HasPrefix(leads.Leader, "this process leads; it renewed the lease at ") {
			t.Errorf("the leader says %q, standby: %v", leads.Leader, leads.Standby)
		}
		if !stands.Standby || !strings.HasPrefix(stands.Leader, "this process stands by; the leader is a, which ") {
			t.Errorf("the standby says %q, standby: %v", stands.Leader, stands.Standby)
		}
		if due := stands.Queue[0].OldestDue; !due.IsZero() {
			t.Errorf("on the standby, a key is due since %s: it waits for the lease", due)
		}
		const text = "All is well. 1 object is as declared."
		if !stands.Banner.Well || stands.Banner.Text != text || leads.Banner.Text != text {
			t.Errorf("the banners are %q and %q", leads.Banner.Text, stands.Banner.Text)
		}
		if _, body := b.page.get("/debug/"); !strings.Contains(body, "; this process stands by; the leader is a, ") {
			t.Errorf("as HTML: %s", body)
		}

		a.election.Blackhole(true) // it loses the lease, and b takes over
		time.Sleep(time.Minute)
		lost, leads := stateOf(t, a.page), stateOf(t, b.page)
		if leads.Standby || lost.Banner.Well || !lost.Standby ||
			lost.Attention[0].Reason != "LeaseLost" || lost.Attention[0].Since.IsZero() {
			t.Errorf("after a loss: %+v and %+v", lost, leads)
		}
		a.election.Blackhole(false)
		time.Sleep(time.Minute)
		if s := stateOf(t, a.page); !s.Banner.Well || !strings.Contains(s.Leader, "the leader is b, ") {
			t.Errorf("when the server answers again: %+v", s)
		}
		expect(t, "stop", a.stop(), nil)
		expect(t, "stop", b.stop(), nil)
	})
}
