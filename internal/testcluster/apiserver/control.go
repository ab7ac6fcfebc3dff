package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/store"
)

// controlPath is the prefix of the requests by which a test in any language controls the server. They are
// the administrator's, no fault applies to them, and they are not recorded.
const controlPath = "/skiff/"

const (
	// maxSnapshots is how many named snapshots are kept: each keeps all objects of its moment in memory.
	maxSnapshots = 16
	// maxRequests is how many requests one answer lists.
	maxRequests = 10_000
)

// startSnapshot is the name of the snapshot that POST /skiff/reset goes back to.
const startSnapshot = "start"

// SetStart makes the present content what POST /skiff/reset goes back to. Before the first call it is that of a new
// server.
func (s *Server) SetStart() {
	sn := s.store.Snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots[startSnapshot] = sn
}

// control answers a request for the server itself.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	if user, err := s.authn.Authenticate(r, time.Now()); err != nil || !auth.IsMaster(user) {
		httpd.Error(w, httpd.Unauthorized())
		return
	}
	name := r.URL.Query().Get("name")
	var err error
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, controlPath) {
	case "POST snapshot":
		err = s.takeSnapshot(name)
	case "POST restore":
		err = s.goBackTo(name, boolParam(r.URL.Query().Get("rewind")))
	case "POST reset":
		if err = s.goBackTo(startSnapshot, false); err == nil {
			s.faults.Replace(FaultSet{})
			s.ForgetRequests()
		}
	case "POST compact":
		s.Compact()
	case "POST restart":
		err = s.restart(r.URL.Query())
	case "PUT faults":
		err = s.putFaults(r)
	case "GET requests":
		var body []byte
		if body, err = s.requestsSince(r.URL.Query()); err == nil {
			httpd.Bytes(w, http.StatusOK, body)
			return
		}
	default:
		err = httpd.Failure(http.StatusNotFound, kube.ReasonNotFound,
			r.Method+" "+r.URL.Path+" does not exist: there are POST /skiff/reset, /skiff/snapshot?name=NAME, "+
				"/skiff/restore?name=NAME[&rewind=true], /skiff/compact, /skiff/restart[?replica=N][&silent=true], "+
				"PUT /skiff/faults and GET /skiff/requests", httpd.NoDetails)
	}
	if err != nil {
		httpd.Error(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) takeSnapshot(name string) error {
	if name == "" || name == startSnapshot || len(name) > nameMax {
		return httpd.BadRequest("name: want a name of at most %d characters other than %s", nameMax, startSnapshot)
	}
	sn := s.store.Snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshots[name] == nil && len(s.snapshots) > maxSnapshots {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.snapshots)),
			func(n string) bool { return n == startSnapshot })
		return httpd.BadRequest("there are %d snapshots already: use one of the names %s again", maxSnapshots,
			strings.Join(names, ", "))
	}
	s.snapshots[name] = sn
	return nil
}

// goBackTo changes the objects back to those of a snapshot. For clients these are ordinary changes: revisions go on,
// and watches see each of them; with rewind it is Restore.
func (s *Server) goBackTo(name string, rewind bool) error {
	s.mu.Lock()
	sn := s.snapshots[name]
	s.mu.Unlock()
	if sn == nil {
		return httpd.Failure(http.StatusNotFound, kube.ReasonNotFound, fmt.Sprintf("there is no snapshot %q", name),
			httpd.NoDetails)
	}
	if rewind {
		s.Restore(sn)
	} else {
		s.store.Revert(sn)
	}
	s.serveCRDs() // now: the next request may be for a kind that came back
	s.wakeHousekeeper()
	return nil
}

func (s *Server) restart(q url.Values) error {
	n, all := 0, max(1, s.opts.Replicas)
	if text := q.Get("replica"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > all {
			return httpd.BadRequest("replica: want a number from 1 to %d", all)
		}
	}
	s.Restart(n, boolParam(q.Get("silent")))
	return nil
}

