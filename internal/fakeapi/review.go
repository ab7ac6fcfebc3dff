package fakeapi

import (
	"net/http"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
)

// review answers the POST of a review, such as "may I do this?", which is not stored.
func (s *Server) review(w http.ResponseWriter, r *request) error {
	switch {
	case r.name != "":
		return answer.NoResource()
	case r.verb != "create":
		return answer.MethodNotAllowed()
	}
	o, err := s.readObject(w, r)
	if err != nil {
		return err
	}
	if o, err = s.admitPosted(r, o); err != nil {
		return err
	}
	status, causes := r.kind.Review(o, r.user)
	if len(causes) > 0 {
		// without the kind, as on the real server
		return answer.Invalid(kube.StatusDetails{Group: r.kind.Group}, causes)
	}
	switch {
	case r.kind.Group == "authorization.k8s.io":
		if s.opts.RBAC {
			if status, err = s.judge(r, o); err != nil {
				return err
			}
		}
		recordOwner(r, managerOf(r), o, nil)
	case r.kind.Plural == "tokenreviews":
		if status, err = s.authn.Review(o); err != nil {
			return err
		}
		recordOwner(r, managerOf(r), o, nil)
	default:
		obj.Set(o, now(), "metadata", "creationTimestamp")
	}
	if r.kind.Plural == "selfsubjectrulesreviews" { // the real server answers without the question
		o = map[string]any{"metadata": map[string]any{}, "spec": map[string]any{}}
	}
	o["status"] = status
	answer.Bytes(w, http.StatusCreated, forms.WithType(r.kind, answer.Encode(o)))
	return nil
}
