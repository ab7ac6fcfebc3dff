package kubeconfig

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// tokenMaxAge is how long the content of a token file is used before the file is read again: 60 s less 10 s of
// leeway, as in client-go. Kubelet renews a projected token at 80 % of its life, which is ten minutes at least.
const tokenMaxAge = 50 * time.Second

// tokenRetry is how soon a file that could not be read is tried again. A file is replaced in milliseconds; a request
// storm must not become a storm of reads and warnings.
const tokenRetry = 5 * time.Second

// authorization returns the credentials of the user's token or password, nil if it has neither. With both a token
// file and a token the file counts, and the token is used until the file can be read: what kubectl does once its
// first refresh is due.
func (u *user) authorization(env Env) (kube.Credentials, error) {
	switch {
	case u.basic():
		return u.basicAuth()
	case u.TokenFile != "":
		return u.tokenFile(env)
	case u.Token.isSet():
		if err := validToken(u.Token.reveal()); err != nil {
			return nil, fmt.Errorf("%s: %w", u.origin.at("token"), err)
		}
		return &fixedAuth{NewSecret("Bearer " + u.Token.reveal())}, nil
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

// validToken refuses what cannot stand in a header; net/http would refuse it too, but quote it.
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

// Authorization returns the file's token, at most a minute old. A volume that is remounted must not fail requests that
// the server would still accept, so the last good token is used meanwhile.
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
