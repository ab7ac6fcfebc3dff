package apiserver

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// request is a request with what its path says and who sent it; and, once it is routed, with the kind that it is for.
type request struct {
	*http.Request
	parts           []string      // of the path
	forResource     bool          // the path is that of a resource, served or not
	asked           kube.Resource // by the path; without a kind
	kind            *kinds.Kind   // nil before it is authorized, and where nothing is served under the path
	sent            *kinds.Kind   // of what is sent and answered: kind, unless the subresource has one of its own
	verb            string        // get list watch create update patch delete deletecollection
	namespace, name string
	sub             string   // subresource
	prefix          string   // of the path: "watch", as in /api/v1/watch/pods, which is deprecated, or "proxy"
	deeper          bool     // the path goes on below the subresource
	warnings        []string // to send with the answer
	writer          http.ResponseWriter
	accept          forms.Accept
	warner          *httpd.Warner // made when something is to be warned of
	keepBody        bool          // the body may be needed again, unchanged
	bodies          *budget       // of the server
	claimed         int           // of that
	inYAML          bool          // writer turns the answer into YAML
	user            kinds.User
	noUser          error // why the credentials are not good
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

// readPath reads what a request is for as the real server does, whether that is served or not: /api/V/... and
// /apis/G/V/..., each followed by [watch/][namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]. Another path leaves all of
// that empty.
func readPath(r *http.Request) *request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	req := &request{Request: r, query: r.URL.Query(), parts: parts}
	switch {
	case parts[0] == "api" && len(parts) > 2:
		req.asked.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		req.asked.Group, req.asked.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return req
	}
	if parts[0] == "watch" || parts[0] == "proxy" {
		req.prefix, parts = parts[0], append(parts[1:], "")
	}
	// "namespaces" precedes an object in a namespace, or is the resource itself.
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains([]string{"", "status", "finalize"}, parts[2]) {
		req.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	req.forResource = true
	req.asked.Plural, req.name, req.sub = parts[0], parts[1], parts[2]
	req.deeper = strings.Join(parts[3:], "") != ""
	switch verb := verbs[r.Method]; {
	case req.prefix != "":
		req.verb = req.prefix
	case req.name == "" && verb == "get" && watches(req.query):
		req.verb = "watch"
	case req.name == "" && verb == "get":
		req.verb = "list"
	case req.name == "" && verb == "delete":
		req.verb = "deletecollection"
	default:
		req.verb = verb
	}
	return req
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodGet: "get", http.MethodHead: "get",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// serveDocument answers a request whose path is not that of a resource.
func (s *Server) serveDocument(r *request) error {
	err := httpd.Discovery(r.writer, r.Request, s.opts.Features, &s.openAPI, s.registry.all())
	if err == httpd.NoSuchPath {
		err = s.authn.ServeOpenID(r.writer, r.Request)
	}
	root, n := r.parts[0], len(r.parts)
	if err == httpd.NoSuchPath && (root == "version" || root == "api" && n == 2 ||
		root == "apis" && n == 3 && s.registry.builtinGroup(r.parts[1])) {
		return httpd.NoResource() // an unknown version of a known group
	}
	return err
}

// route refuses what the path of a resource does not have.
func (s *Server) route(r *request) error {
	if r.prefix != "" && r.asked.Plural == "" {
		return httpd.Plain{Code: http.StatusInternalServerError, Text: fmt.Sprintf("Internal Server Error: %q: "+
			"failed to create RequestInfo: unable to determine kind and namespace from url, %s", r.RequestURI, r.URL)}
	}
	switch {
	case r.kind == nil && !s.registry.builtinGroup(r.asked.Group):
		return httpd.NoSuchPath
	case r.kind == nil:
		return httpd.NoResource()
	}
	enter := (*request).enterBuiltin
	if r.kind.Custom {
		enter = (*request).enterCustom
	}
	if err := enter(r); err != nil || r.verb == "update" { // which is refused for its body first
		return err
	}
	return r.checkName()
}

// subresource returns the one that a request is for; nil if its kind has none of that name.
func (r *request) subresource() *kinds.Subresource {
	for _, sub := range r.kind.Subresources() {
		if sub.Name == r.sub {
			r.sent = sub.Sent(r.kind)
			return sub
		}
	}
	return nil
}

// enterBuiltin refuses a path without a route, then a method that the route does not have.
func (r *request) enterBuiltin() error {
	r.sent = r.kind
	everywhere, sub, allowed := r.namespace == "" && !r.kind.ClusterScoped, r.subresource(), r.kind.Verbs()
	switch {
	case r.kind.ClusterScoped && r.namespace != "", everywhere && (r.name != "" || r.kind.Review != nil),
		r.kind.Review != nil && (r.name != "" || r.prefix != ""), r.prefix == "proxy",
		r.sub != "" && (sub == nil || r.prefix != ""), r.deeper && r.sub != "proxy":
		return httpd.NoResource()
	case sub != nil:
		allowed = sub.Verbs
	case everywhere:
		allowed = []string{"list", "watch"}
	}
	collection := slices.Contains([]string{"list", "watch", "create", "deletecollection"}, r.verb)
	switch {
	case r.kind.ReadOnly && r.verb == "watch":
		httpd.Warn(r.writer, r.kind.Warning)
		return httpd.NotSupported(r.kind.Resource, r.verb)
	case r.sub == "proxy" && (r.Method == http.MethodHead || r.Method == http.MethodOptions):
	case r.Method == http.MethodHead, r.prefix != "" && r.Method != http.MethodGet, !slices.Contains(allowed, r.verb),
		sub == nil && r.prefix == "" && collection != (r.name == ""):
		return httpd.MethodNotAllowed()
	}
	return nil
}

// enterCustom refuses a path or a verb that a custom resource does not have.
func (r *request) enterCustom() error {
	r.sent = r.kind
	everywhere, sub, allowed := r.namespace == "" && !r.kind.ClusterScoped, r.subresource(), r.kind.Verbs()
	switch {
	case r.kind.ClusterScoped && r.namespace != "", everywhere && r.verb != "list" && r.verb != "watch":
		return httpd.NoSuchPath
	case r.sub != "" && sub == nil:
		return httpd.NotFound(r.kind.Resource, r.name)
	case sub != nil:
		allowed = sub.Verbs
	}
	switch {
	case !slices.Contains(allowed, r.verb):
		return httpd.NotSupported(r.kind.Resource, r.verb)
	case r.name == "" && (r.verb == "update" || r.verb == "patch"):
		return httpd.BadRequest("name must be provided")
	case r.verb == "create":
		r.name = "" // the body says which
	}
	return nil
}

func (r *request) checkName() error {
	if why := obj.PathSegment(r.name); len(why) > 0 {
		return httpd.BadRequest("Name parameter invalid: %q: %s", r.name, strings.Join(why, ";"))
	}
	return nil
}

// checkTimeout refuses a timeout that cannot be read, but of a request that may last longer than others.
func (r *request) checkTimeout() error {
	timeout := r.query.Get("timeout")
	long := r.verb == "watch" || r.sub == "log" || r.prefix == "proxy" || kinds.Connects(r.sub)
	if _, err := time.ParseDuration(timeout); err != nil && timeout != "" && (r.kind == nil || !long) {
		return httpd.BadRequest("invalid timeout specified in the request URL - %v", err)
	}
	return nil
}

// watches reports whether the parameters of a GET ask for a watch: the real server takes any value but two as true.
func watches(q url.Values) bool {
	v, ok := q["watch"]
	return ok && v[0] != "0" && !strings.EqualFold(v[0], "false")
}

func (s *Server) serve(r *request) error {
	if r.kind.Warning != "" {
		httpd.Warn(r.writer, r.kind.Warning)
	}
	switch {
	case r.sub == "log":
		return s.log(r)
	case kinds.Connects(r.sub):
		return s.connect(r)
	}
	if prefersProtobuf(r, r.sent) {
		r.accept.Protobuf = true
	} else {
		var err error
		r.accept, err = forms.Negotiate(r.Request, r.kind, r.verb == "list" || r.verb == "watch", !posts(r))
		if err != nil {
			return err
		}
		r.accept.Protobuf = r.accept.Protobuf && !faults.Rewrites(r.Context())
	}
	if posts(r) {
		return s.post(r)
	}
	r.accept.Ahead = faults.Ahead(r.Context())
	if r.kind.ReadOnly {
		return s.readComponents(r)
	}
	return handlers[r.verb](s, r)
}

// handlers answer the requests for objects, by verb.
var handlers = map[string]func(*Server, *request) error{"get": (*Server).get, "list": (*Server).list,
	"watch": (*Server).watch, "create": (*Server).create, "update": (*Server).update, "patch": (*Server).patch,
	"delete": (*Server).delete, "deletecollection": (*Server).deleteCollection}

// connect refuses to open a connection to what a pod, a Service or a node would run.
func (s *Server) connect(r *request) error {
	switch {
	case len(r.query["dryRun"]) > 0:
		return httpd.BadRequest("dryRun is not supported")
	case s.store.Get(r.kind.TableName(), store.Key(r.key())) == nil:
		return httpd.NotFound(r.kind.Resource, r.name)
	case r.kind.Kind == "Pod":
		return httpd.NotImplemented("nothing runs in this pod: skiff's embedded API server serves no "+r.sub,
			httpd.NoDetails)
	}
	return httpd.NotImplemented("the subresource "+r.sub+" of "+r.kind.Plural+" is not served by skiff's "+
		"embedded API server", httpd.NoDetails)
}
