package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/manager"
)

// addConnectionFlags adds the flags for the server and the credentials. Each command that talks to a server has them.
func addConnectionFlags(cmd *cobra.Command, f *kubeconfig.Flags) {
	fs := cmd.Flags()
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "",
		"kubeconfig `file` (default: the files in KUBECONFIG, else ~/.kube/config, else the pod's service account)")
	fs.StringVar(&f.Context, "context", "", "`name` of the kubeconfig context to use")
	fs.StringVarP(&f.Server, "server", "s", "", "`address` of the API server")
	fs.Var(&f.Token, "token",
		"bearer token; other users of this machine can see it in the process list, so prefer --token-file")
	fs.StringVar(&f.TokenFile, "token-file", "", "`file` with the bearer token, reread when it changes")
	fs.StringVar(&f.CertificateAuthority, "certificate-authority", "",
		"`file` with the CA certificates that the server's certificate is checked against")
	fs.StringVar(&f.TLSServerName, "tls-server-name", "",
		"`name` to expect in the server's certificate instead of the host in the address")
	fs.BoolVar(&f.InsecureSkipTLSVerify, "insecure-skip-tls-verify", false,
		"do not verify the server's certificate (dangerous)")
	fs.BoolVar(&f.InsecureLoopbackHTTP, "insecure-loopback-http", false,
		"send credentials over plain http to a server on this machine (localhost, 127.0.0.1, ::1)")
	fs.StringVar(&f.As, "as", "", "`user` to impersonate")
	fs.StringArrayVar(&f.AsGroups, "as-group", nil, "`group` to impersonate, can be repeated; requires --as")
	fs.DurationVar(&f.RequestTimeout, "request-timeout", 0,
		"timeout of a single request, except lists and watches (default 30s)")
	fs.StringVar(&f.Wire, "wire", "auto",
		"`encoding` of lists and watches: auto (protobuf for built-in kinds) or json (readable in a proxy)")
	InGroup(cmd, groupConnection, connectionFlags...)
	InGroup(cmd, GroupAdvanced, advancedConnectionFlags...)
}

// The names of the flags for the server and the credentials.
var (
	connectionFlags = []string{"kubeconfig", "context", "server", "token", "token-file", "certificate-authority", "as",
		"as-group"}
	advancedConnectionFlags = []string{"tls-server-name", "insecure-skip-tls-verify", "insecure-loopback-http",
		"request-timeout", "wire"}
)

// AddConnectionFlags adds the flags for the server and the credentials to a command of another program.
func AddConnectionFlags(cmd *cobra.Command, f *kubeconfig.Flags) { addConnectionFlags(cmd, f) }

// Connect makes a client from these flags. Warnings go to stderr.
func Connect(cmd *cobra.Command, f kubeconfig.Flags) (*kube.Client, error) {
	client, _, err := connect(f, warnTo(cmd.ErrOrStderr()))
	return client, err
}

// connect makes a client from the flags and returns it with the default namespace. warn is called with warnings, from
// any goroutine.
func connect(f kubeconfig.Flags, warn func(string)) (*kube.Client, string, error) {
	cfg, namespace, err := connection(f, warn)
	if err != nil {
		return nil, "", err
	}
	client, err := kube.New(cfg)
	return client, namespace, err
}

// observed makes a client whose requests, and those of others with the same settings, are counted for the metrics.
func observed(cfg *kube.Config) (*kube.Client, *manager.Requests, error) {
	requests := &manager.Requests{}
	cfg.OnExchange = requests.Observe
	client, err := kube.New(*cfg)
	return client, requests, err
}

// connection returns the settings of a client, for those that need more than one.
func connection(f kubeconfig.Flags, warn func(string)) (kube.Config, string, error) {
	if f.RequestTimeout < 0 {
		return kube.Config{}, "", Usagef("--request-timeout %s: must not be negative", f.RequestTimeout)
	}
	if f.Wire != "" && f.Wire != "auto" && f.Wire != "json" {
		return kube.Config{}, "", Usagef("--wire %s: want auto or json", f.Wire)
	}
	if f.Namespace != "" && !namespaceName().MatchString(f.Namespace) {
		return kube.Config{}, "", Usagef("--namespace: %q is not a valid namespace name", f.Namespace)
	}
	cfg, namespace, err := kubeconfig.Load(f, kubeconfig.OSEnv(warn))
	err = withFlag(err, f)
	cfg.OnlyJSON = f.Wire == "json"
	cfg.OnWarning = func(text string) { warn("the server warns: " + text) }
	return cfg, namespace, err
}

// withFlag adds the flag that helps where the settings of the connection are not complete.
func withFlag(err error, f kubeconfig.Flags) error {
	var context *kubeconfig.NoContextError
	var file *fs.PathError
	switch {
	case errors.As(err, &file) && file.Path == f.Kubeconfig && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; check --kubeconfig, or start a cluster here: skiff-dev writes a kubeconfig", err)
	case errors.As(err, &context):
		return fmt.Errorf("%w: choose one of %v with --context or `kubectl config use-context`", err, context.Contexts)
	case errors.As(err, new(*kubeconfig.LoopbackHTTPError)):
		return fmt.Errorf("%w, or --insecure-loopback-http", err)
	case errors.Is(err, kubeconfig.ErrNotInCluster):
		return fmt.Errorf("no cluster: %s. Start one here: skiff-dev, or give --server or --kubeconfig", noConfig())
	}
	return err
}

// noConfig says which files there are not, outside of a pod.
func noConfig() string {
	if os.Getenv("KUBECONFIG") != "" {
		return "the files of KUBECONFIG have no context"
	}
	home, err := os.UserHomeDir()
	if err == nil {
		_, err = os.Stat(filepath.Join(home, ".kube", "config"))
	}
	if err != nil {
		return "there is no ~/.kube/config and KUBECONFIG is not set"
	}
	return "~/.kube/config has no context and KUBECONFIG is not set"
}

// warnTo returns a function that prints each warning on a line of stderr.
func warnTo(stderr io.Writer) func(string) {
	return func(msg string) { fmt.Fprintf(stderr, "skiff: warning: %s\n", kube.Text(msg)) }
}

// advisedError is an error whose text ends with the next step.
type advisedError struct{ error }

func (e advisedError) Unwrap() error { return e.error }

// withAdvice adds the next step to common connection errors.
func withAdvice(err error) error {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var record tls.RecordHeaderError
	var dial *net.OpError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(advisedError)):
		return err
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w; correct the clock of this machine, or renew the certificate of the server", err)
	case errors.As(err, &authority):
		return fmt.Errorf("%w; pass the CA that signed the server's certificate with --certificate-authority", err)
	case errors.As(err, &hostname):
		return fmt.Errorf(
			"%w; if this is the right server, pass the name in its certificate with --tls-server-name", err)
	case errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%w; the server does not use TLS on this port: check the address", err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w; check that the server is running, and the address (--server, --kubeconfig, --context)",
			err)
	case kube.IsUnauthorized(err):
		return fmt.Errorf("%w; %s", err, kube.Explain(err))
	case kube.IsForbidden(err):
		return fmt.Errorf("%w; a Role or ClusterRole must grant this", err)
	}
	return err
}
