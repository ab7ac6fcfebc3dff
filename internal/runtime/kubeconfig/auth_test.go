package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// Rules: AUTH-13
func TestAUserNameAndPasswordAreSentAsBasicAuthentication(t *testing.T) {
	for _, tt := range []struct{ user, header, err string }{
		{user: "username: bob, password: hush", header: "Basic Ym9iOmh1c2g="},
		{user: "username: bob", header: "Basic Ym9iOg=="},
		{user: "token: 't  '", header: "Bearer t"},
		{user: "password: hush", header: "Basic Omh1c2g="},
		{user: `username: bob, password: "hush: \"1\" €"`, header: "Basic Ym9iOmh1c2g6ICIxIiDigqw="},
		{user: `username: "b:ob", password: hush`, err: `user "c": username: holds a colon, which basic authentication ` +
			`cannot carry`},
		{user: "token: t, username: bob",
			err: `user "c": username: there is a token too: a request can carry only one of them, remove the other`},
		{user: "tokenFile: t, password: hush",
			err: `user "c": password: there is a token too: a request can carry only one of them, remove the other`},
	} {
		b := newBox(t)
		path := b.write("config", config("c", "https://h", tt.user))
		cfg, _, err := b.load(Flags{Kubeconfig: path})
		if tt.err != "" {
			wantMessage(t, err, path+":13: "+tt.err)
		} else if err != nil || header(t, cfg) != tt.header {
			t.Errorf("%s: %q, error %v, want %q", tt.user, header(t, cfg), err, tt.header)
		}
		cfg, _, err = b.load(Flags{Kubeconfig: path, Token: NewSecret("mine")})
		if err != nil || header(t, cfg) != "Bearer mine" {
			t.Errorf("--token replaces the user's credentials, got %v", err)
		}
	}
}

// Rules: AUTH-13
func TestTheServerSeesTheBasicHeaderBesideAClientCertificate(t *testing.T) {
	ca := newCA(t, "ca")
	s := newTLSServer(t, ca.issue("server", "127.0.0.1").pair(t))
	b := newBox(t)
	b.identity(ca.issue("someone"))
	text := strings.Replace(config("c", s.URL, "username: u, password: p, client-certificate: tls.crt, client-key: "+
		"tls.key"),
		"server:", "certificate-authority-data: "+b64(ca.pem)+"\n    server:", 1)
	cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
	if err != nil {
		t.Fatal(err)
	}
	who, err := get(t, newClient(t, cfg))
	if err != nil || !strings.Contains(who, "someone") || len(s.bearer) != 1 || s.bearer[0] != "Basic dTpw" {
		t.Errorf("%s, headers %q, error %v", who, s.bearer, err)
	}
}

// Rules: AUTH-19
func TestAnAuthProviderIsAnErrorThatNamesThePluginThatReplacedIt(t *testing.T) {
	for name, instead := range map[string]string{
		"gcp": "gke-gcloud-auth-plugin", "azure": "kubelogin", "x": "the " +
			"plugin of your provider",
	} {
		b := newBox(t)
		path := b.write("config", config("c", "https://h", "auth-provider: {name: "+name+"}"))
		_, _, err := b.load(Flags{Kubeconfig: path})
		wantMessage(t, err, path+`:13: user "c": auth-provider: auth-provider "`+name+
			`" was removed from Kubernetes: use an exec plugin instead: `+instead)
		if _, _, err := b.load(Flags{Kubeconfig: path, Token: NewSecret("mine")}); err != nil {
			t.Errorf("--token replaces the user's credentials, got %v", err)
		}
	}
}

// jwt returns a token that says when it expires.
func jwt(claims string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// Rules: AUTH-19
func TestTheTokenOfTheAuthProviderOIDCIsUsedUntilItExpires(t *testing.T) {
	valid := jwt(fmt.Sprintf(`{"exp":%d}`, time.Now().Add(time.Hour).Unix()))
	load := func(values map[string]string) (kube.Config, error) {
		b := newBox(t)
		var fields []string
		for name, value := range values {
			fields = append(fields, name+": \""+value+"\"")
		}
		path := b.write("config", config("c", "https://h", "auth-provider: {name: oidc, config: {"+
			strings.Join(fields, ", ")+"}}"))
		cfg, _, err := b.load(Flags{Kubeconfig: path})
		return cfg, err
	}
	cfg, err := load(map[string]string{"id-token": valid, "client-id": "kubectl"})
	if err != nil {
		t.Fatal(err)
	}
	if header, err := cfg.Credentials.Authorization(t.Context()); err != nil || header != "Bearer "+valid {
		t.Errorf("header %q, %v", header, err)
	}
	for token, want := range map[string]string{
		"":                          "it has no id-token",
		jwt(`{"exp":1000}`):         "expired at 1970-01-01T00:16:40Z, and skiff does not refresh it",
		jwt(`{}`):                   "is not a JWT that says when it expires",
		"a.b":                       "is not a JWT of three parts",
		"a.!.c":                     "its second part is not base64",
		jwt(`{"exp":1e300}`) + " x": "is not a token",
	} {
		if _, err := load(map[string]string{"id-token": token}); err == nil || !strings.Contains(err.Error(), want) ||
			token != "" && strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v, want %q", token, err, want)
		}
	}
}

