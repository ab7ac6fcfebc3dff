package fakeapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/kinds"
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
	req.kind = s.registry.find(group, version, parts[0])
	if req.kind == nil || len(parts) > 3 || req.namespace != "" && req.kind.ClusterScoped {
		if s.registry.builtinGroup(group) {
			return nil, answer.NoResource()
		}
		return nil, answer.NoSuchPath{}
	}
	if len(parts) > 1 {
		req.name = parts[1]
	}
	if len(parts) > 2 {
		req.sub = parts[2]
	}
	if req.name != "" && req.namespace == "" && !req.kind.ClusterScoped {
		if req.kind.Custom {
			return nil, answer.NoSuchPath{}
		}
		return nil, answer.NoResource()
	}
	return req, req.setVerb()
}

func (r *request) setVerb() error {
	collection := r.name == ""
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		r.verb = "get"
		if collection {
			r.verb = "list"
			if watches(r.query) {
				r.verb = "watch"
			}
		}
	case http.MethodPost:
		r.verb = "create"
		if !collection && r.sub == "" {
			return answer.MethodNotAllowed()
		}
		if r.namespace == "" && !r.kind.ClusterScoped {
			return r.noSuchEndpoint()
		}
	case http.MethodPut, http.MethodPatch:
		r.verb = map[string]string{http.MethodPut: "update", http.MethodPatch: "patch"}[r.Method]
		if collection {
			return answer.MethodNotAllowed()
		}
	case http.MethodDelete:
		r.verb = "delete"
		if collection {
			r.verb = "deletecollection"
		}
		if collection && r.namespace == "" && !r.kind.ClusterScoped {
			return r.noSuchEndpoint()
		}
	default:
		return answer.MethodNotAllowed()
	}
	return nil
}

// watches reports whether the parameters of a GET ask for a watch: the real server takes any value but two as true.
func watches(q url.Values) bool {
	v, ok := q["watch"]
	return ok && v[0] != "false" && v[0] != "0"
}

// noSuchEndpoint reports a write to all namespaces at once: only reads have such an endpoint.
func (r *request) noSuchEndpoint() error {
	if r.kind.Custom {
		return answer.NoSuchPath{}
	}
	return answer.MethodNotAllowed()
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
	switch r.verb {
	case "get":
		return s.get(r)
	case "list":
		return s.list(r)
	case "watch":
		return s.watch(r)
	case "create":
		return s.create(r)
	case "update":
		return s.update(r)
	case "patch":
		return s.patch(r)
	case "delete":
		return s.delete(r)
	}
	return s.deleteCollection(r)
}

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
