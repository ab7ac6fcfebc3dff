package fakeapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/faults"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// request is a routed request.
type request struct {
	*http.Request
	kind            *kinds.Kind
	sent            *kinds.Kind // of what is sent and answered: kind, unless the subresource has one of its own
	verb            string      // get list watch create update patch delete deletecollection
	namespace, name string
	sub             string   // subresource
	warnings        []string // to send with the answer
	writer          http.ResponseWriter
	accept          forms.Accept
	warner          *answer.Warner // made when admission needs it
	keepBody        bool           // the body may be needed again, unchanged
	user            kinds.User
	query           url.Values
}

func (r *request) key() kube.Key { return kube.Key{Namespace: r.namespace, Name: r.name} }

func (r *request) dryRun() bool { return r.query.Get("dryRun") == "All" }

// body returns what was sent, for a write that changes it.
func (r *request) body(sent any) any {
	if r.keepBody {
		return patch.Copy(sent)
	}
	return sent
}

// route parses /api/V/... and /apis/G/V/...: [namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]].
func (s *Server) route(r *http.Request) (*request, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var group, version string
	switch {
	case parts[0] == "api" && len(parts) == 2, parts[0] == "apis" && len(parts) == 3 &&
		s.registry.builtinGroup(parts[1]):
		return nil, answer.NoResource() // an unknown version: discovery has handled the known ones
	case parts[0] == "api" && len(parts) > 2:
		version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, answer.NoSuchPath{}
	}
	req := &request{Request: r, query: r.URL.Query()}
	// "namespaces" precedes an object in a namespace, or is the resource itself.
	if parts[0] == "namespaces" && len(parts) > 2 && !(len(parts) == 3 &&
		slices.Contains([]string{"status", "finalize"}, parts[2])) {
		req.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		req.name = parts[1]
	}
	if len(parts) > 2 {
		req.sub = parts[2]
	}
	req.kind = s.registry.find(group, version, parts[0])
	switch k := req.kind; {
	case k == nil || len(parts) > 3:
	case k.ClusterScoped && req.namespace == "", !k.ClusterScoped && (req.namespace != "" || req.name == ""):
		return req, req.setVerb()
	}
	if s.registry.builtinGroup(group) {
		return nil, answer.NoResource()
	}
	return nil, answer.NoSuchPath{}
}

// setVerb sets the verb, and refuses one that the path does not have.
func (r *request) setVerb() error {
	collection, everywhere := r.name == "", r.namespace == "" && !r.kind.ClusterScoped
	switch r.verb = verbOf(r.Method, collection, r.query); {
	case r.verb == "", r.Method == http.MethodHead && !r.kind.Custom,
		collection && (r.verb == "update" || r.verb == "patch"),
		!collection && r.verb == "create" && r.sub == "":
		return answer.MethodNotAllowed()
	case everywhere && r.kind.Custom && (r.verb == "create" || r.verb == "deletecollection"):
		return answer.NoSuchPath{} // only reads have an endpoint for all namespaces at once
	case everywhere && (r.verb == "create" || r.verb == "deletecollection"):
		return answer.MethodNotAllowed()
	}
	if why := selector.PathSegment(r.name); len(why) > 0 {
		return answer.BadRequest("Name parameter invalid: %q: %s", r.name, strings.Join(why, ";"))
	}
	return nil
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodGet: "get", http.MethodHead: "get",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// verbOf returns what a method does with an object, or with a collection; "" for an unknown method.
func verbOf(method string, collection bool, q url.Values) string {
	switch verb := verbs[method]; {
	case collection && verb == "get" && watches(q):
		return "watch"
	case collection && verb == "get":
		return "list"
	case collection && verb == "delete":
		return "deletecollection"
	default:
		return verb
	}
}

// watches reports whether the parameters of a GET ask for a watch: the real server takes any value but two as true.
func watches(q url.Values) bool {
	v, ok := q["watch"]
	return ok && v[0] != "false" && v[0] != "0"
}

// serve serves a routed request.
func (s *Server) serve(w http.ResponseWriter, r *request) error {
	r.writer, r.sent = w, r.kind
	if r.kind.Warning != "" {
		answer.Warn(w, r.kind.Warning)
	}
	switch {
	case r.kind.Review != nil && r.name != "":
		return answer.NoResource()
	case r.kind.Review != nil && r.verb != "create":
		return answer.MethodNotAllowed()
	case r.kind.Review != nil:
		return s.post(r)
	case r.sub != "":
		if err := s.enterSubresource(r); err != nil {
			return err
		}
		if r.verb == "create" {
			return s.post(r)
		}
	}
	if r.sub == "log" {
		return s.log(r)
	}
	var err error
	if r.accept, err = negotiate(r); err != nil {
		return err
	}
	r.accept.Ahead = faults.Ahead(r.Context())
	return handlers[r.verb](s, r)
}

// handlers answer the requests for objects, by verb.
var handlers = map[string]func(*Server, *request) error{"get": (*Server).get, "list": (*Server).list,
	"watch": (*Server).watch, "create": (*Server).create, "update": (*Server).update, "patch": (*Server).patch,
	"delete": (*Server).delete, "deletecollection": (*Server).deleteCollection}

// enterSubresource checks that the kind of a request has its subresource, with the verb.
func (s *Server) enterSubresource(r *request) error {
	table := r.kind.TableName()
	for _, sub := range r.kind.Subresources() {
		if sub.Name != r.sub {
			continue
		}
		if r.sent = sub.Sent(r.kind); !slices.Contains(sub.Verbs, r.verb) {
			return answer.MethodNotAllowed()
		}
		return nil
	}
	switch {
	case slices.Contains(unserved[table], r.sub):
		if s.store.Get(table, store.Key(r.key())) == nil {
			return answer.NotFound(r.kind.Resource, r.name)
		}
		if table == "pods" {
			return answer.NotImplemented("nothing runs in this pod: skiff's embedded API server serves no "+r.sub,
				answer.NoDetails)
		}
		return answer.NotImplemented("the subresource "+r.sub+" of "+r.kind.Plural+" is not served by skiff's "+
			"embedded API server", answer.NoDetails)
	case r.kind.Custom:
		return answer.NotFound(r.kind.Resource, r.name)
	}
	return answer.NoResource()
}

// unserved lists subresources of a real server that this one does not serve; requests for them get an error
// immediately.
var unserved = map[string][]string{
	"pods":     {"exec", "attach", "portforward", "proxy"},
	"services": {"proxy"},
	"nodes":    {"proxy"},
}
