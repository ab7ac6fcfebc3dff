package fakeapi

import (
	"net/http"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
)

// review answers the POST of a review, such as "may I do this?", which is not stored.
func (s *Server) review(w http.ResponseWriter, r *request) error {
	switch {
	case r.name != "":
		return noResource()
	case r.verb != "create":
		return methodNotAllowed()
	}
	o, err := s.readObject(w, r)
	if err != nil {
		return err
	}
	status, causes := r.kind.Review(o, userOf(r))
	if len(causes) > 0 {
		return invalid(kube.StatusDetails{Group: r.kind.Group}, causes) // without the kind, as on the real server
	}
	o["status"] = status
	obj.Set(o, now(), "metadata", "creationTimestamp")
	writeBytes(w, http.StatusCreated, withType(r.kind, marshal(o)))
	return nil
}

// userOf returns the user of a request: the impersonated one, or the administrator, as there are no other users.
func userOf(r *request) kinds.User {
	if name := r.Header.Get("Impersonate-User"); name != "" {
		return kinds.User{Name: name, Groups: append(r.Header.Values("Impersonate-Group"), "system:authenticated")}
	}
	return kinds.User{Name: "admin", Groups: []string{"system:masters", "system:authenticated"}}
}
