package kubeconfig

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

const (
	// execTimeout ends a plugin that hangs. The slowest good plugins ask a cloud twice, over a slow network.
	execTimeout = time.Minute
	// execKillDelay is how long a killed plugin's children may hold its output open.
	execKillDelay = 2 * time.Second
	// maxExecOutput bounds the output of a plugin: a certificate chain with a key has a few kilobytes.
	maxExecOutput = 1 << 20
	// maxExecMessage bounds the lines in the log from one run of a plugin.
	maxExecMessage = 4 << 10
)

// credential is the result of a plugin.
type credential struct {
	token   Secret
	pair    *tls.Certificate // nil = none
	expires time.Time        // zero = when the process ends
}

func (c *credential) expired(now time.Time) bool {
	return !c.expires.IsZero() && !now.Before(c.expires)
}

// execCredential is the output of a plugin.
type execCredential struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     *struct {
		Expires string `json:"expirationTimestamp"`
		Token   string `json:"token"`
		Cert    string `json:"clientCertificateData"`
		Key     string `json:"clientKeyData"`
	} `json:"status"`
}

// run runs the plugin once, without a shell and without input. Lines on standard error become warnings, and never part
// of an error: errors go into conditions and Events, which other users may read.
func (p *plugin) run(ctx context.Context) (*credential, error) {
	path, err := p.config.find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	args := make([]string, len(p.config.Args))
	for i, a := range p.config.Args {
		args[i] = a.reveal()
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = os.Environ()
	for _, e := range p.config.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value.reveal())
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+p.info.reveal())
	stdout := &process.Output{Limit: maxExecOutput}
	stderr := &process.Lines{MaxLine: maxExecMessage, MaxTotal: maxExecMessage, Say: func(line string) {
		p.env.warnf("%s: %s says: %s", p.where, p.config.Command, process.Redact(line, p.config.secrets()))
	}}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, execKillDelay
	process.OwnGroup(cmd)
	err = process.Run(cmd)
	stderr.Flush()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("run %s: no credential within %s: killed", p.config.Command, p.timeout)
	case stdout.Over:
		return nil, fmt.Errorf("run %s: it printed more than %d bytes", p.config.Command, maxExecOutput)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // a process left behind by the plugin, ended by now
		return nil, fmt.Errorf("run %s: %w; its messages are in the log", p.config.Command, err)
	}
	c, err := p.parse(stdout.Data, time.Now())
	if err != nil {
		return nil, fmt.Errorf("run %s: it printed %w", p.config.Command, err)
	}
	return c, nil
}

// parse reads the output of a plugin. Errors describe the output without quoting it.
func (p *plugin) parse(out []byte, now time.Time) (*credential, error) {
	var e execCredential
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, errors.New("nothing: want an ExecCredential as JSON")
	}
	if err := kube.Unmarshal(out, &e); err != nil {
		return nil, errors.New("no ExecCredential: want one as JSON")
	}
	if e.Kind != "ExecCredential" || e.APIVersion != p.config.APIVersion {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %s, ExecCredential, as the kubeconfig says",
			short(e.APIVersion), short(e.Kind), p.config.APIVersion)
	}
	s := e.Status
	switch {
	case s == nil:
		return nil, errors.New("an ExecCredential without a status")
	case s.Token == "" && s.Cert == "" && s.Key == "":
		return nil, errors.New("an ExecCredential with neither a token nor a client certificate")
	case s.Cert == "" && s.Key != "":
		return nil, errors.New("a client key without its certificate")
	case s.Cert != "" && s.Key == "":
		return nil, errors.New("a client certificate without its key")
	}
	if validToken(s.Token) != nil {
		return nil, errors.New("a token with white space or characters that a header cannot carry")
	}
	c := &credential{token: NewSecret(s.Token)}
	if s.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(s.Cert), []byte(s.Key))
		if err != nil {
			return nil, fmt.Errorf("a client certificate that cannot be used: %w", err)
		}
		c.pair = &pair
	}
	if s.Expires != "" {
		var err error
		if c.expires, err = time.Parse(time.RFC3339, s.Expires); err != nil {
			return nil, errors.New("an expirationTimestamp that is not a time (RFC 3339)")
		}
	}
	if c.expired(now) {
		return nil, fmt.Errorf("a credential that expired at %s, and it is %s: log in again, or correct the clock",
			c.expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return c, nil
}

// short cuts a text of unknown origin for an error.
func short(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