// Rules: AUTH-07
func TestCredentialsAreNeverSentOverPlainHTTP(t *testing.T) {
	id := newCA(t, "ca").issue("someone")
	for field, user := range map[string]string{
		"token":                   "token: hush",
		"tokenFile":               "tokenFile: tok",
		"username":                "username: u, password: hush",
		"password":                "password: hush",
		"exec":                    "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: sh}",
		"client-certificate-data": "client-certificate-data: " + b64(id.cert) + ", client-key-data: " + b64(id.key),
	} {
		b := newBox(t)
		b.write("tok", "hush")
		load := func(host string, allow bool) error {
			path := b.write("config", config("c", "http://"+host, user))
			_, _, err := b.load(Flags{Kubeconfig: path, InsecureLoopbackHTTP: allow})
			return err
		}
		where := b.path("config") + `:13: user "c": ` + field
		for _, host := range []string{"api.example", "10.0.0.1:80", "localhost.example", "127.0.0.1.example"} {
			for _, allow := range []bool{false, true} {
				wantMessage(t, load(host, allow), where+": credentials are not sent over plain http to "+host+
					": use https, or a user without credentials")
			}
		}
		for _, host := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:8080", "127.3.2.1"} {
			wantMessage(t, load(host, false), where+": credentials are not sent over plain http to "+host+
				": use https, or a user without credentials")
			if err := load(host, true); field != "client-certificate-data" && err != nil {
				t.Errorf("with --insecure-loopback-http: %v", err)
			} else if field == "client-certificate-data" {
				wantMessage(t, err, where+": a client certificate needs https, and "+host+" speaks plain http")
			}
		}
	}
	b := newBox(t)
	_, _, err := b.load(Flags{Server: "http://localhost:8080", Token: NewSecret("hush")})
	wantError(t, err, "--token", "plain http")
	cfg, _, err := b.load(Flags{Server: "http://localhost:8080"})
	if err != nil || cfg.Server != "http://localhost:8080" || cfg.Credentials != nil {
		t.Errorf("plain http without credentials: %v, %v", cfg, err)
	}
	text := strings.Replace(config("c", "http://localhost", "token: t"), "server:",
		"proxy-url: http://proxy\n    server:", 1)
	_, _, err = b.load(Flags{Kubeconfig: b.write("config", text), InsecureLoopbackHTTP: true})
	wantMessage(t, err, b.path("config")+`:7: cluster "c": proxy-url: a proxy would see the credentials on their way to `+
		"localhost over plain http: use https")
}

// Rules: AUTH-07
func TestATokenReachesALoopbackServerOverPlainHTTPWhereTheFlagAsksForIt(t *testing.T) {
	var seen string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte("{}"))
	}))
	defer s.Close()
	cfg, _, err := newBox(t).load(Flags{Server: s.URL, Token: NewSecret("t"), InsecureLoopbackHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, newClient(t, cfg)); err != nil || seen != "Bearer t" {
		t.Errorf("header %q, error %v", seen, err)
	}
}

type pod struct {
	kube.Meta `json:"metadata"`
}

// Rules: AUTH-27
func TestATokenThatExpiresDoesNotEndAWatchAndTheNextRequestHasTheNewOne(t *testing.T) {
	ca := newCA(t, "ca")
	next, seen := make(chan struct{}), make(chan string, 10)
	s := newTLSServer(t, ca.issue("server", "127.0.0.1").pair(t))
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			io.WriteString(w, "{}")
			return
		}
		w.(http.Flusher).Flush()
		<-next
		io.WriteString(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",`+
			`"metadata":{"name":"a","resourceVersion":"7"}}}`+"\n")
	})
	b := newBox(t)
	cfg, _, err := b.load(Flags{Server: s.URL, TokenFile: b.write("tok", "old"), CertificateAuthority: b.write("ca",
		string(ca.pem))})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, cfg)
	pods := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	w, err := kube.Watch[*pod](t.Context(), c, kube.Query{Resource: pods}, kube.WatchOptions{ResourceVersion: "5"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b.write("tok", "new")
	cfg.Credentials.(*tokenFile).Invalidate(time.Now()) // the old one has expired meanwhile
	if _, err := get(t, c); err != nil {
		t.Fatal(err)
	}
	close(next)
	if e, err := w.Next(); err != nil || e.Object.Name != "a" {
		t.Errorf("the watch brought %v, error %v", e, err)
	}
	if first, second := <-seen, <-seen; first != "Bearer old" || second != "Bearer new" {
		t.Errorf("headers %q and %q", first, second)
	}
}
