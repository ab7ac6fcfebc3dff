package fakeapi

import "net/http"

func (s *Server) serveDiscovery(w http.ResponseWriter, r *http.Request, path string) bool {
	return false
}
