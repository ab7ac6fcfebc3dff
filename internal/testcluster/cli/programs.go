package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
)

// programFlags are the flags that one of the programs of `skiff-dev assets` was given: each name with its values.
type programFlags map[string][]string

func (f programFlags) get(name string) string {
	if v := f[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// program is etcd or kube-apiserver, as far as envtest uses them.
type program struct {
	name string
	// used has a description for each flag that has an effect. ignored are flags that envtest always sets and that
	// mean nothing here: no warning about them.
	used    map[string]string
	ignored []string
	run     func(ctx context.Context, f programFlags) error
}

// etcdProgram answers probes only: the API server has a store of its own.
func etcdProgram() *cobra.Command {
	return newProgram(program{
		name:    "etcd",
		used:    map[string]string{"listen-client-urls": "URLs on which GET /health is answered"},
		ignored: []string{"advertise-client-urls", "data-dir", "listen-peer-urls"},
		run:     runEtcd,
	})
}

func apiServerProgram(cel *apiserver.CEL) *cobra.Command {
	return newProgram(program{
		name: "kube-apiserver",
		used: map[string]string{
			"bind-address":         "address to serve on (default 127.0.0.1)",
			"secure-port":          "port to serve on (default 6443)",
			"cert-dir":             "directory of apiserver.crt and apiserver.key, made if missing",
			"tls-cert-file":        "certificate of the server, instead of the one in --cert-dir",
			"tls-private-key-file": "key of that certificate",
			"disable-admission-plugins": "plugins to do without, among " +
				strings.Join(apiserver.OptionalPlugins, ", "),
			"enable-admission-plugins":         "plugins that have to be there",
			"feature-gates":                    gatesHelp,
			"kubernetes-version":               versionHelp + " (default that in the name of the program's directory)",
			"runtime-config":                   "what not to serve, as GROUP/VERSION[/RESOURCE]=false",
			"client-ca-file":                   "authorities whose client certificates name users",
			"authorization-mode":               "RBAC, or AlwaysAllow (default)",
			"token-auth-file":                  `tokens, as lines of token,user,uid,"groups"`,
			"service-account-issuer":           "issuer and audience of service account tokens",
			"service-account-signing-key-file": "key that signs them (default a new one)",
			"faults":                           "file with faults to inject, as in 'skiff-dev'",
			"simulate":                         "parts of a cluster to simulate, as in 'skiff-dev' (default none)",
		},
		ignored: []string{"allow-privileged", "etcd-servers",
			"service-account-key-file", "service-cluster-ip-range"},
		run: func(ctx context.Context, f programFlags) error { return runAPIServer(ctx, f, cel) },
	})
}

// newProgram makes the hidden command of a program. It parses the flags itself: the real programs have hundreds.
func newProgram(p program) *cobra.Command {
	return &cobra.Command{
		Use:                p.name,
		Short:              "Be " + p.name + " for envtest: see skiff-dev assets",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := parseProgramFlags(args)
			if err != nil {
				return cli.Usagef("%s: %w", p.name, err)
			}
			if flags["help"] != nil {
				return p.help(cmd.OutOrStdout())
			}
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				if p.used[name] == "" && !slices.Contains(p.ignored, name) {
					fmt.Fprintf(cmd.ErrOrStderr(), "skiff-dev as %s: --%s has no effect\n", p.name, name)
				}
			}
			return p.run(cmd.Context(), flags)
		},
	}
}

// help prints the flags as the real programs do, which envtest searches for names at the beginning of a line.
func (p program) help(out io.Writer) error {
	text := "skiff-dev in place of " + p.name + ": see skiff-dev assets --help. Other flags have no effect.\n\n"
	for _, name := range slices.Sorted(maps.Keys(p.used)) {
		text += fmt.Sprintf("  --%-33s %s\n", name, p.used[name])
	}
	_, err := io.WriteString(out, text)
	return err
}

