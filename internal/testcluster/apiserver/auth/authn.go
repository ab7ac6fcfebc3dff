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
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
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

// JSON Web Tokens are signed with the two algorithms that kube-apiserver's service account tokens are signed with by
// usual keys: ES256 (ECDSA, P-256) and RS256 (RSA). What a token says is not the matter of this file.

// maxToken bounds a token; those of service accounts have about a thousand bytes.
const maxToken = 16 << 10

type header struct {
	Algorithm string `json:"alg"`
}

var (
	errForm      = errors.New("invalid bearer token")
	errSignature = errors.New("the signature of the token is not valid")
)

func algorithm(public crypto.PublicKey) (string, error) {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return "ES256", nil
		}
	case *rsa.PublicKey:
		return "RS256", nil
	}
	return "", fmt.Errorf("a %T cannot sign tokens: use an RSA key, or an ECDSA key on P-256", public)
}

// publicKey returns a public key as a JSON Web Key. Its ID is a hash of it, as with kube-apiserver.
func publicKey(public crypto.PublicKey) (map[string]any, error) {
	alg, err := algorithm(public)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encode the public key: %w", err)
	}
	sum, text := sha256.Sum256(der), base64.RawURLEncoding.EncodeToString
	key := map[string]any{"use": "sig", "kid": text(sum[:]), "alg": alg}
	if p, ok := public.(*rsa.PublicKey); ok {
		key["kty"], key["n"], key["e"] = "RSA", text(p.N.Bytes()), text(big.NewInt(int64(p.E)).Bytes())
		return key, nil
	}
	point := der[len(der)-64:] // X and Y are the end of the encoding
	key["kty"], key["crv"], key["x"], key["y"] = "EC", "P-256", text(point[:32]), text(point[32:])
	return key, nil
}

// Sign returns a token with the claims, which are encoded as JSON.
func Sign(key crypto.Signer, claims any) (string, error) {
	public, err := publicKey(key.Public())
	if err != nil {
		return "", err
	}
	head, err := json.Marshal(map[string]any{"alg": public["alg"], "kid": public["kid"]})
	body, bodyErr := json.Marshal(claims)
	if err := errors.Join(err, bodyErr); err != nil {
		return "", fmt.Errorf("encode the token: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	if k, ok := key.(*ecdsa.PrivateKey); ok {
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			return "", fmt.Errorf("sign the token: %w", err)
		}
		signature = make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
	} else if signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return text + "." + encode(signature), nil
}

// Verify checks the signature of a token, which has to be by this key, and decodes the claims. It does not look at
// what they say.
func Verify(token string, key crypto.PublicKey, claims any) error {
	alg, err := algorithm(key)
	if err != nil {
		return err
	}
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return errForm
	}
	var decoded [3][]byte
	for i, p := range parts {
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(p); err != nil {
			return errForm
		}
	}
	var head header
	if err := json.Unmarshal(decoded[0], &head); err != nil {
		return errForm
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if head.Algorithm != alg || !signedBy(key, sum[:], decoded[2]) {
		return errSignature
	}
	if err := json.Unmarshal(decoded[1], claims); err != nil {
		return errForm
	}
	return nil
}

func signedBy(key crypto.PublicKey, sum, signature []byte) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return len(signature) == 64 && ecdsa.Verify(k, sum, new(big.Int).SetBytes(signature[:32]),
			new(big.Int).SetBytes(signature[32:]))
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum, signature) == nil
	}
	return false
}
