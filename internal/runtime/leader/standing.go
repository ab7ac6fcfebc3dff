package leader

import (
	"time"

	"skiff/internal/runtime/kube"
)

// Standing is what an Elector knows of who leads. All times are of the local clock.
type Standing struct {
	Leading bool // this process holds the lease for certain
	// Holder held the lease when it was seen last; "": no process did, or the lease has not been seen yet.
	Holder string
	// Renewed is when the lease was seen to change last, or when this process sent its last renewal; zero: never.
	Renewed time.Time
	// Expires is when another process may take the lease if it is not renewed; zero: at once.
	Expires time.Time
	// Lost is when this process had to stop because no renewal was answered; zero once it has seen the lease again.
	Lost time.Time
}

// Standing returns what is known of who leads. In a process that was stopped for a while it is right at once.
func (e *Elector) Standing() Standing {
	s := Standing{Expires: e.expires()}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Holder, s.Renewed, s.Lost = e.last.Holder, e.renewed, e.lost
	if s.Holder == e.o.Identity {
		s.Renewed, s.Expires = e.sent, e.sent.Add(e.o.LeaseDuration)
	}
	if e.leading {
		s.Lost = e.overdueLocked()
		s.Leading = s.Lost.IsZero()
	}
	return s
}

// overdueLocked returns when the time of leadership was over, the zero time if it is not.
func (e *Elector) overdueLocked() time.Time {
	if end := e.sent.Add(e.o.RenewDeadline); !time.Now().Before(end) {
		return end
	}
	return time.Time{}
}

// Contact returns what is known of the answers of the server to requests about the lease.
func (e *Elector) Contact() kube.Contact { return e.o.Client.Contact() }
