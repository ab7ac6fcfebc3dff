package kubeconfig

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Rules: AUTH-08
func TestKubeconfigIsAListOfFiles(t *testing.T) {
	a, z := config("a", "https://a", "token: ta"), config("z", "https://z", "token: tz")
	for _, tt := range []struct {
		name     string
		files    map[string]string
		list     []string
		explicit string
		server   string
		err      string
		warning  string
	}{
		{name: "home is read without the variable", files: map[string]string{"home/.kube/config": a},
			server: "https://a"},
		{name: "home is not read with it", files: map[string]string{"home/.kube/config": a, "z": z},
			list: []string{"z"}, server: "https://z"},
		{name: "missing files are skipped", files: map[string]string{"z": z}, list: []string{"nope", "z"},
			server: "https://z"},
		{name: "duplicates are read once", files: map[string]string{"z": z}, list: []string{"z", "z"},
			server: "https://z"},
		{name: "all missing warns", list: []string{"nope", "neither"}, err: "no cluster configured",
			warning: "none of these files exists"},
		{name: "broken files are errors", files: map[string]string{"bad": "{", "z": z}, list: []string{"z", "bad"},
			err: "bad: line 1"},
		{name: "explicit must exist", files: map[string]string{"z": z}, list: []string{"z"}, explicit: "nope",
			err: "no such file"},
		{name: "explicit is not merged", files: map[string]string{"a": "current-context: z", "z": z},
			list: []string{"z"}, explicit: "a", err: `context "z": no such context`},
		{name: "an empty explicit file", files: map[string]string{"e": ""}, explicit: "e",
			err: "no cluster configured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			for name, content := range tt.files {
				b.write(name, content)
			}
			var paths []string
			for _, name := range tt.list {
				paths = append(paths, b.path(name))
			}
			b.vars["KUBECONFIG"] = strings.Join(paths, string(filepath.ListSeparator))
			var f Flags
			if tt.explicit != "" {
				f.Kubeconfig = b.path(tt.explicit)
			}
			cfg, _, err := b.load(f)
			if tt.err != "" {
				wantError(t, err, tt.err)
			} else if err != nil || cfg.Server != tt.server {
				t.Errorf("server %q, error %v, want %q", cfg.Server, err, tt.server)
			}
			if all := strings.Join(b.warnings, "\n"); !strings.Contains(all, tt.warning) ||
				tt.warning == "" && all != "" {
				t.Errorf("warnings %q, want %q", all, tt.warning)
			}
		})
	}
}

// Rules: AUTH-09
func TestTheFirstFileWinsForEachEntryAsAWhole(t *testing.T) {
	b := newBox(t)
	first := b.write("first", `
clusters: [{name: c, cluster: {server: https://first}}]
users: [{name: red, user: {token: first}}]
`)
	second := b.write("second", `
current-context: x
clusters: [{name: c, cluster: {server: https://second, tls-server-name: second}}]
users: [{name: red, user: {token: second, as: second}}]
contexts: [{name: x, context: {cluster: c, user: red, namespace: two}}]
`)
	third := b.write("third", config("x", "https://third", "token: third"))
	b.vars["KUBECONFIG"] = strings.Join([]string{first, second, third}, string(filepath.ListSeparator))
	cfg, ns, err := b.load(Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Server != "https://first" || cfg.TLS.ServerName != "" || token(t, cfg) != "first" ||
		cfg.Impersonate.User != "" {
		t.Errorf("entries of several files were mixed: %s %q %s %v", cfg.Server, cfg.TLS.ServerName, token(t, cfg),
			cfg.Impersonate)
	}
	if ns != "two" {
		t.Errorf("namespace %q: context x of the second file should win", ns)
	}
}

// Rules: AUTH-10
func TestRelativePathsStartAtTheirOwnFile(t *testing.T) {
	b := newBox(t)
	b.write("one/tok", "token-one")
	b.write("two/ca.crt", string(newCA(t, "ca").pem))
	one := b.write("one/config", "users: [{name: u, user: {tokenFile: tok}}]")
	two := b.write("two/config", `
current-context: x
clusters: [{name: c, cluster: {server: https://h, certificate-authority: ../two/ca.crt}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
`)
	b.vars["KUBECONFIG"] = one + string(filepath.ListSeparator) + two
	cfg, _, err := b.load(Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if token(t, cfg) != "token-one" {
		t.Errorf("token %q", token(t, cfg))
	}
}

// Rules: AUTH-23
func TestEachWayOfHavingNoContextIsItsOwnError(t *testing.T) {
	noContext := errors.New("there is no current context, but a context c")
	noCurrent := strings.Replace(config("c", "https://h", "token: t"), "current-context: c\n", "", 1)
	unknown := strings.Replace(config("c", "https://h", "token: t"),
		"current-context: c\n", "current-context: gone\n", 1)
	for _, tt := range []struct {
		name, file string
		flags      Flags
		pod        bool
		is         error
		server     string
	}{
		{name: "empty", file: noCurrent, is: noContext},
		{name: "unknown", file: unknown, is: ErrUnknownContext},
		{name: "empty, overridden", file: noCurrent, flags: Flags{Context: "c"}, server: "https://h"},
		{name: "unknown, overridden", file: unknown, flags: Flags{Context: "c"}, server: "https://h"},
		{name: "flag names an unknown one", file: noCurrent, flags: Flags{Context: "x"}, is: ErrUnknownContext},
		{name: "flag without any file", flags: Flags{Context: "x"}, is: ErrUnknownContext},
		{name: "nothing outside a pod", is: ErrNotInCluster},
		{name: "nothing inside a pod", pod: true, server: "https://10.0.0.1:443"},
		{name: "empty file inside a pod", file: "apiVersion: v1\n", pod: true, server: "https://10.0.0.1:443"},
		{name: "no current context inside a pod", file: noCurrent, pod: true, is: noContext},
		{name: "no current context but a server", file: noCurrent, flags: Flags{Server: "s"}, server: "https://s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			if tt.file != "" {
				b.write("home/.kube/config", tt.file)
			}
			if tt.pod {
				b.pod("10.0.0.1")
			}
			cfg, _, err := b.load(tt.flags)
			var none *NoContextError
			if errors.As(err, &none) && slices.Equal(none.Contexts, []string{"c"}) {
				err = noContext
			}
			if !errors.Is(err, tt.is) || tt.is != nil && err == nil || tt.is == nil && err != nil {
				t.Fatalf("error %v, want %v", err, tt.is)
			}
			if cfg.Server != tt.server {
				t.Errorf("server %q, want %q", cfg.Server, tt.server)
			}
		})
	}
}

