package kubeconfig

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// execTimeout ends a plugin that hangs. The slowest honest ones ask a cloud twice, over a slow network.
	execTimeout = time.Minute
	// execKillDelay is how long a killed plugin's children may hold its output open.
	execKillDelay = 2 * time.Second
	// maxExecOutput bounds what is read of a plugin: a certificate chain with its key has a few kilobytes.
	maxExecOutput = 1 << 20
	// maxExecMessage bounds what one run of a plugin may put into the log.
	maxExecMessage = 4 << 10
)

// credential is what a plugin has returned.
type credential struct {
	token   Secret
	pair    *tls.Certificate // nil = none
	expires time.Time        // zero = when the process ends
}

func (c *credential) expired(now time.Time) bool {
	return !c.expires.IsZero() && !now.Before(c.expires)
}

// execCredential is what a plugin prints.
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

// run runs the plugin once, without a shell and without input. What it says on standard error becomes warnings, and
// never part of an error: errors go into conditions and Events, which others may read.
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
	stdout := &bounded{limit: maxExecOutput}
	stderr := &lines{say: func(line string) {
		p.env.warnf("%s: %s says: %s", p.where, p.config.Command, redact(line, p.config.secrets()))
	}}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, execKillDelay
	killGroup(cmd)
	err = runGroup(cmd)
	endGroup(cmd)
	stderr.flush()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("run %s: no credential within %s: killed", p.config.Command, p.timeout)
	case stdout.over:
		return nil, fmt.Errorf("run %s: it printed more than %d bytes", p.config.Command, maxExecOutput)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // a process that it left behind, which has ended by now
		return nil, fmt.Errorf("run %s: %w; its messages are in the log", p.config.Command, err)
	}
	c, err := p.parse(stdout.data, time.Now())
	if err != nil {
		return nil, fmt.Errorf("run %s: it printed %w", p.config.Command, err)
	}
	return c, nil
}

// parse reads what a plugin has printed. Its errors say what that was, without quoting it.
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

// bounded takes up to limit bytes; an error then closes the pipe that the plugin writes to.
type bounded struct {
	data  []byte // not a bytes.Buffer: its ReadFrom would take all
	limit int
	over  bool // there was more
}

var errTooMuch = errors.New("too much output")

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.limit-len(b.data))
	b.data = append(b.data, p[:keep]...)
	if keep < len(p) {
		b.over = true
		return keep, errTooMuch
	}
	return len(p), nil
}

// lines hands over what is written to it line by line, without control characters, up to maxExecMessage bytes.
type lines struct {
	say  func(line string)
	part []byte
	said int
}

// Write is called on a goroutine of package exec: a panic of what takes the lines is the error of the run.
func (l *lines) Write(p []byte) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("log its messages: panic: %v", p)
		}
	}()
	for _, c := range p {
		switch {
		case c == '\n' || c == '\r':
			l.flush()
		case l.said < maxExecMessage && (c >= ' ' && c != 0x7f || c == '\t'):
			l.part = append(l.part, c)
			l.said++
		}
	}
	return len(p), nil
}

func (l *lines) flush() {
	if text := strings.TrimSpace(string(l.part)); text != "" {
		l.say(strings.ToValidUTF8(text, "?"))
	}
	l.part = nil
}

// redacted stands for what may be a secret.
const redacted = "[redacted]"

const (
	// leastToken is the length from which letters and digits without a break are taken for a token: the shortest that
	// providers issue have 20 characters, and few words, paths and hosts have so many without a separator.
	leastToken = 20
	// leastSecret is the length from which the value of an argument or a variable of a plugin is redacted under any
	// name: a shorter one is a word such as "login" or "dev".
	leastSecret = 8
	// leastNamed is the same of those whose name says that they are secrets: three letters are in too many words.
	leastNamed = 4
)

var (
	// secretName is the name of a flag or a variable whose value is a secret.
	secretName = regexp.MustCompile(`(?i)token|passw|passphrase|secret|api[-_]?key|access[-_]?key`)
	// namedSecret is a value behind a name that says what it is, in a URL, JSON, YAML or a sentence.
	namedSecret = regexp.MustCompile(`(?i)((?:token|password|passwd|secret|authorization|api[-_]?key|access[-_]?key)` +
		`["']?(?:\s*=\s*|\s*:\s*)["']?)(?:bearer\s+|basic\s+)?([^\s"',;&]+)`)
	// scheme is a header's value.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	// userinfo is a password in a URL.
	userinfo = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
	// unbroken is what a token can be made of, but for the dots of a JWT and the slashes of base64, which paths have.
	unbroken = regexp.MustCompile(`[A-Za-z0-9_+=-]{20,}`)
	// bootstrap is a bootstrap token of kubeadm: its ID, and its secret of 16 characters.
	bootstrap = regexp.MustCompile(`\b([a-z0-9]{6}\.)[a-z0-9]{16}\b`)
	uuid      = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// redact replaces in a line of a plugin what looks like a token, and the secrets that the plugin was given (see
// secrets). It rather takes too much: the line is there to say why there is no credential, not to hold one.
func redact(line string, given []string) string {
	for _, secret := range given {
		line = strings.ReplaceAll(line, secret, redacted)
	}
	line = userinfo.ReplaceAllString(line, "${1}"+redacted+"@")
	line = scheme.ReplaceAllString(line, "${1} "+redacted)
	line = namedSecret.ReplaceAllStringFunc(line, func(s string) string {
		parts := namedSecret.FindStringSubmatch(s)
		if !assigned(parts[1]) && !strings.ContainsAny(parts[2], "0123456789") {
			return s // "token: expired"
		}
		return parts[1] + redacted
	})
	line = bootstrap.ReplaceAllString(line, "${1}"+redacted)
	return unbroken.ReplaceAllStringFunc(line, func(s string) string {
		if len(s) < leastToken || uuid.MatchString(s) || !strings.ContainsAny(s, "0123456789") ||
			strings.ToLower(s) == s && strings.Count(s, "-") > 1 { // the name of an object, a host or a region
			return s
		}
		return redacted
	})
}

// assigned says of a name and what is behind it that a value follows, and not a word of a sentence: "name=", or a
// quote.
func assigned(name string) bool {
	return strings.Contains(name, "=") || strings.HasSuffix(name, `"`) || strings.HasSuffix(name, "'")
}
