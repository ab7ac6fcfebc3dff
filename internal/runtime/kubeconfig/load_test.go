package kubeconfig

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Rules: AUTH-01, AUTH-04
func TestInsideAPodTheServiceAccountIsUsed(t *testing.T) {
	for _, tt := range []struct{ host, server string }{
		{"10.96.0.1", "https://10.96.0.1:443"},
		{"fd00::1", "https://[fd00::1]:443"},
		{"kubernetes.default.svc", "https://kubernetes.default.svc:443"},
	} {
		b := newBox(t)
		b.pod(tt.host)
		cfg, ns, err := b.load(Flags{})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Server != tt.server || ns != "pod-ns" || token(t, cfg) != "pod-token" {
			t.Errorf("server %s, namespace %s, token %s", cfg.Server, ns, token(t, cfg))
		}
	}

	t.Run("missing environment has an error of its own", func(t *testing.T) {
		_, _, err := newBox(t).load(Flags{})
		if !errors.Is(err, ErrNotInCluster) || !errors.Is(err, ErrNoConfig) {
			t.Errorf("error %v", err)
		}
		wantError(t, err, "no cluster configured", "KUBERNETES_SERVICE_HOST")
	})
	t.Run("missing token", func(t *testing.T) {
		b := newBox(t)
		b.pod("10.0.0.1")
		os.Remove(b.path("sa/token"))
		_, _, err := b.load(Flags{})
		wantError(t, err, "in-cluster service account: tokenFile", "no such file")
	})
	for name, pem := range map[string]string{"broken": "not PEM", "empty": ""} {
		t.Run(name+" CA is refused unless a flag opts out", func(t *testing.T) {
			b := newBox(t)
			b.pod("10.0.0.1")
			b.write("sa/ca.crt", pem)
			_, _, err := b.load(Flags{})
			wantError(t, err, "in-cluster service account: certificate-authority", "holds no PEM certificate")
			cfg, _, err := b.load(Flags{InsecureSkipTLSVerify: true})
			if err != nil || !cfg.TLS.InsecureSkipVerify {
				t.Errorf("opt-out: %v", err)
			}
		})
	}
	t.Run("missing CA is refused", func(t *testing.T) {
		b := newBox(t)
		b.pod("10.0.0.1")
		os.Remove(b.path("sa/ca.crt"))
		_, _, err := b.load(Flags{})
		wantError(t, err, "in-cluster service account: certificate-authority", "no such file")
	})
}

