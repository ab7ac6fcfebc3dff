package kubeconfig

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/kube"
)

// inCluster is the target that a pod's service account describes. ErrNotInCluster when the environment is not a pod's.
func inCluster(env Env) (*target, error) {
	host, port := env.Getenv("KUBERNETES_SERVICE_HOST"), env.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, fmt.Errorf("%w: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set", ErrNotInCluster)
	}
	o := origin{entry: "in-cluster service account"}
	t := &target{
		cluster: cluster{
			Server: "https://" + net.JoinHostPort(host, port),
			CA:     filepath.Join(env.ServiceAccountDir, "ca.crt"),
			origin: o,
		},
		user: user{TokenFile: filepath.Join(env.ServiceAccountDir, "token"), origin: o},
	}
	namespace, err := os.ReadFile(filepath.Join(env.ServiceAccountDir, "namespace"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", o.at("namespace"), err)
	}
	t.namespace = strings.TrimSpace(string(namespace))
	return t, nil
}

// config turns the target into the settings of a client. Every file it names is read once here, so that a wrong one is
// an error now and not at the first request.
func (t *target) config(env Env) (kube.Config, error) {
	server, err := t.cluster.serverURL()
	if err != nil {
		return kube.Config{}, err
	}
	if err := t.user.check(); err != nil {
		return kube.Config{}, err
	}
	if server.Scheme == "http" {
		// kubectl drops the credentials silently here and the server answers for "anonymous"; we say why it would.
		if field := t.user.credentialField(); field != "" {
			return kube.Config{}, fmt.Errorf("%s: credentials are not sent over plain http to %s: use https, or a user without credentials",
				t.user.origin.at(field), server.Host)
		}
	}
	cfg := kube.Config{Server: server.String()}
	if cfg.Proxy, err = t.cluster.proxy(); err != nil {
		return kube.Config{}, err
	}
	if cfg.Credentials, err = t.user.token(env); err != nil {
		return kube.Config{}, err
	}
	if server.Scheme == "https" {
		if cfg.TLS, err = t.tlsConfig(server.Hostname(), env); err != nil {
			return kube.Config{}, err
		}
		if err := t.user.clientCertificate(&cfg, env); err != nil {
			return kube.Config{}, err
		}
	}
	if cfg.Impersonate, err = t.user.impersonation(); err != nil {
		return kube.Config{}, err
	}
	return cfg, nil
}

// serverURL completes and checks the server: https unless it says otherwise, the path kept, query and fragment dropped.
func (c cluster) serverURL() (*url.URL, error) {
	where := c.origin.at("server")
	if c.Server == "" {
		return nil, fmt.Errorf("%s: is empty", where)
	}
	raw := c.Server
	if !strings.Contains(raw, "://") {
		raw = "https://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, urlReason(err))
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%s: scheme %q: want https or http", where, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%s: has no host", where)
	case u.User != nil:
		return nil, fmt.Errorf("%s: user and password in the address are not supported: use a token or a client certificate", where)
	}
	path := strings.TrimRight(u.Path, "/")
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path, RawPath: strings.TrimRight(u.RawPath, "/")}, nil
}

// proxy is nil for "as the environment says".
func (c cluster) proxy() (func(*http.Request) (*url.URL, error), error) {
	if !c.ProxyURL.isSet() {
		return nil, nil
	}
	where := c.origin.at("proxy-url")
	u, err := url.Parse(c.ProxyURL.reveal())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, urlReason(err))
	}
	switch u.Scheme {
	case "http", "https", "socks5":
	default:
		return nil, fmt.Errorf("%s: scheme %q: want http, https or socks5", where, u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%s: has no host", where)
	}
	return http.ProxyURL(u), nil
}

// urlReason is a url.Parse error without the URL and without the parts of it that the inner errors quote: either may
// carry a password.
func urlReason(err error) error {
	var portErr *url.Error
	if errors.As(err, &portErr) {
		err = portErr.Err
	}
	reason, _, _ := strings.Cut(err.Error(), `"`)
	return errors.New("not a URL: " + strings.TrimSpace(reason))
}

// credentialField names the first credential that is set, "" if there is none.
func (u *user) credentialField() string {
	switch {
	case u.Token.isSet():
		return "token"
	case u.TokenFile != "":
		return "tokenFile"
	case u.ClientCertData.isSet():
		return "client-certificate-data"
	case u.ClientCert != "":
		return "client-certificate"
	}
	return ""
}

// check refuses ways to authenticate that skiff does not have. As in kubectl, an exec plugin beside a token or a client
// certificate is not used, so it is not an error.
func (u *user) check() error {
	if u.Username.isSet() || u.Password.isSet() {
		field := "username"
		if !u.Username.isSet() {
			field = "password"
		}
		return fmt.Errorf("%s: basic authentication is not supported: use token, tokenFile or a client certificate", u.origin.at(field))
	}
	if u.credentialField() != "" {
		return nil
	}
	if present(&u.AuthProvider) {
		return fmt.Errorf("%s: auth-provider was removed from Kubernetes in favour of exec plugins, which are not supported yet: use token, tokenFile or a client certificate",
			u.origin.at("auth-provider"))
	}
	if present(&u.Exec) {
		return fmt.Errorf("%s: exec plugins are not supported yet: get a token from the plugin and pass it with --token-file",
			u.origin.at("exec"))
	}
	return nil
}

func present(n *yaml.Node) bool { return !n.IsZero() && n.Tag != "!!null" }

func (u *user) impersonation() (kube.Impersonation, error) {
	if u.As == "" {
		for field, set := range map[string]bool{"as-uid": u.AsUID != "", "as-groups": len(u.AsGroups) > 0, "as-user-extra": len(u.AsExtra) > 0} {
			if set {
				return kube.Impersonation{}, fmt.Errorf("%s: needs the user to impersonate (as, or --as)", u.origin.at(field))
			}
		}
	}
	return kube.Impersonation{User: u.As, UID: u.AsUID, Groups: u.AsGroups, Extra: u.AsExtra}, nil
}

// tlsConfig builds the TLS settings for a server of the given host.
func (t *target) tlsConfig(host string, env Env) (*tls.Config, error) {
	c := t.cluster
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLSServerName}
	switch {
	case c.Insecure && (c.CA != "" || c.CAData != ""):
		return nil, fmt.Errorf("%s: contradicts the certificate authority that is set too: remove one of them",
			c.origin.at("insecure-skip-tls-verify"))
	case c.Insecure:
		cfg.InsecureSkipVerify = true
	case c.CAData != "":
		if c.CA != "" {
			env.warnf("%s: ignored, certificate-authority-data is set too", c.origin.at("certificate-authority"))
		}
		pem, err := base64.StdEncoding.DecodeString(c.CAData)
		if err == nil {
			cfg.RootCAs, err = parseCA(pem)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.origin.at("certificate-authority-data"), err)
		}
	case c.CA != "":
		name := c.TLSServerName
		if name == "" {
			name = host
		}
		f := &caFile{path: c.CA, where: c.origin.at("certificate-authority"), env: env}
		if err := f.verifyFor(cfg, name); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}
