package fakeapi

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/kinds"
)

// User is the user of a request.
type User = kinds.User

// administrator is the user of Options.Token, and of every request where the server asks for no credentials.
var administrator = User{Name: "admin", Groups: []string{masters, authenticated}}

// identity is who sent a request, or why that is not known. It is in the context of the request.
type identity struct {
	user User
	err  error
}

type identityKey struct{}

// identified returns the request with the identity of its sender, which identityOf finds there.
func (s *Server) identified(r *http.Request) *http.Request {
	user, err := s.authenticate(r)
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, identity{user, err}))
}

func identityOf(r *http.Request) identity {
	id, _ := r.Context().Value(identityKey{}).(identity)
	return id
}

// authenticate returns who sent a request, by its client certificate or else its bearer token. An error means that it
// has neither, or one that is not valid. With RBAC a request without credentials is anonymous.
func (s *Server) authenticate(r *http.Request) (User, error) {
	token := s.token()
	if token == "" && s.opts.ClientCA == nil && len(s.opts.Users) == 0 && !s.opts.RBAC {
		return administrator, nil
	}
	if user, ok := s.certified(r); ok {
		return user, nil
	}
	header := r.Header.Get("Authorization")
	if header == "" && (s.opts.RBAC || public(r)) {
		return User{Name: anonymous, Groups: []string{unauthenticated}}, nil
	}
	if bearer, ok := strings.CutPrefix(header, "Bearer "); ok {
		if user, err := s.bearer(bearer, []string{s.audience()}); err == nil {
			return user, nil
		}
	}
	return User{}, answer.Unauthorized()
}

// bearer returns whom a token names: the administrator, one of the users, or a service account.
func (s *Server) bearer(token string, audiences []string) (User, error) {
	if admin := s.token(); admin != "" && token == admin {
		return administrator, nil
	}
	if user, known := s.opts.Users[token]; known {
		return withGroup(user), nil
	}
	return s.accountOf(token, audiences)
}

// certified returns the user of a client certificate of our authority: its common name is the name, its organizations
// are the groups.
func (s *Server) certified(r *http.Request) (User, bool) {
	if s.opts.ClientCA == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, false
	}
	chain, between := r.TLS.PeerCertificates, x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: s.opts.ClientCA, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if name := chain[0].Subject; err == nil && name.CommonName != "" {
		return withGroup(User{Name: name.CommonName, Groups: name.Organization}), true
	}
	return User{}, false // a request with such a certificate may have a good token
}

// withGroup adds the group of all users whose credentials are good.
func withGroup(u User) User {
	if !slices.Contains(u.Groups, authenticated) {
		u.Groups = append(slices.Clone(u.Groups), authenticated)
	}
	return u
}

// public reports whether a request needs no credentials: probes and the version, which RBAC's default rules allow to
// everybody.
func public(r *http.Request) bool {
	return slices.Contains([]string{"/healthz", "/livez", "/readyz", "/version"}, r.URL.Path)
}