func TestAPodsTokenDoesNotGoToAnotherServer(t *testing.T) {
	b := newBox(t)
	b.pod("10.0.0.1")
	cfg, ns, err := b.load(Flags{Server: "https://elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Server != "https://elsewhere" || cfg.Credentials != nil || ns != "default" {
		t.Errorf("server %s, credentials %v, namespace %s", cfg.Server, cfg.Credentials, ns)
	}
}

// Rules: AUTH-12
func TestWithTokenAndTokenFileTheFileCountsAndTheTokenStandsIn(t *testing.T) {
	b := newBox(t)
	path := b.write("config", config("c", "https://h", "token: literal, tokenFile: tok"))
	cfg, _, err := b.load(Flags{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	if got := token(t, cfg); got != "literal" {
		t.Errorf("while the file is missing: %q", got)
	}
	b.write("tok", "from-file")
	cfg, _, err = b.load(Flags{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	if got := token(t, cfg); got != "from-file" {
		t.Errorf("with the file: %q", got)
	}
}

// Rules: AUTH-22
func TestImpersonationNeedsAUser(t *testing.T) {
	for _, user := range []string{"as-uid: u", "as-groups: [g]", "as-user-extra: {k: [v]}"} {
		b := newBox(t)
		path := b.write("config", config("c", "https://h", user))
		_, _, err := b.load(Flags{Kubeconfig: path})
		wantError(t, err, path+":13: user \"c\": "+strings.SplitN(user, ":", 2)[0], "--as")
	}
	b := newBox(t)
	_, _, err := b.load(Flags{Server: "https://h", AsGroups: []string{"g"}})
	wantError(t, err, "--as-group", "needs the user")

	path := b.write("config", config("c", "https://h", "as: a, as-uid: u, as-groups: [g1, g2], as-user-extra: "+
		"{Some/key: [v]}"))
	cfg, _, err := b.load(Flags{Kubeconfig: path})
	if i := cfg.Impersonate; err != nil || i.User != "a" || i.UID != "u" || len(i.Groups) != 2 ||
		i.Extra["Some/key"][0] != "v" {
		t.Errorf("impersonation %+v, error %v", i, err)
	}
	cfg, _, err = b.load(Flags{Kubeconfig: path, As: "other", AsGroups: []string{"g3"}})
	if i := cfg.Impersonate; err != nil || i.User != "other" || i.UID != "" || i.Extra != nil ||
		fmt.Sprint(i.Groups) != "[g3]" {
		t.Errorf("--as replaces the impersonated user as a whole: %+v, error %v", i, err)
	}
}

// Rules: AUTH-24
func TestTheDefaultNamespaceIsTheNearestThatIsSet(t *testing.T) {
	for _, tt := range []struct {
		flag, context string // context "-" = no kubeconfig
		pod           bool
		want          string
	}{
		{"", "", false, "default"},
		{"", "ctx", false, "ctx"},
		{"flag", "ctx", false, "flag"},
		{"flag", "", false, "flag"},
		{"", "-", true, "pod-ns"},
		{"flag", "-", true, "flag"},
		{"", "default", true, "default"},
		{"default", "ctx", true, "default"},
	} {
		b := newBox(t)
		if tt.pod {
			b.pod("10.0.0.1")
		}
		if tt.context != "-" {
			b.write("home/.kube/config", strings.Replace(config("c", "https://h", "token: t"),
				"user: c}", fmt.Sprintf("user: c, namespace: %q}", tt.context), 1))
		}
		cfg, ns, err := b.load(Flags{Namespace: tt.flag})
		if err != nil || ns != tt.want || (cfg.Context == "c") != (tt.context != "-") {
			t.Errorf("%+v: context %q, namespace %q, error %v", tt, cfg.Context, ns, err)
		}
	}
}

// Rules: AUTH-25
func TestTheServerAddressIsCompletedAndCleaned(t *testing.T) {
	for in, want := range map[string]string{
		"host":                      "https://host",
		"host:6443":                 "https://host:6443",
		"[fd00::1]:6443":            "https://[fd00::1]:6443",
		"http://host":               "http://host",
		"https://h/p/?q#f":          "https://h/p",
		"https://h/k8s/clusters/c/": "https://h/k8s/clusters/c",
		"https://h:6443//":          "https://h:6443",
	} {
		cfg, _, err := newBox(t).load(Flags{Server: in})
		if err != nil || cfg.Server != want {
			t.Errorf("%s: %q, error %v, want %q", in, cfg.Server, err, want)
		}
	}
	for in, say := range map[string]string{
		"https://u:hush@h":       "user name or password",
		"https://u:hush@h:x":     "not a URL",
		"https://u:hush%zz@h/":   "not a URL",
		"https://u:hush@h h/abc": "not a URL",
	} {
		_, _, err := newBox(t).load(Flags{Server: in})
		wantError(t, err, "--server", say)
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("error shows the password: %v", err)
		}
	}
	b := newBox(t)
	path := b.write("config", config("c", `""`, "token: t"))
	_, _, err := b.load(Flags{Kubeconfig: path})
	wantError(t, err, path+`:7: cluster "c": server`, "empty")
}

func TestFlagsOverrideFieldByField(t *testing.T) {
	b := newBox(t)
	path := b.write("config", strings.Replace(config("c", "https://h", "token: t, as: a"),
		"server: https://h", "server: https://h\n    tls-server-name: old\n    certificate-authority: missing.crt", 1))
	ca := b.write("ca.crt", string(newCA(t, "ca").pem))
	cfg, _, err := b.load(Flags{Kubeconfig: path, Server: "other:1", CertificateAuthority: ca,
		Token: NewSecret("mine"), RequestTimeout: 7})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Context != "" { // which is that of the other server
		t.Errorf("the context is %q", cfg.Context)
	}
	if cfg.Server != "https://other:1" || cfg.TLS.ServerName != "" || token(t, cfg) != "mine" ||
		cfg.Impersonate.User != "a" || cfg.Timeout != 7 {
		t.Errorf("%v", cfg)
	}
}
