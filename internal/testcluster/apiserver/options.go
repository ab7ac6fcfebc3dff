package apiserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// listOptions are a LIST, WATCH or deletecollection with its query parameters.
type listOptions struct {
	*request
	labels     obj.Labels
	fields     obj.Fields
	limit      int64
	token      string
	version    string // resourceVersion as sent
	revision   int64  // as a number, 0 for "" and "0"
	match      string
	initial    bool // sendInitialEvents=true
	initialSet bool
	bookmarks  bool
	timeout    time.Duration // 0 = not given
}

// parseListOptions reads and checks the parameters in the real server's order: a value that cannot be parsed is a 400,
// a combination that makes no sense a 422.
func (s *Server) parseListOptions(r *request) (*listOptions, error) {
	q, labels, fields := r.query, r.query.Get("labelSelector"), r.query.Get("fieldSelector")
	o := &listOptions{request: r, token: q.Get("continue"), version: q.Get("resourceVersion"),
		match: q.Get("resourceVersionMatch"), initial: boolParam(q.Get("sendInitialEvents")),
		initialSet: q.Has("sendInitialEvents"), bookmarks: boolParam(q.Get("allowWatchBookmarks"))}
	var inLabels, inFields, inLimit error
	seconds, inTimeout := number(q, "timeoutSeconds")
	o.limit, inLimit = number(q, "limit")
	o.labels, inLabels = obj.ParseLabels(labels)
	o.fields, inFields = obj.ParseFields(fields)
	if err := cmp.Or(inTimeout, inLimit, inLabels, inFields); err != nil {
		return nil, httpd.BadRequest("%v", err)
	}
	o.timeout = time.Duration(seconds) * time.Second
	return o, cmp.Or(httpd.InvalidOptions("ListOptions", o.check(s.opts.Features)...),
		checkFields(r.kind, o.fields.Names()), o.selectName(r.name), o.parseRevision())
}

// selectName selects the object that the path of a watch names.
func (o *listOptions) selectName(name string) error {
	selected, ok := o.fields.Exact("metadata.name")
	switch {
	case name != "" && len(o.fields) > 0 && (!ok || name != selected):
		return httpd.BadRequest("fieldSelector metadata.name doesn't match requested name")
	case name != "":
		o.fields = obj.Name(name)
	}
	return nil
}

// number parses a parameter that is a number; 0 if it is not given.
func number(q url.Values, name string) (int64, error) {
	if !q.Has(name) {
		return 0, nil
	}
	return strconv.ParseInt(q.Get(name), 10, 64)
}

// boolParam parses a boolean parameter as the real server does: any value except those for "no" is true.
func boolParam(s string) bool { return s != "" && s != "0" && !strings.EqualFold(s, "false") }

func (o *listOptions) parseRevision() error {
	if o.version == "" {
		return nil
	}
	var err error
	if o.revision, err = revisionOf(o.version); err != nil && o.verb != "watch" {
		return httpd.BadRequest("invalid resource version: %v", err)
	}
	return err
}

// revisionOf parses a resourceVersion. The error is a Status: of an error that the real server did not expect.
func revisionOf(v string) (int64, error) {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return 0, httpd.PlainError("resourceVersion: Invalid value: %q: %v", v, err)
	}
	return int64(min(n, math.MaxInt64)), nil
}

