package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Request is one request as the API server's audit log has it.
type Request struct {
	ID          string
	Received    time.Time
	Answered    time.Time // when the answer was complete, or, while a watch runs, when it began
	User        string
	UserAgent   string
	Verb        string // get, list, watch, create, update, patch, delete ...
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int  // 0 while a watch runs
	Ended       bool // false while a watch runs
}

// String is one line for messages.
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s %d (%s)", r.Received.Format("15:04:05.000"), r.Verb, r.URI, r.Code, r.User)
}

// Write reports whether the request asks for a change.
func (r Request) Write() bool {
	return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch"
}

// BySkiff reports whether skiff sent the request, by its User-Agent.
func BySkiff(r Request) bool { return strings.HasPrefix(r.UserAgent, "skiff/") }

// auditLog holds the requests of a log, so that a test which polls decodes no line twice.
type auditLog struct {
	mu     sync.Mutex // guards what follows
	offset int64      // of the first line that was not read
	read   []Request
}

// Requests are the requests received since a time that match, in the order of the log. Each is there once: the two
// lines of a watch (started, ended) are joined.
func (c *Cluster) Requests(since time.Time, match func(Request) bool) ([]Request, error) {
	all, err := c.audit.all(c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	var out []Request
	index := map[string]int{} // audit ID -> place in out
	for _, r := range all {
		if r.Received.Before(since) || !match(r) {
			continue
		}
		if i, seen := index[r.ID]; seen {
			out[i] = r
			continue
		}
		index[r.ID] = len(out)
		out = append(out, r)
	}
	return out, nil
}

// all reads the new lines, but for a last one without an end, and returns the requests of the whole log.
func (l *auditLog) all(path string) ([]Request, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	l.offset += int64(len(text))
	for line := range bytes.Lines(text) {
		if r, ok := parseAuditLine(line); ok {
			l.read = append(l.read, r)
		}
	}
	return l.read, nil
}

// parseAuditLine decodes one line. A line cut by a kill -9 of the API server is not ok.
func parseAuditLine(line []byte) (Request, bool) {
	var event struct {
		AuditID                  string
		Stage                    string
		RequestURI               string
		Verb                     string
		User                     struct{ Username string }
		UserAgent                string
		RequestReceivedTimestamp time.Time
		StageTimestamp           time.Time
		ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, false
	}
	return Request{
		ID: event.AuditID, Received: event.RequestReceivedTimestamp, Answered: event.StageTimestamp,
		User: event.User.Username, UserAgent: event.UserAgent, Verb: event.Verb,
		Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Subresource: event.ObjectRef.Subresource,
		Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name,
		URI: event.RequestURI, Code: event.ResponseStatus.Code, Ended: event.Stage != "ResponseStarted",
	}, true
}
