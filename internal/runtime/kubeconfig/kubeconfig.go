// Package kubeconfig finds out where to connect and as whom: connection flags, kubeconfig files and the service
// account of a pod become one kube.Config and a default namespace.
//
// Its job: kubeconfig merge rules, TLS settings, and credentials that follow rotated files.
// Not its job: requests (kube makes them) and flag registration (cli does).
//
// Load runs once, on the caller's goroutine. Later, kube's request goroutines call tokenFile and plugin for each
// request, caFile and keyPair for each TLS handshake. A read of rotated files has its own goroutine, and so has a run
// of an exec plugin, for a minute at most; requests that need the result wait. No code here is on the event path.
package kubeconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// Flags are the connection flags of the command line, the same on each command with a server. A set field overrides
// the kubeconfig and the pod's service account.
type Flags struct {
	Kubeconfig            string        // --kubeconfig: no other file; must exist
	Context               string        // --context
	Server                string        // --server
	Token                 Secret        // --token
	TokenFile             string        // --token-file
	CertificateAuthority  string        // --certificate-authority
	TLSServerName         string        // --tls-server-name
	InsecureSkipTLSVerify bool          // --insecure-skip-tls-verify
	InsecureLoopbackHTTP  bool          // --insecure-loopback-http: credentials may go to this machine over plain http
	As                    string        // --as
	AsGroups              []string      // --as-group, repeatable
	RequestTimeout        time.Duration // --request-timeout, 0 = kube's default
	Wire                  string        // --wire: auto or json
	Namespace             string        // --namespace, where the command has the flag
}

// Env is the process around Load.
type Env struct {
	Getenv            func(string) string
	Home              string           // directory that holds .kube/config; "" = none
	ServiceAccountDir string           // where kubelet mounts token, ca.crt and namespace
	Warn              func(msg string) // non-fatal findings, also later ones (a token file gone); nil = dropped
}

// OSEnv is the Env of this process. warn may be called from any goroutine.
func OSEnv(warn func(msg string)) Env {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // no home directory: only flags, KUBECONFIG and the pod's service account are left
	}
	return Env{
		Getenv:            os.Getenv,
		Home:              home,
		ServiceAccountDir: "/var/run/secrets/kubernetes.io/serviceaccount", // fixed by the kubelet
		Warn:              warn,
	}
}

func (e Env) warnf(format string, args ...any) {
	if e.Warn != nil {
		e.Warn(fmt.Sprintf(format, args...))
	}
}

// contained calls f, which reads files of other programs on its own goroutine. A panic in f is a warning; the last
// value stays in use.
func (e Env) contained(where string, f func()) {
	if err := process.Contain(where, func() error { f(); return nil }); err != nil {
		e.warnf("%v; what was read before is used", err)
	}
}

// The reasons for which there is no connection to try; Load's error wraps one of them.
var (
	ErrNoConfig       = errors.New("no cluster configured")
	ErrNotInCluster   = errors.New("not in a cluster")
	ErrUnknownContext = errors.New("no such context")
)

// NoContextError is a kubeconfig with several contexts, of which none is chosen.
type NoContextError struct {
	Files    string
	Contexts []string
}

// Error names the files.
func (e *NoContextError) Error() string { return e.Files + ": current-context is not set" }

// LoopbackHTTPError is a credential that would go to this machine over plain http, which InsecureLoopbackHTTP allows.
type LoopbackHTTPError struct{ Err error }

// Error is the error for a server elsewhere.
func (e *LoopbackHTTPError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *LoopbackHTTPError) Unwrap() error { return e.Err }

