package kube

import "time"

// Exchange is one HTTP request and how it was answered, for those that count requests.
type Exchange struct {
	Host     string
	Method   string
	Resource Resource      // the zero value where it is about none, such as discovery
	Code     int           // 0: there was no answer
	Conflict bool          // 409, because the object has changed since it was read
	Retried  int           // the code of the answer after which this request was sent again; 0: it is the first one
	Took     time.Duration // until the header of the answer
}

// tell tells of an exchange that began at a time and ended with err.
func (c *Client) tell(r *request, began time.Time, code int, err error) {
	if c.onExchange == nil {
		return
	}
	c.onExchange(Exchange{Host: c.base.Host, Method: r.method, Resource: r.resource, Code: code,
		Conflict: IsConflict(err), Retried: r.answered, Took: time.Since(began)})
	r.answered = code
}