// check applies the rules of apimachinery's ValidateListOptions.
func (o *listOptions) check(set features.Set) []kinds.Cause {
	const match, send = "resourceVersionMatch", "sendInitialEvents"
	var out []kinds.Cause
	forbid := func(when bool, field, why string) {
		if when {
			out = append(out, obj.Forbidden(field, why))
		}
	}
	if o.verb == "watch" {
		forbid(o.initialSet && o.match != "NotOlderThan", match,
			"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
		forbid(o.initialSet && !set.On("WatchList"), send,
			"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		forbid(!o.initialSet && o.match != "", match,
			"resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
		if o.match != "" && o.match != "NotOlderThan" {
			out = append(out, obj.NotSupported(match, o.match, "NotOlderThan"))
		}
		// without a revision, initial events and NotOlderThan are the defaults
		forbid(o.token != "" && (o.match != "" || o.version == "" || o.version == "0"), match,
			"resourceVersionMatch is forbidden when continue is provided")
		return out
	}
	forbid(o.match != "" && o.version == "", match,
		"resourceVersionMatch is forbidden unless resourceVersion is provided")
	forbid(o.match != "" && o.token != "", match, "resourceVersionMatch is forbidden when continue is provided")
	if !slices.Contains([]string{"", "Exact", "NotOlderThan"}, o.match) {
		out = append(out, obj.NotSupported(match, o.match, "Exact", "NotOlderThan", ""))
	}
	forbid(o.match == "Exact" && o.version == "0", match,
		`resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)
	forbid(o.initialSet, send, "sendInitialEvents is forbidden for list")
	return out
}

// checkFields refuses field selectors that the kind does not support.
func checkFields(k *kinds.Kind, names []string) error {
	for _, name := range names {
		if name == "metadata.name" || name == "metadata.namespace" || k.Fields[name] != nil {
			continue
		}
		if k.Custom || k.Fields != nil {
			return httpd.BadRequest("field label not supported: %s", name)
		}
		return httpd.BadRequest("%q is not a known field selector: only %q, %q", name, "metadata.name",
			"metadata.namespace")
	}
	return nil
}

// selects reports whether an object is in the requested namespace and matches the selectors.
func (o *listOptions) selects(ob *store.Object) bool {
	if ob == nil || o.namespace != "" && ob.Namespace != o.namespace {
		return false
	}
	if len(o.labels) > 0 && !o.labels.Matches(factsOf(o.kind, ob).labels) {
		return false
	}
	return o.fields.Matches(func(field string) string {
		switch field {
		case "metadata.name":
			return ob.Name
		case "metadata.namespace":
			return ob.Namespace
		}
		return factsOf(o.kind, ob).fields[field]
	})
}

// facts are what selectors look at. They are kept with each version that a selector has met.
type facts struct {
	kind           *kinds.Kind
	labels, fields map[string]string
}

func factsOf(k *kinds.Kind, o *store.Object) *facts {
	if f, ok := o.Note().(*facts); ok && f.kind == k {
		return f
	}
	v := o.Value()
	f := &facts{kind: k}
	if len(obj.Map(v, "metadata", "labels")) > 0 {
		f.labels = obj.Strings(v, "metadata", "labels")
	}
	if len(k.Fields) > 0 {
		f.fields = make(map[string]string, len(k.Fields))
	}
	for name, get := range k.Fields {
		f.fields[name] = get(v)
	}
	o.Annotate(f)
	return f
}

func (o *listOptions) selective() bool { return len(o.labels) > 0 || len(o.fields) > 0 }

// maxRevisionWait is how long a read waits for a revision in the future: the watch cache's blockTimeout.
const maxRevisionWait = 3 * time.Second

// waitFor waits until the store has reached a revision.
func (s *Server) waitFor(ctx context.Context, revision int64) error {
	timeout := time.NewTimer(maxRevisionWait)
	defer timeout.Stop()
	for {
		advanced, _ := s.store.Advanced()
		now := s.seen(ctx)
		if now >= revision {
			return nil
		}
		var late <-chan time.Time // nil unless the front end lags
		if faults.Lag(ctx) > 0 {
			late = time.After(10 * time.Millisecond)
		}
		select {
		case <-advanced:
		case <-late:
		case <-timeout.C:
			return httpd.TooLarge(revision, now)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const tokenExpired = "The provided continue parameter is too old to display a consistent list result. You can start " +
	"a new list without the continue parameter, or use the continue token in this response to retrieve the " +
	"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
	"were created, modified, or deleted between the time the first chunk was returned and now may show up " +
	"in the list."

func (s *Server) expiredToken(start string) error {
	return &httpd.ExpiredPage{Status: httpd.Expired(tokenExpired), Next: seal(newestState, start)}
}

// newestState is the revision of the token of an expired list: it continues with what there is now.
const newestState = -1

// tokenVersion is the one version of continue tokens.
const tokenVersion = "meta.k8s.io/v1"

// continueToken is what a continue token says, in the form of a real server. It does not name the list: a client may
// go on with another selector.
type continueToken struct {
	Version  string    `json:"v"`
	Revision int64     `json:"rv"`
	Start    string    `json:"start"`  // of the names that follow, see listOptions.place
	Issued   time.Time `json:"issued"` // what a real server does not say
}

func seal(revision int64, start string) string {
	body, err := json.Marshal(continueToken{tokenVersion, revision, start, time.Now()})
	if err != nil {
		panic(err) // never: such a struct has a form in JSON
	}
	return base64.RawURLEncoding.EncodeToString(body)
}

// place is where a list has an object: its name, with the namespace in a list of all.
func (o *listOptions) place(k store.Key) string {
	if o.namespace != "" || k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

func (s *Server) openToken(o *listOptions) (t continueToken, err error) {
	if o.revision > 0 {
		return t, httpd.BadRequest("specifying resource version is not allowed when using continue")
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(o.token, "="))
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	switch {
	case err != nil:
	case t.Version != tokenVersion:
		err = fmt.Errorf("server does not recognize this encoded version %s", patch.Short(t.Version))
	case t.Revision == 0:
		err = errors.New("incorrect encoded start resourceVersion (version " + tokenVersion + ")")
	case t.Start == "":
		err = errors.New("encoded start key empty (version " + tokenVersion + ")")
	case path.Clean("/"+t.Start) != "/"+strings.TrimPrefix(t.Start, "/"):
		err = errors.New(t.Start)
	}
	if err != nil {
		return t, httpd.BadRequest("invalid continue token: continue key is not valid: %v", err)
	}
	t.Start = strings.TrimPrefix(t.Start, "/")
	if t.Revision > 0 && time.Since(t.Issued) > historyAge {
		return t, s.expiredToken(t.Start)
	}
	return t, nil
}
