package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// replica is one of two skiffs that contend for a lease, with a user of its own, by which the audit log tells them
// apart.
type replica struct {
	*Skiff
	user string
}

func (s *Scope) startReplica(t *testing.T, name string) replica {
	s.Helper()
	s.Kubectl("create", "serviceaccount", name)
	s.Kubectl("create", "rolebinding", name, "--clusterrole=cluster-admin", "--serviceaccount="+s.NS+":"+name)
	sk := startSkiffAs(t, s, s.tokenUser(s.NS, name), "--watch-namespaces", s.NS,
		"--leader-elect", "--leader-election-namespace", s.NS)
	return replica{sk, "system:serviceaccount:" + s.NS + ":" + name}
}

// holder is who holds the lease, as it is stored.
func (s *Scope) holder() string {
	s.Helper()
	return s.get("/apis/coordination.k8s.io/v1/namespaces/"+s.NS+"/leases/skiff").Str("spec", "holderIdentity")
}

// writes are what a replica wrote since a time, but for the lease itself: that is a write with a precondition.
func (s *Scope) writes(r replica, since time.Time) []Request {
	s.Helper()
	return s.skiffRequests(since, func(q Request) bool {
		return q.User == r.user && q.Write() && q.Namespace == s.NS && q.Resource != "leases"
	})
}

// waitWrites changes a WebServer until a replica has written because of it, for at most d. It returns when it was
// received.
func (s *Scope) waitWrites(r replica, since time.Time, d time.Duration) time.Time {
	s.Helper()
	for n := 0; ; n++ {
		s.Kubectl("patch", "webserver", "web", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"image":"nginx:1.%d"}}`, n))
		if w := s.writes(r, since); len(w) > 0 {
			return w[0].Received
		}
		if time.Since(since) > d {
			s.Fatalf("%s has written nothing within %s", r.user, d)
		}
	}
}

// A leader that is stopped by SIGSTOP in the midst of its work is replaced, and when it goes on, none of its writes
// lands after the first of the new leader. Then the new one is told to stop, and the old one takes over at once.
//
// Rules: LE-05, LE-06, LE-08, LE-09, LE-10, FI-16
func TestALeaderThatIsStoppedAndGoesOnWritesNothingAfterTheNextOne(t *testing.T) {
	s := newScope(t)
	a := s.startReplica(t, "a")
	s.Apply(WebServerManifest("web", "image: nginx:1.0, replicas: 1"))
	s.waitChildren("web", "nginx:1.0", 1)
	first := s.holder()
	b := s.startReplica(t, "b")
	began := time.Now()
	s.waitWrites(a, began, limit)
	if n := len(s.writes(b, began)); n > 0 {
		t.Errorf("the standby wrote %d times", n)
	}

	noError(t, a.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	taken := s.waitWrites(b, stopped, limit)
	t.Logf("the next leader wrote %s after the stop", taken.Sub(stopped).Round(time.Millisecond))
	if taken.Sub(stopped) > 30*time.Second { // the Lease takes 15; the rest is the machine that all tests share
		t.Errorf("it took %s, want 30 s at most", taken.Sub(stopped))
	}
	noError(t, a.Signal(syscall.SIGCONT))
	until := time.Now().Add(5 * time.Second)
	for time.Now().Before(until) {
		s.waitWrites(b, time.Now(), limit)
	}
	wrote := s.writes(a, taken)
	told := len(s.get("/apis/events.k8s.io/v1/namespaces/" + s.NS +
		"/events?fieldSelector=reason=LeaderElection,reportingController=skiff.dev/leader-election").List("items"))
	for _, w := range wrote {
		if w.Resource == "events" && told == 3 { // a leads, b leads, and at last that a does not
			told--
			continue
		}
		t.Errorf("the old leader wrote %s after the new one", w)
	}
	if a.Exited() || s.holder() == first {
		t.Errorf("exited: %v; the lease is held by %s", a.Exited(), s.holder())
	}

	ended := time.Now()
	noError(t, b.Terminate())
	exited := time.Now()
	if exited.Sub(ended) > 10*time.Second {
		t.Errorf("it took %s to end", exited.Sub(ended))
	}
	s.Kubectl("patch", "webserver", "web", "--type=merge", "-p", `{"spec":{"image":"nginx:2.0"}}`)
	Eventually(t, limit, "the old leader leads again", func() (bool, string) {
		return s.holder() == first, s.holder()
	})
	back := s.waitWrites(a, ended, limit)
	t.Logf("after SIGTERM the other wrote %s after the exit", back.Sub(exited).Round(time.Millisecond))
	if back.Sub(exited) > 10*time.Second { // 15 if the Lease had not been given up
		t.Errorf("it took %s to take over from a leader that was told to stop", back.Sub(exited))
	}
}