// parseProgramFlags takes --name=value, --name value and --name, with one dash or two.
func parseProgramFlags(args []string) (programFlags, error) {
	flags := programFlags{}
	for i := 0; i < len(args); i++ {
		name := strings.TrimPrefix(strings.TrimPrefix(args[i], "-"), "-")
		if !strings.HasPrefix(args[i], "-") || name == "" {
			return nil, fmt.Errorf("%q is no flag", args[i])
		}
		name, value, set := strings.Cut(name, "=")
		if !set && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			value = args[i]
		}
		flags[name] = append(flags[name], value)
	}
	return flags, nil
}

// runEtcd answers GET /health until ctx is done.
func runEtcd(ctx context.Context, f programFlags) (err error) {
	healthy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			http.Error(w, "skiff's embedded API server keeps its objects itself", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"health":"true","reason":""}`) // an error means that the client is gone
	})
	server := &http.Server{Handler: healthy, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer func() { err = errors.Join(err, server.Close()) }()
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, text := range strings.Split(cmp.Or(f.get("listen-client-urls"), "http://localhost:2379"), ",") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return cli.Usagef("--listen-client-urls: %q is no URL such as http://127.0.0.1:2379", text)
		}
		listener, err := net.Listen("tcp", u.Host)
		if err != nil {
			return fmt.Errorf("--listen-client-urls: %w", err)
		}
		serving.Go(func() { stop(server.Serve(listener)) })
	}
	<-running.Done()
	return cli.Ended(ctx, context.Cause(running))
}

// runAPIServer is a `skiff-dev --bare` with the flags of kube-apiserver, until ctx is done.
func runAPIServer(ctx context.Context, f programFlags, cel *apiserver.CEL) (err error) {
	dir := f.get("cert-dir")
	if dir == "" {
		if dir, err = os.MkdirTemp("", "skiff-kube-apiserver-"); err != nil {
			return fmt.Errorf("make a directory for the certificate: %w: set --cert-dir", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	o, err := apiServerOptions(f, dir)
	if err := errors.Join(err, checkPlugins(f, cel)); err != nil {
		return err
	}
	o.api.CEL = cel
	d, err := newDevCluster(o)
	if err != nil {
		return err
	}
	return d.run(ctx, "", func(ctx context.Context, client *kube.Client) error {
		if err := d.begin(ctx, client); err != nil {
			return cli.Ended(ctx, err)
		}
		<-ctx.Done()
		return nil
	})
}

// readFlag parses the file that a flag names, if it is set.
func readFlag[T any](f programFlags, flag string, parse func(file string, text []byte) (T, error), into *T) error {
	file := f.get(flag)
	if file == "" {
		return nil
	}
	text, err := kubeconfig.ReadFile(file)
	if err == nil {
		*into, err = parse(file, text)
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// apiServerOptions are those that the flags of kube-apiserver ask for; dir is its --cert-dir.
func apiServerOptions(f programFlags, dir string) (o devOptions, err error) {
	o.listen = net.JoinHostPort(cmp.Or(f.get("bind-address"), "127.0.0.1"), cmp.Or(f.get("secure-port"), "6443"))
	o.kubeconfig, o.faults = filepath.Join(dir, "skiff.kubeconfig"), f.get("faults")
	o.certFile = cmp.Or(f.get("tls-cert-file"), filepath.Join(dir, "apiserver.crt"))
	o.keyFile = cmp.Or(f.get("tls-private-key-file"), filepath.Join(dir, "apiserver.key"))
	if err := errors.Join(readFlag(f, "client-ca-file", parsePool, &o.api.ClientCA),
		readFlag(f, "token-auth-file", parseUsers, &o.api.Users),
		readFlag(f, "service-account-signing-key-file", parseKey, &o.api.TokenKey)); err != nil {
		return o, err
	}
	gates := strings.Join(f["feature-gates"], ",")
	if o.api.Features, err = featuresOf(f.get("kubernetes-version"), gates); err != nil {
		return o, err
	}
	if o.api.Unserved, err = unserved(f, o.api.Features); err != nil {
		return o, err
	}
	o.api.Issuer = f.get("service-account-issuer")
	o.api.RBAC = strings.Contains(f.get("authorization-mode"), "RBAC")
	o.api.WithoutPlugins = f.words("disable-admission-plugins")
	parts, err := simulatedParts(f.words("simulate"))
	o.simulateParts(parts)
	return o, err
}