// Rules: AUTH-28
func TestKubeconfigIsReadStrictlyWhereItMatters(t *testing.T) {
	t.Run("JSON, anchors, unknown keys and multi-line base64", func(t *testing.T) {
		b := newBox(t)
		ca := b64(newCA(t, "ca").pem)
		path := b.write("config", `{"current-context":"c","preferences":{},"extensions":[1],
"clusters":[{"name":"c","cluster":{"server":"https://h","certificate-authority-data":"`+ca+`","disable-compression":true}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}]}`)
		if cfg, _, err := b.load(Flags{Kubeconfig: path}); err != nil || token(t, cfg) != "t" ||
			cfg.TLS.RootCAs == nil {
			t.Errorf("JSON: %v", err)
		}
		path = b.write("config", `
current-context: c
clusters:
- name: c
  cluster: &it
    server: https://h
    certificate-authority-data: |
      `+ca[:60]+`
      `+ca[60:]+`
- {name: d, cluster: *it}
contexts:
- {name: c, context: {cluster: d}}
`)
		if cfg, _, err := b.load(Flags{Kubeconfig: path}); err != nil || cfg.Server != "https://h" ||
			cfg.TLS.RootCAs == nil {
			t.Errorf("YAML: %v", err)
		}
	})
	for say, text := range map[string]string{
		`user "u" is there twice`:     "users:\n- {name: u, user: {}}\n- {name: u, user: {}}\n",
		"a cluster without a name":    "clusters: [{cluster: {server: s}}]",
		`kind "Pod", not a v1 Config`: "apiVersion: v1\nkind: Pod\n",
		"line 1: cannot unmarshal":    "[]",
		`config:2: context "c": cluster: no cluster`: "contexts:\n- {name: c, context: {cluster: " +
			"x}}\ncurrent-context: c\n",
		`config:2: context "c": user: no user`: "contexts:\n- {name: c, context: {cluster: k, user: " +
			"x}}\ncurrent-context: c\nclusters: [{name: k, cluster: {server: s}}]\n",
	} {
		b := newBox(t)
		path := b.write("config", text)
		_, _, err := b.load(Flags{Kubeconfig: path})
		wantError(t, err, path, say)
	}
}

func TestAFileWithoutEndIsAnErrorWhereverItIsNamed(t *testing.T) {
	const zero = "/dev/zero"
	if _, err := os.Stat(zero); err != nil {
		t.Skip("there is no " + zero)
	}
	for name, use := range map[string]func(b *box) Flags{
		"kubeconfig": func(*box) Flags { return Flags{Kubeconfig: zero} },
		"token file": func(*box) Flags { return Flags{Server: "https://h", TokenFile: zero} },
		"CA":         func(*box) Flags { return Flags{Server: "https://h", CertificateAuthority: zero} },
		"client certificate": func(b *box) Flags {
			return Flags{Kubeconfig: b.write("config",
				config("c", "https://h", "client-certificate: "+zero+", client-key: "+zero))}
		},
		"KUBECONFIG": func(b *box) Flags { b.vars["KUBECONFIG"] = zero; return Flags{} },
	} {
		b := newBox(t)
		_, _, err := b.load(use(b))
		if err == nil || !strings.Contains(err.Error(), "read /dev/zero: it is larger than 4 MiB") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
