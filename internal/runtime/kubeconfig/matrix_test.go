package kubeconfig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// matrixCase is one way to write kubeconfigs.
type matrixCase struct {
	name    string
	files   map[string]string
	list    []string // KUBECONFIG; nil = --kubeconfig with the file "config"
	context string   // --context
	differs string   // why skiff refuses what kubectl takes, or the other way round
}

// one is the whole of a kubeconfig file "config" with more fields in its cluster and user, in flow style.
func one(cluster, user string) map[string]string {
	return map[string]string{"config": "current-context: x\n" +
		"clusters: [{name: c, cluster: {" + cluster + "}}]\n" +
		"users: [{name: u, user: {" + user + "}}]\n" +
		"contexts: [{name: x, context: {cluster: c, user: u}}]\n"}
}

func with(files map[string]string, more map[string]string) map[string]string {
	for name, content := range more {
		files[name] = content
	}
	return files
}

const server = "server: https://h:6443"

func matrix(ca, cert, key string) []matrixCase {
	pems := map[string]string{"ca.crt": ca, "pki/tls.crt": cert, "pki/tls.key": key}
	ca64, cert64, key64 := b64([]byte(ca)), b64([]byte(cert)), b64([]byte(key))
	execUser := "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "
	return []matrixCase{
		{name: "token", files: one(server, "token: t")},
		{name: "no user", files: map[string]string{"config": "current-context: x\nclusters: [{name: c, cluster: {" +
			server + "}}]\ncontexts: [{name: x, context: {cluster: c}}]\n"}},
		{name: "namespace", files: map[string]string{"config": strings.Replace(one(server, "token: t")["config"],
			"user: u}", "user: u, namespace: shop}", 1)}},
		{name: "CA file", files: with(one(server+", certificate-authority: ca.crt", ""), pems)},
		{name: "CA file above", files: with(one(server+", certificate-authority: ./pki/../ca.crt", ""), pems)},
		{name: "CA data", files: one(server+", certificate-authority-data: "+ca64, "")},
		{name: "CA data in quotes", files: one(server+`, certificate-authority-data: "`+ca64+`"`, "")},
		{name: "CA missing", files: one(server+", certificate-authority: nope.crt", "")},
		{name: "CA data no base64", files: one(server+", certificate-authority-data: '!'", "")},
		{name: "CA file and data",
			files:   with(one(server+", certificate-authority: ca.crt, certificate-authority-data: "+ca64, ""), pems),
			differs: "kubectl connects with the data, but does not flatten it; skiff uses the data and warns"},
		{name: "certificate files",
			files: with(one(server, "client-certificate: pki/tls.crt, client-key: pki/tls.key"), pems)},
		{name: "certificate data", files: one(server, "client-certificate-data: "+cert64+", client-key-data: "+key64)},
		{name: "certificate file, key data",
			files: with(one(server, "client-certificate: pki/tls.crt, client-key-data: "+key64), pems)},
		{name: "token file", files: with(one(server, "tokenFile: sub/tok"), map[string]string{"sub/tok": "t"})},
		{name: "token and token file", files: with(one(server, "token: literal, tokenFile: tok"),
			map[string]string{"tok": "t"})},
		{name: "basic", files: one(server, "username: u, password: 'p: #'")},
		{name: "exec in PATH", files: one(server, execUser+
			"command: sh, args: [-c, 'echo'], env: [{name: A, value: b}], provideClusterInfo: true}")},
		{name: "exec by relative path", files: with(one(server, execUser+"command: bin/plugin}"),
			map[string]string{"bin/plugin": ""})},
		{name: "exec without args", files: one(server, "exec: {apiVersion: client.authentication.k8s.io/v1beta1, "+
			"command: sh, args: null, env: null}")},
		{name: "insecure", files: one(server+", insecure-skip-tls-verify: true", "token: t")},
		{name: "tls-server-name", files: one(server+", tls-server-name: other", "token: t")},
		{name: "proxy", files: one(server+", proxy-url: 'socks5://u:p@proxy:1080'", "token: t")},
		{name: "impersonation", files: one(server,
			"token: t, as: jane, as-uid: '7', as-groups: [a, b], as-user-extra: {k: [v, w], Acme/x: [z]}")},
		{name: "unknown fields", files: one(server+", disable-compression: true, colour: red",
			"token: t, mood: good")},
		{name: "path of the server", files: one("server: 'https://h/k8s/clusters/c'", "token: t")},
		{name: "JSON", files: map[string]string{"config": `{"apiVersion":"v1","kind":"Config","current-context":"x","preferences":{},
	"clusters":[{"name":"c","cluster":{"server":"https://h"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
	"users":[{"name":"u","user":{"token":"t"}}]}`}},
		{name: "block text and anchors", files: map[string]string{"config": "current-context: x\nclusters:\n" +
			"- name: c\n  cluster: &c\n    server: >-\n      https://h\n- {name: d, cluster: *c}\n" +
			"users:\n- name: u\n  user:\n    token: |-\n      t\n" +
			"contexts: [{name: x, context: {cluster: d, user: u}}]\n"}},
		{name: "yes is true", files: one(server+", insecure-skip-tls-verify: yes", "token: t")},
		{name: "an unquoted number", files: one(server, "token: 12345"),
			differs: "kubectl wants quotes; skiff takes the text as it is written"},
		{name: "a word that YAML 1.1 takes for true", files: one(server, "token: y"),
			differs: "as an unquoted number"},
		{name: "null", files: one(server+", certificate-authority: null", "token: ~, username: null")},
		{name: "another context", files: map[string]string{"config": "current-context: x\n" +
			"clusters: [{name: c, cluster: {" + server + "}}, {name: d, cluster: {server: https://d}}]\n" +
			"users: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}, " +
			"{name: z, context: {cluster: d, user: u, namespace: other}}]\n"}, context: "z"},
		{name: "unknown context", files: one(server, "token: t"), context: "nope"},
		{name: "unknown cluster",
			files: map[string]string{"config": "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"}},
		{name: "broken YAML", files: map[string]string{"config": "clusters: ["}},
		{name: "a key twice", files: one(server+", server: https://other", "token: t")},
		{name: "a list twice", files: map[string]string{"config": "users: []\n" + one(server, "token: t")["config"]}},
		{name: "another kind", files: map[string]string{"config": "apiVersion: v1\nkind: Pod\n"}},
		{name: "first file wins", list: []string{"a/config", "b/config"}, files: map[string]string{
			"a/config": "clusters: [{name: c, cluster: {" + server + "}}]\nusers: [{name: u, user: {token: first}}]\n",
			"b/config": one("server: https://second, tls-server-name: second",
				"token: second, as: second")["config"]}},
		{name: "first current-context wins", list: []string{"a", "b", "c"}, files: map[string]string{
			"a": "current-context: ''\n", "b": one(server, "token: b")["config"],
			"c": strings.ReplaceAll(one("server: https://c", "token: c")["config"], "x", "z")}},
		{name: "relative to their own files", list: []string{"a/config", "b/config"}, files: map[string]string{
			"a/config":     "users: [{name: u, user: {tokenFile: ../tok}}]\n",
			"b/config":     one(server+", certificate-authority: sub/ca.crt", "")["config"],
			"b/sub/ca.crt": ca, "tok": "t"}},
		{name: "missing and repeated files", list: []string{"nope", "config", "config", ""},
			files: one(server, "token: t")},
		{name: "a broken file in the list", list: []string{"config", "bad"}, files: with(one(server, "token: t"),
			map[string]string{"bad": "{"})},
		{name: "an empty file in the list", list: []string{"empty", "config"}, files: with(one(server, "token: t"),
			map[string]string{"empty": ""})},
	}
}