func (s *Server) putFaults(r *http.Request) error {
	body, err := httpd.ReadBody(r)
	if err != nil {
		return err
	}
	set, err := ParseFaults(body)
	if err == nil && set.Limits != (Limits{}) {
		err = errors.New("limits: a server keeps those that it started with: set them in the file of --faults")
	}
	if err == nil {
		err = s.SetFaults(set)
	}
	if err != nil {
		return httpd.BadRequest("%v", err)
	}
	return nil
}

// SetToken changes Options.Token. Open requests continue.
func (s *Server) SetToken(token string) { s.authn.SetToken(token) }

// SetFaults replaces the faults that were set by it.
func (s *Server) SetFaults(set FaultSet) error {
	for i, f := range set.Faults {
		if replicas := max(1, s.opts.Replicas); f.Replica > replicas {
			return fmt.Errorf("faults[%d].replica: %d would select no API server: want a number from 1 to %d", i,
				f.Replica, replicas)
		}
	}
	s.faults.Replace(set)
	return nil
}

// requestsSince returns the recorded requests that arrived after the parameter since (RFC 3339), as JSON: the latest
// maxRequests of them.
func (s *Server) requestsSince(q url.Values) ([]byte, error) {
	var since time.Time
	if text := q.Get("since"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, httpd.BadRequest("since: %q is no time such as 2026-01-31T12:00:00Z", text)
		}
	}
	all := slices.DeleteFunc(s.Requests(), func(r Request) bool { return !r.Time.After(since) })
	all = all[max(0, len(all)-maxRequests):]
	items := make([]any, 0, len(all))
	for _, r := range all {
		item := map[string]any{"method": r.Method, "path": r.Path, "query": r.Query.Encode(), "user": r.User,
			"userAgent": r.UserAgent, "contentType": r.ContentType, "watch": r.Watch(), "status": int64(r.Status),
			"time": r.Time.UTC().Format(time.RFC3339Nano)}
		if !r.Done.IsZero() {
			item["done"] = r.Done.UTC().Format(time.RFC3339Nano)
		}
		items = append(items, item)
	}
	return httpd.Encode(map[string]any{"requests": items}), nil
}

// Snapshot returns the state of the store, for Restore.
func (s *Server) Snapshot() *store.Snapshot { return s.store.Snapshot() }

// Restore returns to a snapshot, as a cluster does that is restored from a backup of etcd: resourceVersions go back,
// watches end, and a watch from a later version is accepted and silent until that version is reached again.
func (s *Server) Restore(sn *store.Snapshot) {
	s.store.Restore(sn)
	s.mu.Lock()
	close(s.restored)
	s.restored = make(chan struct{})
	s.mu.Unlock()
	s.wakeHousekeeper() // the CRDs may be others
}

// untilRestored returns a channel that is closed by the next Restore.
func (s *Server) untilRestored() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restored
}

// Compact removes all history: watches from older revisions, and all continue tokens, get 410.
func (s *Server) Compact() { s.store.Compact() }

// Revision returns the revision of the last write.
func (s *Server) Revision() int64 { return s.store.Revision() }

// Get returns a copy of a stored object in the form of a GET, nil if it does not exist: for assertions in tests.
func (s *Server) Get(r kube.Resource, k kube.Key) map[string]any {
	if kind := s.registry.find(r.Group, r.Version, r.Plural); kind != nil {
		if o := s.store.Get(kind.TableName(), store.Key(k)); o != nil {
			return forms.Decoded(forms.ServedCopy(kind, o))
		}
	}
	return nil
}

// List returns copies of all stored objects of a resource in a namespace, or in all (""), in key order.
func (s *Server) List(r kube.Resource, namespace string) []map[string]any {
	var out []map[string]any
	if kind := s.registry.find(r.Group, r.Version, r.Plural); kind != nil {
		for _, o := range s.store.List(kind.TableName(), namespace) {
			out = append(out, forms.Decoded(forms.ServedCopy(kind, o)))
		}
	}
	return out
}
