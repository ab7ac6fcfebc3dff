package apiserver

import (
	"cmp"
	"net"
	"strings"
	"time"

	"skiff/internal/testcluster/apiserver/kinds"
)

// AuditEvent is a request as the audit log of a real server has it at the level Metadata: kind Event of
// audit.k8s.io/v1, on one line. Watches have two: when they begin, and when they end.
type AuditEvent struct {
	Kind             string       `json:"kind"`
	APIVersion       string       `json:"apiVersion"`
	Level            string       `json:"level"`
	AuditID          string       `json:"auditID"` // the header Audit-Id of the answer
	Stage            string       `json:"stage"`
	RequestURI       string       `json:"requestURI"`
	Verb             string       `json:"verb"`
	User             AuditUser    `json:"user"`
	ImpersonatedUser *AuditUser   `json:"impersonatedUser,omitempty"`
	SourceIPs        []string     `json:"sourceIPs,omitempty"`
	UserAgent        string       `json:"userAgent,omitempty"`
	ObjectRef        *AuditObject `json:"objectRef,omitempty"`
	ResponseStatus   *AuditStatus `json:"responseStatus,omitempty"` // nil: the connection ended before an answer
	Received         string       `json:"requestReceivedTimestamp"` // a MicroTime
	At               string       `json:"stageTimestamp"`           // likewise
}

// microTime is the form of meta/v1 MicroTime in UTC. Kubernetes' own reader refuses any other number of digits.
const microTime = "2006-01-02T15:04:05.000000Z"

// AuditUser is a user of an AuditEvent.
type AuditUser struct {
	Username string   `json:"username,omitempty"`
	UID      string   `json:"uid,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

// AuditObject is what a request is for, by its path.
type AuditObject struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	APIGroup    string `json:"apiGroup,omitempty"`
	APIVersion  string `json:"apiVersion"`
	Subresource string `json:"subresource,omitempty"`
}

// AuditStatus has the status code of an answer.
type AuditStatus struct {
	Metadata struct{} `json:"metadata"`
	Code     int      `json:"code"`
}

// The stages of requests.
const (
	stageStarted  = "ResponseStarted"
	stageComplete = "ResponseComplete"
)

// audit tells [Options.Audit] that the request has come to a stage.
func (w *recordedWriter) audit(stage string) {
	if w.s.opts.Audit == nil {
		return
	}
	w.s.mu.Lock()
	code := w.req.Status
	w.s.mu.Unlock()
	r := w.of
	verb := cmp.Or(r.verb, strings.ToLower(r.Method))
	e := AuditEvent{Kind: "Event", APIVersion: "audit.k8s.io/v1", Level: "Metadata", Stage: stage,
		AuditID: w.Header().Get("Audit-Id"), RequestURI: r.URL.RequestURI(), Verb: verb, User: auditUser(w.by),
		UserAgent: r.UserAgent(), Received: w.req.Time.UTC().Format(microTime),
		At: time.Now().UTC().Format(microTime)}
	if r.user.Name != w.by.Name {
		as := auditUser(r.user)
		e.ImpersonatedUser = &as
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil { // a pipe has none
		e.SourceIPs = []string{host}
	}
	if r.forResource {
		e.ObjectRef = &AuditObject{r.asked.Plural, r.namespace, r.name, r.asked.Group, r.asked.Version, r.sub}
	}
	if code != 0 {
		e.ResponseStatus = &AuditStatus{Code: code}
	}
	w.s.opts.Audit(e)
}

func auditUser(u kinds.User) AuditUser { return AuditUser{u.Name, u.UID, u.Groups} }
