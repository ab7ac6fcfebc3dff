package kubeconfig

import (
	"fmt"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
)

// Rules: AUTH-26
func TestNothingThatIsPrintedShowsASecret(t *testing.T) {
	const canary = "canary-Zq7"
	id := newCA(t, "ca").issue("someone")
	keyText := b64(id.key)[40:80]
	keyBytes := strings.Trim(fmt.Sprint(id.key[40:60]), "[]")
	b := newBox(t)
	b.write("tok", canary)
	path := b.write("config", config("c", "https://h", "token: "+canary+", tokenFile: tok, client-certificate-data: "+
		b64(id.cert)+", client-key-data: "+b64(id.key)))
	b.write("config", strings.Replace(config("c", "https://h", "token: "+canary+", client-certificate-data: "+
		""+b64(id.cert)+
		", client-key-data: "+b64(id.key)), "server: https://h", "server: https://h\n    proxy-url: "+
		"http://u:"+canary+"@proxy", 1))
	m, err := loadFiles(Flags{Kubeconfig: path}, b.env())
	if err != nil {
		t.Fatal(err)
	}
	target, err := m.target("c")
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := b.load(Flags{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	fileCfg, _, err := b.load(Flags{Server: "https://h", TokenFile: b.path("tok")})
	if err != nil {
		t.Fatal(err)
	}
	b.write("cert", string(id.cert))
	pairPath := b.write("pair", config("c", "https://h", "token: "+canary+", client-certificate: cert, "+
		"client-key-data: "+b64(id.key)))
	pairCfg, _, err := b.load(Flags{Kubeconfig: pairPath})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.New(pairCfg)
	if err != nil {
		t.Fatal(err)
	}
	basicCfg, err := b.loadUser("username: " + canary + ", password: " + canary)
	if err != nil {
		t.Fatal(err)
	}
	pem := func(data []byte) string { return strings.ReplaceAll(string(data), "\n", `\n`) }
	p := b.plugin(says(`"token":"`+canary+`","clientCertificateData":"`+pem(id.cert)+`","clientKeyData":"`+pem(id.key)+`"`),
		", env: [{name: A, value: "+canary+"}]")
	p.config.Args = append(p.config.Args, NewSecret(canary))
	if got, err := p.Authorization(t.Context()); err != nil || got != "Bearer "+canary {
		t.Fatalf("header %q, error %v", got, err)
	}
	for _, v := range []any{basicCfg, basicCfg.Credentials, p, p.config, &p.config, p.cred, *p.cred, cfg, &cfg,
		fileCfg, cfg.Credentials, fileCfg.Credentials, &pairCfg, pairCfg.Credentials, target, *target, target.user,
		target.cluster,
		Flags{Token: NewSecret(canary)}, &Flags{Token: NewSecret(canary)}, client, *m} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			text := fmt.Sprintf(verb, v)
			for _, secret := range []string{canary, fmt.Sprintf("%x", canary), keyText, string(id.key[40:60]),
				keyBytes} {
				if strings.Contains(text, secret) {
					t.Errorf("%s of %T shows a secret: %.300s", verb, v, text)
				}
			}
		}
	}
}

func TestErrorsNameTheFieldAndNeverItsContent(t *testing.T) {
	const canary = "canary-Zq7"
	id, other := newCA(t, "ca").issue("a"), newCA(t, "ca").issue("b")
	for _, tt := range []struct{ user, server, where, say string }{
		{user: "client-key-data: " + canary + "!", where: "client-key-data", say: "illegal base64"},
		{user: "client-certificate-data: " + b64(id.cert), where: "client-certificate-data", say: "no client-key"},
		{user: "client-key-data: " + b64(id.key), where: "client-key-data", say: "no client-certificate"},
		{user: "client-certificate-data: " + b64(id.cert) + ", client-key-data: " + b64(other.key),
			where: "client-key-data", say: "does not match"},
		{user: "client-certificate: nope.crt, client-key: nope.key", where: "client-certificate", say: "no such file"},
		{user: "tokenFile: nope", where: "tokenFile", say: "no such file"},
		{user: "tokenFile: empty", where: "tokenFile", say: "is empty"},
		{user: "tokenFile: two", where: "tokenFile", say: "is not a token"},
		{user: "token: \"" + canary + "\\n" + canary + "\"", where: "token", say: "is not a token"},
		{user: "token: [" + canary + "]", say: "line 13: cannot unmarshal"},
		{user: "token: t, token: \"" + canary + "\\n\"", where: "token", say: "is not a token"},
		{server: "https://h, proxy-url: 'http://u:" + canary + "@p:x'", where: "proxy-url", say: "not a URL"},
		{server: "https://h, proxy-url: 'ftp://u:" + canary + "@p'", where: "proxy-url",
			say: "want http, https or socks5"},
		{server: "https://h, certificate-authority-data: " + canary + "!", where: "certificate-authority-data",
			say: "illegal base64"},
		{server: "https://h, certificate-authority-data: " + b64([]byte(canary)), where: "certificate-authority-data",
			say: "no PEM certificate"},
		{server: "https://h, insecure-skip-tls-verify: true, certificate-authority: ca.crt",
			where: "insecure-skip-tls-verify", say: "contradicts"},
		{server: "https://h, insecure-skip-tls-verify: " + canary, say: "cannot unmarshal !!str value into bool"},
	} {
		b := newBox(t)
		b.write("empty", " \n")
		b.write("two", canary+" "+canary)
		server := tt.server
		if server == "" {
			server = "https://h"
		}
		text := config("c", "SERVER", tt.user)
		text = strings.Replace(text, "\n    server: SERVER", " {server: "+server+"}\n", 1)
		path := b.write("config", text)
		_, _, err := b.load(Flags{Kubeconfig: path})
		wantError(t, err, path, `"c"`, tt.where, tt.say)
		if err != nil && strings.Contains(err.Error(), canary[:6]) {
			t.Errorf("error shows the content: %v", err)
		}
	}
}
