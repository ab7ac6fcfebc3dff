package listen

import (
	"net/http"
	"time"
)

// Limits are those of a server, or of a proxy before it, for connections over HTTPS. Zero values are net/http's.
type Limits struct {
	HTTP1       bool          // no HTTP/2
	Streams     int           // at the same time on a connection of HTTP/2
	HeaderBytes int           // of a request
	Idle        time.Duration // a connection without requests is closed
	Age         time.Duration // an older connection is closed once its requests are answered: HTTP/2 sends GOAWAY
	// Forget is after how long a silent connection is dead without being closed, as behind a cloud load balancer.
	Forget time.Duration
}

// end closes connections that are too old.
func (l Limits) end(h http.Handler) http.Handler {
	if l.Age == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(numbered); ok && time.Since(c.since) > l.Age {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
