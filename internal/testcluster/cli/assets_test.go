package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/cli"
	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver/auth"
)

func TestAssetsAreLinksThatReplaceLinksOnly(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 {
		if r := skiffDev(t, "assets", dir); r.Code != 0 || r.Stdout != "export KUBEBUILDER_ASSETS='"+dir+"'\n" {
			t.Fatalf("%+v", r)
		}
	}
	for _, name := range assetNames {
		if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || to != self {
			t.Errorf("%s is a link to %s (%v), want %s", name, to, err, self)
		}
	}
	real := filepath.Join(dir, "etcd")
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(real, []byte("a real one"), 0o755); err != nil {
		t.Fatal(err)
	}
	skiffDev(t, "assets", dir).Want(t, cli.ExitFailed, real+": it exists and is not a link")
	if text, err := os.ReadFile(real); err != nil || string(text) != "a real one" {
		t.Errorf("the file is now %q (%v)", text, err)
	}
	skiffDev(t, "assets").Want(t, cli.ExitUsage, "takes one directory")
}

func TestTheNameOfALinkSelectsTheProgram(t *testing.T) {
	for argv, want := range map[string]string{
		"bin/skiff run -h":                          "run -h",
		"/assets/etcd --help":                       "etcd --help",
		"kube-apiserver.exe --a --b":                "kube-apiserver --a --b",
		"./etcdctl x":                               "x",
		"k8s/1.33.0-linux-amd64/kube-apiserver --a": "kube-apiserver --kubernetes-version=1.33 --a",
		"k8s/1.33.0-linux-amd64/etcd --a":           "etcd --a",
		"bin/1.34/kube-apiserver":                   "kube-apiserver --kubernetes-version=1.34",
		"go1.33/kube-apiserver":                     "kube-apiserver",
	} {
		if got := programArgs(strings.Fields(argv)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
	r := skiffDev(t, "kube-apiserver", "--help")
	r.Want(t, cli.ExitDone)
	// envtest sets --insecure-port if the help names it.
	if !strings.Contains(r.Stdout, "\n  --cert-dir ") || strings.Contains(r.Stdout, "insecure-port") {
		t.Error(r.Stdout)
	}
	for args, say := range map[string]string{
		"etcd serve":                                             `etcd: "serve" is no flag`,
		"etcd --listen-client-urls=unix://x":                     `--listen-client-urls: "unix://x" is no URL`,
		"kube-apiserver --simulate gc,job":                       `unknown part "job"`,
		"kube-apiserver --kubernetes-version=1.29":               `--kubernetes-version: "1.29" is no version`,
		"kube-apiserver --feature-gates=A=true":                  "--feature-gates: feature gate A: v1.36 has no such",
		"kube-apiserver --feature-gates=HPAScaleToZero=true":     "skiff-dev does not have what it would change",
		"kube-apiserver --enable-admission-plugins=RuntimeClass": "does not have the admission plugin RuntimeClass",
		"kube-apiserver --enable-admission-plugins=Pods":         `unknown admission plugin "Pods"`,
		"kube-apiserver --disable-admission-plugins=LimitRanger": "cannot do without the admission plugin LimitRanger",
		"kube-apiserver --runtime-config=api/all=true":           "api/all=true has no effect",
		"kube-apiserver --runtime-config=batch/v2":               "does not serve batch/v2",
		"kube-apiserver --runtime-config=batch/v1=no":            `batch/v1: "no" is not true or false`,
	} {
		skiffDev(t, strings.Fields(args)...).Want(t, cli.ExitUsage, say)
	}
	for _, flag := range []string{"--client-ca-file", "--token-auth-file"} {
		skiffDev(t, "kube-apiserver", flag+"=/nowhere").Want(t, cli.ExitFailed, flag+": open /nowhere")
	}
	o, err := apiServerOptions(programFlags{"runtime-config": {"batch/v1=false,apps/v1=true", "api/ga,x/v1=false"},
		"kubernetes-version": {"1.33", "1.34"}, "feature-gates": {"ImageVolume=true", "WatchList=true"}}, "")
	if err != nil || !slices.Equal(o.api.Unserved, []string{"batch/v1"}) || o.api.Features.Version() != "v1.34.4" ||
		!o.api.Features.On("ImageVolume") {
		t.Errorf("%v, %v, %v", err, o.api.Unserved, o.api.Features)
	}
	plugins := programFlags{"enable-admission-plugins": {"LimitRanger,Priority"},
		"disable-admission-plugins": {"ServiceAccount,PodSecurity"}} // envtest disables the first
	if err := checkPlugins(plugins, nil); err != nil {
		t.Error(err)
	}
	for mode, want := range map[string]bool{"Node,RBAC": true, "AlwaysAllow": false} {
		o, err := apiServerOptions(programFlags{"authorization-mode": {mode}}, "")
		if o.api.RBAC != want || err != nil {
			t.Errorf("--authorization-mode=%s: roles decide: %t, %v", mode, o.api.RBAC, err)
		}
	}
	f := skiffDevs.Follow(t, "etcd", "-listen-client-urls=http://127.0.0.1:0", "-data-dir", "x")
	if code := f.Stop(); code != cli.ExitDone || f.Stderr.String() != "" {
		t.Errorf("exit code %d: %s", code, f.Stderr)
	}
}

// startAPIServer runs skiff as kube-apiserver in this process, and returns it with its --cert-dir.
func startAPIServer(t *testing.T, args ...string) (*clitest.Follower, string) {
	t.Helper()
	dir := t.TempDir()
	f := skiffDevs.Follow(t, append([]string{"kube-apiserver", "--cert-dir=" + dir, "--secure-port=0"}, args...)...)
	waitForFile(t, filepath.Join(dir, "skiff.kubeconfig"))
	return f, dir
}

// connectTo connects with the kubeconfig of a --cert-dir, and with another token where one is given.
func connectTo(t *testing.T, dir string, token string) *kube.Client {
	t.Helper()
	client, _ := connect(t, filepath.Join(dir, "skiff.kubeconfig"),
		kubeconfig.Flags{Token: kubeconfig.NewSecret(token)})
	return client
}

func TestTheAPIServerProgramTakesTheFlagsOfTheRealOne(t *testing.T) {
	tokens := writeFile(t, "t1,eve,1,\"dev,ops\"\nt2,bob,2\n")
	f, dir := startAPIServer(t, "--token-auth-file", tokens, "--allow-privileged", "--audit-log-path=-",
		"--simulate=serviceaccounts")
	client := connectTo(t, dir, "")
	var account struct{ kube.Meta }
	for {
		err := client.Get(t.Context(), serviceAccounts, kube.Key{Namespace: "default", Name: "default"}, &account)
		if err == nil {
			break
		}
		if !kube.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	reviews := kube.Resource{Group: "authentication.k8s.io", Version: "v1", Plural: "selfsubjectreviews",
		Kind: "SelfSubjectReview", ClusterScoped: true}
	for token, want := range map[string]string{"t1": "eve", "t2": "bob", "": "admin"} {
		body := map[string]any{"apiVersion": reviews.APIVersion(), "kind": reviews.Kind}
		var answer struct {
			Status struct {
				UserInfo struct {
					Username string `json:"username"`
				} `json:"userInfo"`
			} `json:"status"`
		}
		if err := connectTo(t, dir, token).Create(t.Context(), reviews, "", body, &answer,
			kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := answer.Status.UserInfo.Username; got != want {
			t.Errorf("token %q is of %s, want %s", token, got, want)
		}
	}
	if code := f.Stop(); code != cli.ExitDone {
		t.Errorf("exit code %d: %s", code, f.Stderr)
	}
	if got, want := f.Stderr.String(), "skiff-dev as kube-apiserver: --audit-log-path has no effect\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	// The certificate that it made serves the next one.
	before, err := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	next := skiffDevs.Follow(t, "kube-apiserver", "--cert-dir="+dir, "--secure-port=0")
	waitForFile(t, filepath.Join(dir, "skiff.kubeconfig"))
	if err := connectTo(t, dir, "").Get(t.Context(), namespaces, kube.Key{Name: "default"}, &account); err != nil {
		t.Error(err)
	}
	if code := next.Stop(); code != cli.ExitDone {
		t.Errorf("exit code %d: %s", code, next.Stderr)
	}
	after, err := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the certificate was made again (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "skiff.kubeconfig")); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig still exists: %v", err)
	}
}

func TestTheAPIServerProgramSignsTokensWithTheKeyOfItsFlags(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	args := []string{"--service-account-signing-key-file=" + file, "--service-account-issuer=https://issuer.test"}
	_, certs := startAPIServer(t, args...)
	client := connectTo(t, certs, "")
	account := map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "bot"}}
	if err := client.Create(t.Context(), serviceAccounts, "default", account, nil, kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	request := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"metadata": account["metadata"]}
	if err := client.Create(t.Context(), serviceAccounts, "default", request, &answer,
		kube.WriteOptions{Subresource: "token"}); err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err := auth.Verify(answer.Status.Token, key.Public(), &claims); err != nil ||
		claims.Issuer != "https://issuer.test" {
		t.Errorf("%v, %+v", err, claims)
	}
	for name, say := range map[string]string{"/nowhere": "open /nowhere", certs: "is a directory",
		filepath.Join(certs, "apiserver.crt"): "has no private key"} {
		skiffDev(t, "kube-apiserver", "--service-account-signing-key-file="+name).Want(t, cli.ExitFailed, say)
	}
}
