package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"skiff/internal/kube"
	"skiff/internal/kubeconfig"
)

// addConnectionFlags registers the flags that say where to connect and as whom, the same on each command that talks to
// a server.
func addConnectionFlags(cmd *cobra.Command, f *kubeconfig.Flags) {
	fs := cmd.Flags()
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; without it the files of KUBECONFIG, else ~/.kube/config, else the pod's service account")
	fs.StringVar(&f.Context, "context", "", "`name` of the kubeconfig context to use")
	fs.StringVarP(&f.Server, "server", "s", "", "`address` of the API server")
	fs.Var(&f.Token, "token", "bearer token; prefer --token-file: other users of this machine can see arguments")
	fs.StringVar(&f.TokenFile, "token-file", "", "`file` with the bearer token, read again as it changes")
	fs.StringVar(&f.CertificateAuthority, "certificate-authority", "",
		"`file` with the CA that the server's certificate must come from")
	fs.StringVar(&f.TLSServerName, "tls-server-name", "",
		"`name` that the server's certificate must be for, if not that of the address")
	fs.BoolVar(&f.InsecureSkipTLSVerify, "insecure-skip-tls-verify", false,
		"accept any certificate of the server (dangerous)")
	fs.StringVar(&f.As, "as", "", "`user` to act as (impersonation)")
	fs.StringArrayVar(&f.AsGroups, "as-group", nil, "`group` to act as, may be repeated; needs --as")
	fs.DurationVar(&f.RequestTimeout, "request-timeout", 0,
		"how long one request may take, but for lists and watches (default 30s)")
}

// connect makes the client that the flags describe, and returns the default namespace with it. warn gets what is odd
// but no error, from any goroutine.
func connect(f kubeconfig.Flags, warn func(string)) (*kube.Client, string, error) {
	if f.RequestTimeout < 0 {
		return nil, "", usagef("--request-timeout %s: is negative", f.RequestTimeout)
	}
	if f.Namespace != "" && !namespaceName.MatchString(f.Namespace) {
		return nil, "", usagef("--namespace: %q is not the name of a namespace", f.Namespace)
	}
	cfg, namespace, err := kubeconfig.Load(f, kubeconfig.OSEnv(warn))
	if err != nil {
		return nil, "", err
	}
	cfg.OnWarning = func(text string) { warn("the server warns: " + text) }
	client, err := kube.New(cfg)
	return client, namespace, err
}

// warnTo writes warnings as lines.
func warnTo(stderr io.Writer) func(string) {
	return func(msg string) { fmt.Fprintf(stderr, "skiff: warning: %s\n", msg) }
}

// withAdvice adds the next step to errors that every user meets once.
func withAdvice(err error) error {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var record tls.RecordHeaderError
	var dial *net.OpError
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("%w; give the CA that signed the server's certificate with --certificate-authority", err)
	case errors.As(err, &hostname):
		return fmt.Errorf(
			"%w; if this is the right server, say which name its certificate is for with --tls-server-name", err)
	case errors.As(err, &record):
		return fmt.Errorf("%w; the server does not speak https: is the address right?", err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w; is the server up, and the address right? See --server, --kubeconfig and --context", err)
	case kube.IsUnauthorized(err):
		return fmt.Errorf(
			"%w; the server does not accept the credentials: see --token-file, or the user of the kubeconfig context",
			err)
	case kube.IsForbidden(err):
		return fmt.Errorf("%w; a Role or ClusterRole must grant this", err)
	}
	return err
}
