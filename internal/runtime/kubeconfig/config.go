package kubeconfig

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"skiff/internal/runtime/kube"
)

// inCluster returns the target of a pod's service account, or ErrNotInCluster outside a pod.
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
		user: user{TokenFile: filepath.Join(env.ServiceAccountDir, "token"), ofPod: true, origin: o},
	}
	namespace, err := ReadFile(filepath.Join(env.ServiceAccountDir, "namespace"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", o.at("namespace"), err)
	}
	t.namespace = strings.TrimSpace(string(namespace))
	return t, nil
}

// config turns the target into the settings of a client. All files are read once here, so that a wrong file is an
// error now and not at the first request.
func (t *target) config(env Env) (kube.Config, error) {
	server, err := t.cluster.serverURL()
	if err != nil {
		return kube.Config{}, err
	}
	if err := t.user.check(); err != nil {
		return kube.Config{}, err
	}
	if err := t.checkPlainHTTP(server); err != nil {
		return kube.Config{}, err
	}
	cfg := kube.Config{Server: server.String(), Context: t.context}
	if cfg.Proxy, err = t.cluster.proxy(); err != nil {
		return kube.Config{}, err
	}
	if cfg.Credentials, err = t.user.authorization(env); err != nil {
		return kube.Config{}, err
	}
	plugin, err := t.plugin(server, env)
	if err != nil {
		return kube.Config{}, err
	}
	if plugin != nil {
		cfg.Credentials = plugin
	}
	if server.Scheme == "https" {
		if cfg.TLS, err = t.tlsConfig(server.Hostname(), env); err != nil {
			return kube.Config{}, err
		}
		if err := t.user.clientCertificate(&cfg, env); err != nil {
			return kube.Config{}, err
		}
		if plugin != nil {
			cfg.TLS.GetClientCertificate, cfg.DialContext = plugin.certificate, plugin.conns.dial
		}
	}
	cfg.Credential = t.user.credential(plugin)
	if cfg.Impersonate, err = t.user.impersonation(); err != nil {
		return kube.Config{}, err
	}
	return cfg, nil
}

// checkPlainHTTP refuses to send credentials in the clear, except to this machine with --insecure-loopback-http.
// kubectl silently drops the credentials instead, and the server then answers to "anonymous".
func (t *target) checkPlainHTTP(server *url.URL) error {
	field := t.user.credentialField()
	switch {
	case field != "":
	case t.user.Exec != nil:
		field = "exec"
	case t.user.AuthProvider != nil:
		field = "auth-provider"
	}
	if server.Scheme != "http" || field == "" {
		return nil
	}
	where := t.user.origin.at(field)
	err := fmt.Errorf("%s: credentials are not sent over plain http to %s: use https, or a user without credentials",
		where, server.Host)
	switch {
	case !loopback(server.Hostname()):
		return err
	case !t.loopbackHTTP:
		return &LoopbackHTTPError{err}
	case strings.HasPrefix(field, "client-"):
		return fmt.Errorf("%s: a client certificate needs https, and %s speaks plain http", where, server.Host)
	case t.cluster.ProxyURL.isSet():
		return fmt.Errorf("%s: a proxy would see the credentials on their way to %s over plain http: use https",
			t.cluster.origin.at("proxy-url"), server.Host)
	}
	return nil
}

// loopback says whether a host is this machine by its name or address alone.
func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// serverURL completes and checks the server: https by default, the path kept, query and fragment dropped.
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
		return nil, fmt.Errorf("%s: holds a user name or password: give them as username and password of the user",
			where)
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

// urlReason is a url.Parse error without the URL and the quoted parts of the URL, which may carry a password.
func urlReason(err error) error {
	var portErr *url.Error
	if errors.As(err, &portErr) {
		err = portErr.Err
	}
	reason, _, _ := strings.Cut(err.Error(), `"`)
	return errors.New("not a URL: " + strings.TrimSpace(reason))
}

// credentialField names the first credential set, "" if there is none.
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
	case u.Username.isSet():
		return "username"
	case u.Password.isSet():
		return "password"
	}
	return ""
}

// authProviders are the plugins in place of removed auth providers, by the provider's name.
var authProviders = map[string]string{
	"gcp":   "gke-gcloud-auth-plugin",
	"azure": "kubelogin",
}

// check refuses credentials that contradict each other, and auth providers removed from Kubernetes.
func (u *user) check() error {
	if u.basic() && (u.Token.isSet() || u.TokenFile != "") {
		field := "username"
		if !u.Username.isSet() {
			field = "password"
		}
		return fmt.Errorf("%s: there is a token too: a request can carry only one of them, remove the other",
			u.origin.at(field))
	}
	if u.AuthProvider == nil || u.credentialField() != "" || u.Exec != nil {
		return nil
	}
	if u.AuthProvider.Name == oidc {
		return nil // authorization reads its token
	}
	instead := authProviders[u.AuthProvider.Name]
	if instead == "" {
		instead = "the plugin of your provider"
	}
	return fmt.Errorf("%s: auth-provider %q was removed from Kubernetes: use an exec plugin instead: %s",
		u.origin.at("auth-provider"), u.AuthProvider.Name, instead)
}

// impersonation returns whom to act as. Groups, UID or extra without a user are an error: the server would ignore
// them.
func (u *user) impersonation() (kube.Impersonation, error) {
	if u.As == "" {
		for field, set := range map[string]bool{
			"as-uid": u.AsUID != "", "as-groups": len(u.AsGroups) > 0, "as-user-extra": len(u.AsExtra) > 0,
		} {
			if set {
				return kube.Impersonation{}, fmt.Errorf("%s: needs the user to impersonate (as, or --as)",
					u.origin.at(field))
			}
		}
	}
	values := map[string][]string{"as": {u.As}, "as-uid": {u.AsUID}, "as-groups": u.AsGroups}
	if u.AsUID == "" {
		delete(values, "as-uid")
	}
	for key, extra := range u.AsExtra {
		values["as-user-extra"] = append(append(values["as-user-extra"], key), extra...)
	}
	for field, texts := range values {
		for _, text := range texts {
			if text == "" && u.As != "" && field != "as-user-extra" {
				return kube.Impersonation{}, fmt.Errorf("%s: is empty", u.origin.at(field))
			}
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return kube.Impersonation{}, fmt.Errorf("%s: %q holds characters that a header cannot carry",
					u.origin.at(field), text)
			}
		}
	}
	return kube.Impersonation{User: u.As, UID: u.AsUID, Groups: u.AsGroups, Extra: u.AsExtra}, nil
}
