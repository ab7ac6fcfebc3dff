package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

func TestAnOutageIsOneLineForAllWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, endMark("20"))).on(probing, list("1000"))
		m := startMirror(t, s, Options{Namespaces: []string{"a", "b", "c"}})
		wait(time.Second)
		for range 2 {
			wait(healthy)
			m.log = nil
			s.crash(true)
			wait(10 * time.Minute)
			s.on(watching, frames(thenHold, bookmark("21")))
			s.start()
			wait(maxBackoff)
			if m.logged(`"level"=0 "msg"="lost contact with the API server; renewing 3 watches" "reason"=`) != 1 ||
				len(m.log) != 1 {
				t.Errorf("logged %q, want one line at level INFO", m.log)
			}
		}
	})
}

func TestAServerThatCannotBeReachedAtTheStartMayBeAWrongAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, endMark("20")))
		s.crash(true)
		m := startMirror(t, s, Options{Namespaces: []string{"a", "b"}})
		wait(10 * time.Minute)
		if m.logged("cannot reach the API server, trying again") != 1 ||
			m.logged("cannot reach the API server") != 1 || len(m.log) != 1 {
			t.Errorf("logged %q", m.log)
		}
	})
}

func TestATokenThatIsRefusedIsToldOnceWithTheNextStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, status(401, "Unauthorized"))
		m := startMirror(t, s, Options{Namespaces: []string{"a", "b", "c"}})
		wait(10 * time.Minute)
		if m.logged(`"the server refused the credential (401), trying again" "level"="WARN" "error"`) != 1 ||
			len(m.log) != 1 {
			t.Errorf("logged %q", m.log)
		}
		s.on(streamedList, frames(thenHold, endMark("20")))
		wait(maxBackoff)
		if m.logged("in contact with the API server again") != 1 || len(m.log) != 2 {
			t.Errorf("logged %q", m.log)
		}
	})
}

// plugin are credentials that a failing plugin should give.
type plugin struct{ err atomic.Pointer[error] }

func (p *plugin) Authorization(context.Context) (string, error) {
	if err := p.err.Load(); err != nil {
		return "", *err
	}
	return "Bearer x", nil
}
func (p *plugin) Invalidate(time.Time) {}

func TestAFailingCredentialPluginIsNotAServerThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, endMark("20")))
		p, failed := &plugin{}, errors.New("users[0].user.exec: the credential plugin failed: run aws: exit status 1")
		p.err.Store(&failed)
		client, err := kube.New(kube.Config{Server: "http://server", DialContext: s.dial, Credentials: p,
			OnlyJSON: !inProtobuf})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		s.client = client
		m := startMirror(t, s, Options{Namespaces: []string{"a", "b"}})
		wait(10 * time.Minute)
		if m.logged("there is no credential for the API server") != 1 || m.logged("run aws: exit status 1") != 1 ||
			m.logged("log in again with the plugin by hand") != 1 || len(m.log) != 1 {
			t.Errorf("logged %q", m.log)
		}
		p.err.Store(nil)
		wait(maxBackoff)
		if !m.Synced() || m.logged("in contact with the API server again") != 1 {
			t.Errorf("logged %q", m.log)
		}
	})
}

func TestConnectionsThatBreakOffAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, endMark("20"))).on(probing, list("1000")).
			on(watching, frames(thenHold, bookmark("21")))
		m := startMirror(t, s, Options{Namespaces: []string{"a", "b", "c"}})
		for range 2 {
			s.crash(false)
			wait(maxBackoff)
		}
		// The line counts the watches that were noticed to be broken by then: one or more of the three.
		if m.logged("lost contact with the API server; renewing ") != 1 || len(m.log) != 1 {
			t.Errorf("logged %q", m.log)
		}
	})
}
