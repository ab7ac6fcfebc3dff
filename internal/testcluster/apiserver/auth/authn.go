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
	"encoding/base64"
	"errors"
	"fmt"
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
	// Roles says that roles decide what users may do: then the server asks for credentials, even if it knows none.
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
// means that what it has is not valid. A request without credentials is anonymous.
func (a *Authenticator) Authenticate(r *http.Request, at time.Time) (kinds.User, error) {
	token := a.admin()
	if token == "" && a.ClientCA == nil && len(a.Users) == 0 && !a.Roles {
		return administrator, nil
	}
	user, untrusted := a.certified(r, at)
	if user.Name != "" {
		return user, nil
	}
	bearer, err := bearerOf(r)
	if err == nil && bearer != "" { // good also beside a certificate that is not
		if user, err = a.Bearer(bearer, []string{a.Audience()}, at); err == nil {
			return user, nil
		}
	}
	if err != nil || untrusted != nil {
		return kinds.User{}, httpd.Unauthorized()
	}
	return kinds.User{Name: Anonymous, Groups: []string{Unauthenticated}}, nil
}

// bearerOf returns the token of a request, "" if it has none: that of the header, or of the subprotocols of a
// WebSocket, because a browser sets no headers of those.
func bearerOf(r *http.Request) (string, error) {
	words := strings.SplitN(strings.TrimSpace(r.Header.Get("Authorization")), " ", 3)
	if len(words) > 1 && strings.EqualFold(words[0], "bearer") && words[1] != "" {
		return words[1], nil
	}
	const prefix = "base64url.bearer.authorization.k8s.io."
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return "", nil
	}
	var token []byte
	var err error
	others := 0
	for p := range strings.SplitSeq(strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ","), ",") {
		encoded, ok := strings.CutPrefix(strings.TrimSpace(p), prefix)
		switch {
		case !ok:
			others++
		case token != nil:
			return "", errors.New("the subprotocols have two tokens")
		default:
			if token, err = base64.RawURLEncoding.DecodeString(encoded); err != nil {
				return "", fmt.Errorf("decode the token of the subprotocols: %w", err)
			}
		}
	}
	if token != nil && others == 0 {
		return "", errors.New("the subprotocols have nothing but a token")
	}
	return string(token), nil
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

// certified returns the user of a client certificate: its common name is the name, its organizations are the groups.
// Without either there is no user. The error says that the certificate is not one of our authority.
func (a *Authenticator) certified(r *http.Request, at time.Time) (kinds.User, error) {
	if a.ClientCA == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return kinds.User{}, nil
	}
	chain, between := r.TLS.PeerCertificates, x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: a.ClientCA, Intermediates: between, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if name := chain[0].Subject; err == nil && name.CommonName != "" {
		return withGroup(kinds.User{Name: name.CommonName, Groups: name.Organization}), nil
	}
	return kinds.User{}, err
}

// withGroup adds the group of all users whose credentials are good.
func withGroup(u kinds.User) kinds.User {
	if !slices.Contains(u.Groups, Authenticated) {
		u.Groups = append(slices.Clone(u.Groups), Authenticated)
	}
	return u
}

// Public reports whether RBAC's default rules allow an action to all users, the anonymous one included: to probe, and
// to ask for the version.
func Public(a Action) bool {
	public := []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}
	return a.Verb == "get" && slices.Contains(public, a.Path)
}
