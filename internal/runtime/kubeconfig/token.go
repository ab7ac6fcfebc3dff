package kubeconfig

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
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
		f := &tokenFile{path: u.TokenFile, where: u.origin.at("tokenFile"), env: env, last: u.Token}
		return f, f.load()
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

// tokenFile is a token that something else rotates on disk.
type tokenFile struct {
	path, where string
	env         Env

	reread reread // one read for many requests

	mu   sync.Mutex // guards the rest; never held while reading
	last Secret     // the last good token
	read time.Time  // when it was read; zero = not yet, or invalidated
	next time.Time  // not read again before, after a failure
}

// Authorization returns the file's token, at most a minute old. While the file is missing, empty or broken, or its
// disk hangs, the last good token is used: a volume that is remounted must not fail requests that the server would
// still accept.
func (f *tokenFile) Authorization(ctx context.Context) (string, error) {
	slow := f.reread.do(ctx, f.due, func() {
		// There is a last good token, so load has warned instead of returning an error.
		f.env.contained(f.where, func() { _ = f.load() })
	})
	if slow {
		f.env.warnf("%s: %s takes longer than %s to read: does its disk hang? The last good token is used",
			f.where, f.path, rereadWait)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return "Bearer " + f.last.reveal(), nil
}

// due says whether the file must be read before the next request.
func (f *tokenFile) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return now.Sub(f.read) >= tokenMaxAge && !now.Before(f.next)
}

// load reads the file, and warns if it cannot but there is a token to use.
func (f *tokenFile) load() error {
	began := time.Now()
	token, err := readToken(f.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.last, f.read, f.next = NewSecret(token), began, time.Time{}
		return nil
	}
	err = fmt.Errorf("%s: %w", f.where, err)
	if !f.last.isSet() {
		return err
	}
	f.env.warnf("%s; the last good token is used", err)
	f.next = time.Now().Add(tokenRetry)
	return nil
}

// Invalidate makes the next request read the file, unless the token was read after t already.
func (f *tokenFile) Invalidate(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read.Before(t) {
		f.read = time.Time{}
	}
}

func readToken(path string) (string, error) {
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
