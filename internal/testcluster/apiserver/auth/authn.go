// Package auth says who sent a request, and what that user may do. Users are known by a client certificate, the
// administrator's token, a token of Options.Users, or one of a service account, which this package also makes. What
// they may do follows from the stored roles and bindings, with the rules and in the words of kube-apiserver's RBAC
// authorizer; the roles that every cluster starts with are here, too.
//
// All runs on the goroutine of the request, without a lock. Roles and bindings are found by two functions of the
// caller, and what one decision costs is bounded by what is stored.
package auth

import (
	"crypto"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/store"
)

// Names of users and groups with a meaning.
const (
	Anonymous       = "system:anonymous"
	Unauthenticated = "system:unauthenticated"
	Authenticated   = "system:authenticated"
	AccountPrefix   = "system:serviceaccount:"
	Masters         = "system:masters" // may do everything, with RBAC too, and use /skiff/
)

// Authenticator knows who the users are.
type Authenticator struct {
	Store    *store.Store          // has the service accounts
	Users    map[string]kinds.User // by their tokens
	ClientCA *x509.CertPool        // signs the certificates of clients; nil: no client has one
	// Key signs the tokens of service accounts; nil means a new one when the first is asked for. Issuer is who they
	// say has issued them, "" that of a usual cluster.
	Key    crypto.Signer
	Issuer string
	// Roles says that roles decide what users may do: then a request without credentials is anonymous.
	Roles bool

	token atomic.Value // the administrator's, a string
}

// SetToken changes the administrator's token. Open requests continue.
func (a *Authenticator) SetToken(token string) { a.token.Store(token) }

func (a *Authenticator) admin() string {
	token, _ := a.token.Load().(string)
	return token
}

// administrator is the user of Options.Token, and of every request where the server asks for no credentials.
var administrator = kinds.User{Name: "admin", Groups: []string{Masters, Authenticated}}

// Authenticate returns who sent a request at a time, by its client certificate or else its bearer token. An error
// means that it has neither, or one that is not valid. With RBAC a request without credentials is anonymous.
func (a *Authenticator) Authenticate(r *http.Request, at time.Time) (kinds.User, error) {
	token := a.admin()
	if token == "" && a.ClientCA == nil && len(a.Users) == 0 && !a.Roles {
		return administrator, nil
	}
	if user, ok := a.certified(r, at); ok {
		return user, nil
	}
	header := r.Header.Get("Authorization")
	if header == "" && (a.Roles || public(r)) {
		return kinds.User{Name: Anonymous, Groups: []string{Unauthenticated}}, nil
	}
	if bearer, ok := strings.CutPrefix(header, "Bearer "); ok {
		if user, err := a.Bearer(bearer, []string{a.Audience()}, at); err == nil {
			return user, nil
		}
	}
	return kinds.User{}, httpd.Unauthorized()
}

// Bearer returns whom a token names: the administrator, one of the users, or a service account.
func (a *Authenticator) Bearer(token string, audiences []string, at time.Time) (kinds.User, error) {
	if admin := a.admin(); admin != "" && token == admin {
		return administrator, nil
	}
	if user, known := a.Users[token]; known {
		return withGroup(user), nil
	}
	return a.accountOf(token, audiences, at)
}

// certified returns the user of a client certificate of our authority: its common name is the name, its organizations
// are the groups.
func (a *Authenticator) certified(r *http.Request, at time.Time) (kinds.User, bool) {
	if a.ClientCA == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return kinds.User{}, false
	}
	chain, between := r.TLS.PeerCertificates, x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: a.ClientCA, Intermediates: between, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if name := chain[0].Subject; err == nil && name.CommonName != "" {
		return withGroup(kinds.User{Name: name.CommonName, Groups: name.Organization}), true
	}
	return kinds.User{}, false // a request with such a certificate may have a good token
}

// withGroup adds the group of all users whose credentials are good.
func withGroup(u kinds.User) kinds.User {
	if !slices.Contains(u.Groups, Authenticated) {
		u.Groups = append(slices.Clone(u.Groups), Authenticated)
	}
	return u
}

// public reports whether a request needs no credentials: probes and the version, which RBAC's default rules allow to
// all users.
func public(r *http.Request) bool {
	return slices.Contains([]string{"/healthz", "/livez", "/readyz", "/version"}, r.URL.Path)
}
