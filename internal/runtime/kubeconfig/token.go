package kubeconfig

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// tokenMaxAge is how long the content of a token file is used before the file is read again: 60 s less 10 s of
// leeway, as in client-go. Kubelet renews a projected token at 80 % of its life, which is ten minutes at least.
const tokenMaxAge = 50 * time.Second

// tokenRetry is how soon a read is tried again after a failure. A file is replaced in milliseconds; a request storm
// must not become a storm of reads and warnings.
const tokenRetry = 5 * time.Second

// authorization returns the credentials of the user's token or password, nil without either. With both a token file
// and a token, the token is used until the file can be read, as in kubectl after the first refresh.
func (u *user) authorization(env Env) (kube.Credentials, error) {
	switch {
	case u.basic():
		return u.basicAuth()
	case u.TokenFile != "":
		return u.tokenFile(env)
	case u.Token.isSet():
		token := strings.TrimRight(u.Token.reveal(), " \t") // net/http drops them, too
		if err := validToken(token); err != nil {
			return nil, fmt.Errorf("%s: %w", u.origin.at("token"), err)
		}
		return &fixedAuth{NewSecret("Bearer " + token)}, nil
	case u.AuthProvider != nil && u.AuthProvider.Name == oidc && u.credentialField() == "" && u.Exec == nil:
		return u.oidcAuth()
	}
	return nil, nil
}

// basic says whether the user has a name and password (basic authentication).
func (u *user) basic() bool { return u.Username.isSet() || u.Password.isSet() }

func (u *user) basicAuth() (kube.Credentials, error) {
	if strings.Contains(u.Username.reveal(), ":") {
		return nil, fmt.Errorf("%s: holds a colon, which basic authentication cannot carry", u.origin.at("username"))
	}
	pair := base64.StdEncoding.EncodeToString([]byte(u.Username.reveal() + ":" + u.Password.reveal()))
	return &fixedAuth{NewSecret("Basic " + pair)}, nil
}

// validToken refuses characters that no header can carry. The error of net/http would quote the token.
func validToken(token string) error {
	for _, c := range []byte(token) {
		if c <= ' ' || c >= 0x7f {
			return errors.New("is not a token: it holds white space or characters that a header cannot carry")
		}
	}
	return nil
}

// fixedAuth is an Authorization header that never changes.
type fixedAuth struct{ header Secret }

func (a *fixedAuth) Authorization(context.Context) (string, error) { return a.header.reveal(), nil }
func (a *fixedAuth) Invalidate(time.Time)                          {} // there is no other

// oidc is the only auth provider left in kubectl, which refreshes the token and writes a new one into the kubeconfig;
// skiff uses the token found there.
const oidc = "oidc"

// oidcToken is the token of the auth provider oidc, until it expires.
type oidcToken struct {
	fixedAuth
	where   string
	expires time.Time
}

func (u *user) oidcAuth() (kube.Credentials, error) {
	where := u.origin.at("auth-provider")
	token := u.AuthProvider.Config["id-token"].reveal()
	if token == "" {
		return nil, fmt.Errorf("%s: it has no id-token: run a kubectl command, which gets one, or use an exec "+
			"plugin: kubelogin (kubectl oidc-login)", where)
	}
	if err := validToken(token); err != nil {
		return nil, fmt.Errorf("%s: id-token: %w", where, err)
	}
	expires, err := expiryOf(token)
	if err != nil {
		return nil, fmt.Errorf("%s: id-token: %w", where, err)
	}
	t := &oidcToken{fixedAuth{NewSecret("Bearer " + token)}, where, expires}
	return t, t.expired()
}

func (t *oidcToken) expired() error {
	if time.Now().Before(t.expires) {
		return nil
	}
	return fmt.Errorf("%s: the id-token expired at %s, and skiff does not refresh it: run a kubectl command, which "+
		"does, and start skiff again, or use an exec plugin: kubelogin (kubectl oidc-login)", t.where,
		t.expires.Format(time.RFC3339))
}

// Authorization implements kube.Credentials.
func (t *oidcToken) Authorization(ctx context.Context) (string, error) {
	if err := t.expired(); err != nil {
		return "", err
	}
	return t.fixedAuth.Authorization(ctx)
}

// expiryOf reads when a JWT expires. Its signature is the server's to check.
func expiryOf(token string) (time.Time, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, errors.New("is not a JWT of three parts")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, errors.New("is not a JWT: its second part is not base64")
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if err := json.Unmarshal(text, &claims); err != nil || claims.Expires <= 0 {
		return time.Time{}, errors.New("is not a JWT that says when it expires (exp)")
	}
	return time.Unix(int64(min(claims.Expires, maxExpiry)), 0), nil
}

// maxExpiry is the end of the year 9999, the last that RFC 3339 has.
const maxExpiry = 253402300799

// tokenFile is a token that another program rotates on disk.
type tokenFile struct{ rotated[Secret] }

func (u *user) tokenFile(env Env) (kube.Credentials, error) {
	where := u.origin.at("tokenFile")
	f := &tokenFile{rotated[Secret]{env: env, where: where + ": " + u.TokenFile, kept: "the last good token is used",
		age: tokenMaxAge, retry: tokenRetry, refused: tokenRetry, value: u.Token}}
	f.read = func() (Secret, error) {
		token, err := ReadToken(u.TokenFile)
		if err != nil {
			return Secret{}, fmt.Errorf("%s: %w", where, err)
		}
		return NewSecret(token), nil
	}
	if err := f.load(); err != nil {
		if !u.Token.isSet() {
			return nil, err
		}
		f.warn(err)
	}
	return f, nil
}

// Authorization returns the file's token, at most a minute old. While a volume is remounted, the last good token is
// used: the server may still accept requests with it.
func (f *tokenFile) Authorization(ctx context.Context) (string, error) {
	return bearer(f.get(ctx)), nil
}

// ReadToken returns the token in a file, without the white space around it.
func ReadToken(path string) (string, error) {
	data, err := ReadFile(path)
	if err != nil {
		return "", err
	}
	token := string(bytes.TrimSpace(data))
	if token == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	if err := validToken(token); err != nil {
		return "", fmt.Errorf("%s %w", path, err)
	}
	return token, nil
}