// reading is what skiff takes of kubeconfigs, with the content of the files that they name. Of the paths that kubectl
// does not flatten it has the last element: kubectl prints them unresolved.
func reading(b *box, f Flags) (string, error) {
	base, err := loadBase(f, b.env())
	if err != nil {
		return "", err
	}
	if _, err := base.config(b.env()); err != nil && filepath.Base(f.Kubeconfig) != flattened {
		return "", err
	}
	c, u := &base.cluster, &base.user
	pem, err := c.caPEM()
	if err != nil {
		return "", err
	}
	out := []any{c.Server, string(pem), c.TLSServerName, c.Insecure, c.ProxyURL.reveal(), base.namespace,
		u.Token.reveal(), filepath.Base(u.TokenFile), u.Username.reveal(), u.Password.reveal(), u.As, u.AsUID,
		u.AsGroups, u.AsExtra}
	for _, file := range []struct {
		name, path string
		data       Secret
	}{{"client-certificate", u.ClientCert, u.ClientCertData}, {"client-key", u.ClientKey, u.ClientKeyData}} {
		source, ok, err := u.half(file.name, file.path, file.data, b.env())
		if err != nil {
			return "", err
		}
		if ok {
			pem, err := source.read()
			if err != nil {
				return "", err
			}
			out = append(out, string(pem))
		}
	}
	if e := u.Exec; e != nil {
		out = append(out, e.APIVersion, filepath.Base(e.Command), e.ProvideClusterInfo, len(e.Args), len(e.Env))
		for _, a := range e.Args {
			out = append(out, a.reveal())
		}
		for _, v := range e.Env {
			out = append(out, v.Name, v.Value.reveal())
		}
	}
	return fmt.Sprintf("%q", out), nil
}