// Load decides where to connect and as whom, and returns the default namespace with it. The base is the first that
// exists of: the file of --kubeconfig; the files of KUBECONFIG or else ~/.kube/config, merged; the pod's service
// account. Flags then override single fields. With --server and no kubeconfig the flags stand alone, so that a pod's
// token never goes to another server.
func Load(f Flags, env Env) (kube.Config, string, error) {
	base, err := loadBase(f, env)
	if err != nil {
		return kube.Config{}, "", err
	}
	if err := base.override(f); err != nil {
		return kube.Config{}, "", err
	}
	base.loopbackHTTP = f.InsecureLoopbackHTTP
	cfg, err := base.config(env)
	if err != nil {
		return kube.Config{}, "", err
	}
	cfg.Timeout = f.RequestTimeout
	return cfg, base.defaultNamespace(f), nil
}

// target is one choice of cluster, user and namespace, before the flags and after.
type target struct {
	cluster      cluster
	user         user
	namespace    string
	context      string // "": the cluster has no name
	loopbackHTTP bool   // credentials may go to this machine over plain http
}

func loadBase(f Flags, env Env) (*target, error) {
	files, err := loadFiles(f, env)
	if err != nil {
		return nil, err
	}
	context := f.Context
	if context == "" {
		context = files.CurrentContext
	}
	switch {
	case context != "":
		return files.target(context)
	case f.Server != "":
		return &target{}, nil
	case !files.empty():
		return nil, &NoContextError{files.name(), files.contextNames()}
	case f.Kubeconfig != "":
		return nil, fmt.Errorf("%s: %w: the file has no contexts", f.Kubeconfig, ErrNoConfig)
	}
	t, err := inCluster(env)
	if errors.Is(err, ErrNotInCluster) {
		return nil, fmt.Errorf("%w: %w", ErrNoConfig, err)
	}
	return t, err
}

// override puts the flags over the base, field by field.
func (t *target) override(f Flags) error {
	c, u := &t.cluster, &t.user
	if f.Server != "" {
		c.Server, c.origin = f.Server, c.origin.with("server", "--server")
		c.TLSServerName, t.context = "", "" // they belonged to the other server
	}
	if f.TLSServerName != "" {
		c.TLSServerName, c.origin = f.TLSServerName, c.origin.with("tls-server-name", "--tls-server-name")
	}
	if f.InsecureSkipTLSVerify {
		c.Insecure, c.origin = true, c.origin.with("insecure-skip-tls-verify", "--insecure-skip-tls-verify")
		c.CA, c.CAData = "", "" // the flag is the explicit way out of a CA configured elsewhere
	}
	if f.CertificateAuthority != "" {
		c.CA, c.CAData = f.CertificateAuthority, ""
		c.origin = c.origin.with("certificate-authority", "--certificate-authority")
	}
	if f.Token.isSet() && f.TokenFile != "" {
		return errors.New("--token and --token-file: give one of them")
	}
	if f.Token.isSet() || f.TokenFile != "" {
		// A token on the command line replaces every credential of the user: the server would prefer a client
		// certificate sent beside it, and the flag would silently have no effect.
		*u = user{Token: f.Token, TokenFile: f.TokenFile,
			As: u.As, AsUID: u.AsUID, AsGroups: u.AsGroups, AsExtra: u.AsExtra,
			origin: u.origin.with("token", "--token").with("tokenFile", "--token-file")}
	}
	if f.As != "" {
		u.As, u.origin = f.As, u.origin.with("as", "--as")
		u.AsUID, u.AsGroups, u.AsExtra = "", nil, nil // they described the other user
	}
	if len(f.AsGroups) > 0 {
		u.AsGroups, u.origin = slices.Clone(f.AsGroups), u.origin.with("as-groups", "--as-group")
	}
	return nil
}

// defaultNamespace follows kubectl: the flag, the context (or the pod's namespace file), "default".
func (t *target) defaultNamespace(f Flags) string {
	switch {
	case f.Namespace != "":
		return f.Namespace
	case t.namespace != "":
		return t.namespace
	}
	return "default"
}

// resolve makes path absolute against dir, the directory of the file with the path. "" stays "".
func resolve(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
