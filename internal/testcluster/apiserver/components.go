package apiserver

import (
	"net/http"
	"slices"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/store"
)

// readComponents answers for the components of a control plane, in whose place this server is: all are healthy.
func (s *Server) readComponents(r *request) error {
	var all []*store.Object
	for _, name := range []string{"scheduler", "controller-manager", "etcd-0"} {
		all = append(all, store.NewObject(store.Key{Name: name}, 0, map[string]any{
			"metadata":   map[string]any{"name": name},
			"conditions": []any{map[string]any{"type": "Healthy", "status": "True", "message": "ok"}}}, nil))
	}
	if r.verb == "list" {
		o, err := s.parseListOptions(r)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(c *store.Object) bool { return !o.selects(c) })
		return writeList(r.writer, r.kind, r.accept, map[string]any{}, all)
	}
	i := slices.IndexFunc(all, func(c *store.Object) bool { return c.Name == r.name })
	if i < 0 {
		of := r.kind.Resource
		of.Plural = "componentstatus" // in the real server's words
		return httpd.NotFound(of, r.name)
	}
	return s.respond(r, http.StatusOK, all[i])
}