// flattened is the name of the file that kubectl writes.
const flattened = "flattened by kubectl"

// flatten has kubectl read the same kubeconfigs and write what it takes of them into one file.
func flatten(t *testing.T, kubectl string, b *box, f Flags) (Flags, error) {
	args := []string{"config", "view", "--minify", "--flatten", "--raw", "-o", "json"}
	if f.Kubeconfig != "" {
		args = append(args, "--kubeconfig", f.Kubeconfig)
	}
	if f.Context != "" {
		args = append(args, "--context", f.Context)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, args...)
	cmd.Env = []string{"HOME=" + b.path("home"), "KUBECONFIG=" + b.vars["KUBECONFIG"], "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	return Flags{Kubeconfig: b.write(flattened, string(out))}, err
}

// Rules: AUTH-08, AUTH-09, AUTH-10, AUTH-11, AUTH-12, AUTH-23, AUTH-28
func TestKubeconfigsAreReadAsKubectlReadsThem(t *testing.T) {
	if testing.Short() {
		t.Skip("runs kubectl many times")
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("needs kubectl in PATH, to compare with its reading of the same files")
	}
	ca := newCA(t, "ca")
	id := ca.issue("someone")
	cases := matrix(string(ca.pem), string(id.cert), string(id.key))
	if len(cases) < 30 {
		t.Errorf("%d cases, want 30", len(cases))
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			for name, content := range tt.files {
				b.write(name, content)
			}
			if tt.files["bin/plugin"] == "" {
				os.Chmod(b.path("bin/plugin"), 0o700)
			}
			f := Flags{Context: tt.context}
			var list []string
			for _, name := range tt.list {
				list = append(list, b.path(name))
			}
			if b.vars["KUBECONFIG"] = strings.Join(list, string(filepath.ListSeparator)); list == nil {
				f.Kubeconfig = b.path("config")
			}
			got, err := reading(b, f)
			want := ""
			theirs, wantErr := flatten(t, kubectl, b, f)
			if wantErr == nil {
				want, wantErr = reading(b, theirs)
			}
			same := (err == nil) == (wantErr == nil) && got == want
			if same != (tt.differs == "") {
				t.Errorf("skiff reads   %s, error %v\nkubectl reads %s, error %v\ndiffers: %q", got, err, want,
					wantErr, tt.differs)
			}
		})
	}
}
