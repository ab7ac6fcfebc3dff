package httpd

import (
	"net/http"
	"time"
)

// Limits are those of a server, or of a proxy before it, for connections over HTTPS. Zero values are net/http's.
type Limits struct {
	HTTP1       bool          `json:"http1"`       // no HTTP/2
	Streams     int           `json:"streams"`     // at the same time on a connection of HTTP/2
	HeaderBytes int           `json:"headerBytes"` // of a request
	Idle        time.Duration `json:"idle"`        // a connection without requests is closed
	// Age is when a connection is closed once its requests are answered: HTTP/2 sends GOAWAY.
	Age time.Duration `json:"age"`
	// Forget is after how long a silent connection is dead without being closed, as behind a cloud load balancer.
	Forget time.Duration `json:"forget"`
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
