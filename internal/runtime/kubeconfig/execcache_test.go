package kubeconfig

import (
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

func wantHeader(t *testing.T, c kube.Credentials, want string) {
	t.Helper()
	if got, err := c.Authorization(t.Context()); err != nil || got != want {
		t.Errorf("header %q, error %v, want %q", got, err, want)
	}
}

func (b *box) wantRuns(n int) {
	b.t.Helper()
	if got := b.runs(); got != n {
		b.t.Errorf("the plugin has run %d times, want %d", got, n)
	}
}

// fileSays is a script that prints an ExecCredential with the status in the file `status`.
func (b *box) fileSays() string {
	return `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{%s}}' "$(cat ` +
		b.path("status") + `)"`
}

// Rules: AUTH-15, AUTH-27
func TestACredentialOfAPluginIsUsedUntilItExpires(t *testing.T) {
	b := newBox(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		token := func(name string, expires time.Duration) {
			b.write("status", `"token":"`+name+`","expirationTimestamp":"`+began.Add(expires).UTC().Format(time.RFC3339)+`"`)
		}
		token("one", 10*time.Minute)
		p := b.plugin(b.fileSays(), "")
		b.wantRuns(0)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { wantHeader(t, p, "Bearer one") })
		}
		wg.Wait()
		b.wantRuns(1)
		token("two", 20*time.Minute)
		time.Sleep(10*time.Minute - time.Second)
		wantHeader(t, p, "Bearer one")
		b.wantRuns(1)
		time.Sleep(time.Second)
		wantHeader(t, p, "Bearer two")
		b.wantRuns(2)

		// An expired credential is not sent, whatever happens; the plugin runs again every five seconds.
		b.write("status", "broken")
		time.Sleep(10 * time.Minute)
		for range 11 {
			_, err := p.Authorization(t.Context())
			wantError(t, err, "it printed no ExecCredential")
			time.Sleep(time.Second)
		}
		b.wantRuns(5)
		b.write("status", `"token":"forever"`)
		time.Sleep(execRetry)
		wantHeader(t, p, "Bearer forever")
		time.Sleep(1000 * time.Hour)
		wantHeader(t, p, "Bearer forever")
		b.wantRuns(6)
	})
}

// Rules: AUTH-15, AUTH-03
func TestA401RunsThePluginOnceAndNotInALoop(t *testing.T) {
	b := newBox(t)
	synctest.Test(t, func(t *testing.T) {
		b.write("status", `"token":"one"`)
		p := b.plugin(b.fileSays(), "")
		wantHeader(t, p, "Bearer one")
		time.Sleep(time.Minute)
		b.write("status", `"token":"two"`)
		sent := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				p.Invalidate(sent)
				wantHeader(t, p, "Bearer two")
			})
		}
		wg.Wait()
		b.wantRuns(2)
		time.Sleep(time.Minute)
		p.Invalidate(sent) // a late 401 to the old token
		wantHeader(t, p, "Bearer two")
		b.wantRuns(2)

		// The server refuses whatever the plugin returns, or the plugin is broken: one run in five seconds.
		for range 10 {
			p.Invalidate(time.Now())
			wantHeader(t, p, "Bearer two")
			time.Sleep(time.Second)
		}
		b.wantRuns(4)
		b.write("status", "broken")
		time.Sleep(execRetry)
		p.Invalidate(time.Now())
		wantHeader(t, p, "Bearer two")
		if len(b.warnings) != 1 || !strings.HasSuffix(b.warnings[0],
			"it printed no ExecCredential: want one as JSON; the credential returned before is used") {
			t.Errorf("warnings %q", b.warnings)
		}
	})
}

// Rules: AUTH-16
func TestANewCertificateOfAPluginTakesOverTheConnections(t *testing.T) {
	ca := newCA(t, "ca")
	s := newTLSServer(t, ca.issue("server", "127.0.0.1").pair(t))
	b := newBox(t)
	status := func(id identity, more string) {
		quote := func(pem []byte) string { return strings.ReplaceAll(string(pem), "\n", `\n`) }
		b.write("status", `"clientCertificateData":"`+quote(id.cert)+`","clientKeyData":"`+quote(id.key)+`"`+more)
	}
	status(ca.issue("old"), "")
	text := strings.Replace(config("c", s.URL, b.execUser(b.fileSays(), "")), "server:",
		"certificate-authority-data: "+b64(ca.pem)+"\n    server:", 1)
	cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
	if err != nil {
		t.Fatal(err)
	}
	p, c := cfg.Credentials.(*plugin), newClient(t, cfg)
	for range 3 {
		if who, err := get(t, c); err != nil || !strings.Contains(who, "old") {
			t.Fatalf("%s, %v", who, err)
		}
	}
	b.wantRuns(1)
	status(ca.issue("renewed"), `,"token":"beside"`)
	s.set(s.cert, "old")
	p.mu.Lock()
	p.ended = time.Time{} // the last run was long ago
	p.mu.Unlock()
	if who, err := get(t, c); err != nil || !strings.Contains(who, "renewed") {
		t.Errorf("after the 401: %s, %v", who, err)
	}
	b.wantRuns(2)
	if last := s.bearer[len(s.bearer)-1]; last != "Bearer beside" {
		t.Errorf("header %q: the token goes beside the certificate", last)
	}
}

