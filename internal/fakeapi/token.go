package fakeapi

import (
	"net/http"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/authn"
	"skiff/internal/fakeapi/fields"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

// createToken answers POST serviceaccounts/NAME/token.
func (s *Server) createToken(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return answer.MethodNotAllowed()
	}
	question, form := *r, fields.For(authn.TokenRequests.APIVersion(), authn.TokenRequests.Kind)
	question.kind = &kinds.Kind{Resource: authn.TokenRequests, Type: form, Unknown: form.Prune}
	o, err := s.readObject(w, &question)
	if err != nil {
		return err
	}
	details := kube.StatusDetails{Group: authn.TokenRequests.Group, Kind: authn.TokenRequests.Kind, Name: r.name}
	for field, want := range map[string]string{"name": r.name, "namespace": r.namespace} {
		if have := obj.String(o, "metadata", field); have != "" && have != want {
			return answer.Invalid(details, []kinds.Cause{kinds.Invalid("metadata."+field, have,
				"must match the service account "+field+" if specified")})
		}
	}
	account := s.store.Get("serviceaccounts", store.Key(r.key()))
	if account == nil {
		return answer.NotFound(r.kind.Resource, r.name)
	}
	if o, err = s.admitPosted(r, o); err != nil {
		return err
	}
	if err := s.authn.Issue(o, r.key(), obj.String(account.Value(), "metadata", "uid")); err != nil {
		return err
	}
	answer.Bytes(w, http.StatusCreated, forms.WithType(question.kind, answer.Encode(o)))
	return nil
}