// Kubeconfigs as the tools of these providers write them, but for names, addresses and the path of tsh.
var providers = map[string]struct{ command, args, cluster, user string }{
	"EKS": {command: "aws", args: "--region eu-west-1 eks get-token --cluster-name demo --output json", user: `
      apiVersion: client.authentication.k8s.io/v1beta1
      args: [--region, eu-west-1, eks, get-token, --cluster-name, demo, --output, json]
      command: aws
      env:
      - name: AWS_PROFILE
        value: dev`},
	"GKE": {command: "gke-gcloud-auth-plugin", user: `
      apiVersion: client.authentication.k8s.io/v1beta1
      command: gke-gcloud-auth-plugin
      installHint: Install gke-gcloud-auth-plugin for use with kubectl by following
        https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl#install_plugin
      provideClusterInfo: true`},
	"AKS": {command: "kubelogin", args: "get-token --environment AzurePublicCloud --server-id 6dae --tenant-id 7", user: `
      apiVersion: client.authentication.k8s.io/v1beta1
      args: [get-token, --environment, AzurePublicCloud, --server-id, "6dae", --tenant-id, "7"]
      command: kubelogin
      env: null
      installHint: "\nkubelogin is not installed which is required to connect to AAD enabled cluster.\n"
      provideClusterInfo: false`},
	"OIDC": {command: "kubectl",
		args: "oidc-login get-token --oidc-issuer-url=https://id.example --oidc-client-id=k8s", user: `
      apiVersion: client.authentication.k8s.io/v1
      args: [oidc-login, get-token, --oidc-issuer-url=https://id.example, --oidc-client-id=k8s]
      command: kubectl
      env: null
      interactiveMode: Never
      provideClusterInfo: false`},
	"Teleport": {command: "bin/tsh",
		args: "kube credentials --kube-cluster=demo --teleport-cluster=t.example --proxy=t.example:443", cluster: `
    tls-server-name: kube-teleport-proxy-alpn.t.example
    extensions:
    - extension: demo
      name: teleport.kube.name`, user: `
      apiVersion: client.authentication.k8s.io/v1beta1
      args: [kube, credentials, --kube-cluster=demo, --teleport-cluster=t.example, "--proxy=t.example:443"]
      command: ./bin/tsh
      env: null
      interactiveMode: IfAvailable
      provideClusterInfo: false`},
}

// Rules: AUTH-14, AUTH-21
func TestKubeconfigsOfProvidersWorkWithTheirPlugin(t *testing.T) {
	ca := newCA(t, "ca")
	s := newTLSServer(t, ca.issue("server", "127.0.0.1", "kube-teleport-proxy-alpn.t.example").pair(t))
	id := ca.issue("teleport-user")
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			status, want := `"token":"k8s-`+name+`","expirationTimestamp":"2999-01-01T00:00:00Z"`, "Bearer k8s-"+name
			if name == "Teleport" {
				quote := func(pem []byte) string { return strings.ReplaceAll(string(pem), "\n", `\\n`) }
				status = `"clientCertificateData":"` + quote(id.cert) + `","clientKeyData":"` + quote(id.key) + `"`
				want = ""
			}
			version := "client.authentication.k8s.io/v1beta1"
			if name == "OIDC" {
				version = "client.authentication.k8s.io/v1"
			}
			path := p.command
			if !strings.Contains(path, "/") {
				path = "PATH/" + path
			}
			path = b.write(path, "#!/bin/sh\n[ \"$*\" = '"+p.args+`' ] || { echo "$@" >&2; exit 1; }`+"\n"+
				`printf '{"kind":"ExecCredential","apiVersion":"`+version+`","spec":{"interactive":false},"status":{`+
				status+"}}'\n")
			if err := os.Chmod(path, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", b.path("PATH")+":"+os.Getenv("PATH"))
			text := strings.Replace(config("c", s.URL, ""), "server:",
				"certificate-authority-data: "+b64(ca.pem)+p.cluster+"\n    server:", 1)
			text = strings.Replace(text, "  user: {}\n", "  user:\n    exec:"+p.user+"\n", 1)
			cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
			if err != nil {
				t.Fatal(err)
			}
			who, err := get(t, newClient(t, cfg))
			if err != nil || s.bearer[len(s.bearer)-1] != want ||
				(want == "") != strings.Contains(who, "teleport-user") {
				t.Errorf("error %v, %s, header %q, warnings %q", err, who, s.bearer[len(s.bearer)-1], b.warnings)
			}
		})
	}
}

func TestAPanicWhileCredentialsAreReadIsAWarning(t *testing.T) {
	b := newBox(t)
	b.env().contained("the user", func() { panic("a bug") })
	if len(b.warnings) != 1 || b.warnings[0] != "the user: panic: a bug; what was read before is used" {
		t.Errorf("warnings %q", b.warnings)
	}
}
