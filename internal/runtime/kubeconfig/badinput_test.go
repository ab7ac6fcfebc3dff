package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEachBadFlagIsNamedWithWhatIsWrong has the whole message of each; DIR stands for the directory of the test.
//
// Rules: AUTH-08, AUTH-21, AUTH-22, AUTH-25
func TestEachBadFlagIsNamedWithWhatIsWrong(t *testing.T) {
	b := newBox(t)
	ca := b.write("ca.crt", string(newCA(t, "ca").pem))
	good := b.write("good", config("c", "https://h", "token: t"))
	empty, text, directory, missing := b.write("empty", ""), b.write("text",
		"hush hush"), b.path("dir"), b.path("missing")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	loop := b.path("loop") // cannot be read, not even by root
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flags Flags
		say   string
	}{
		{Flags{Kubeconfig: missing}, "read kubeconfig: open DIR/missing: no such file or directory"},
		{Flags{Kubeconfig: directory}, "read kubeconfig: read DIR/dir: is a directory"},
		{Flags{Kubeconfig: loop}, "read kubeconfig: open DIR/loop: too many levels of symbolic links"},
		{Flags{Kubeconfig: empty}, "DIR/empty: no cluster configured: the file has no contexts"},
		{Flags{Kubeconfig: text}, "read kubeconfig DIR/text: line 1: cannot unmarshal !!str value into document"},
		{Flags{Kubeconfig: good, Context: "x"}, `context "x": no such context in DIR/good: there are [c]`},
		{Flags{Context: "x"}, `context "x": no such context: no kubeconfig was found`},
		{Flags{Server: "ftp://h"}, `--server: scheme "ftp": want https or http`},
		{Flags{Server: "https://"}, "--server: has no host"},
		{Flags{Server: "https://h h"}, "--server: not a URL: invalid character"},
		{Flags{Server: "https://h:port"}, "--server: not a URL: invalid port"},
		{Flags{Server: "h", Token: NewSecret("hush hush")},
			"--token: is not a token: it holds white space or characters that a header cannot carry"},
		{Flags{Server: "h", TokenFile: missing}, "--token-file: open DIR/missing: no such file or directory"},
		{Flags{Server: "h", TokenFile: directory}, "--token-file: read DIR/dir: is a directory"},
		{Flags{Server: "h", TokenFile: loop}, "--token-file: open DIR/loop: too many levels of symbolic links"},
		{Flags{Server: "h", TokenFile: empty}, "--token-file: DIR/empty is empty"},
		{Flags{Server: "h", TokenFile: text},
			"--token-file: DIR/text is not a token: it holds white space or characters that a header cannot carry"},
		{Flags{Server: "h", Token: NewSecret("t"), TokenFile: text}, "--token and --token-file: give one of them"},
		{Flags{Server: "h", CertificateAuthority: missing},
			"--certificate-authority: open DIR/missing: no such file or directory"},
		{Flags{Server: "h", CertificateAuthority: directory}, "--certificate-authority: read DIR/dir: is a directory"},
		{Flags{Server: "h", CertificateAuthority: empty},
			"--certificate-authority: DIR/empty holds no PEM certificate"},
		{Flags{Server: "h", CertificateAuthority: text}, "--certificate-authority: DIR/text holds no PEM certificate"},
		{Flags{Server: "h", CertificateAuthority: ca, InsecureSkipTLSVerify: true},
			"--insecure-skip-tls-verify: contradicts the certificate authority that is set too: remove one of them"},
		{Flags{Server: "h", TLSServerName: "two words"}, `--tls-server-name: "two words" is not a host name or address`},
		{Flags{Server: "h", TLSServerName: "h:443"}, `--tls-server-name: "h:443" is not a host name or address`},
		{Flags{Server: "h", As: "a\nb"}, `--as: "a\nb" holds characters that a header cannot carry`},
		{Flags{Server: "h", As: "a", AsGroups: []string{"g\x00"}},
			`--as-group: "g\x00" holds characters that a header cannot carry`},
		{Flags{Server: "h", As: "a", AsGroups: []string{""}}, `--as-group: is empty`},
		{Flags{Server: "h", AsGroups: []string{"g"}}, "--as-group: needs the user to impersonate (as, or --as)"},
		{Flags{Server: "http://127.0.0.1", Token: NewSecret("t")},
			"--token: credentials are not sent over plain http to 127.0.0.1: use https, or a user without " +
				"credentials"},
		{Flags{Server: "http://h", Token: NewSecret("t"), InsecureLoopbackHTTP: true},
			"--token: credentials are not sent over plain http to h: use https, or a user without credentials"},
	} {
		_, _, err := b.load(tt.flags)
		wantMessage(t, err, strings.ReplaceAll(tt.say, "DIR", b.dir))
	}
	b.vars["KUBECONFIG"] = missing + string(filepath.ListSeparator) + loop
	_, _, err := b.load(Flags{})
	wantMessage(t, err, "read kubeconfig: open "+loop+": too many levels of symbolic links")
}

// Rules: AUTH-02, AUTH-05, AUTH-06
func TestFilesThatBreakLaterKeepTheLastGoodContentAndSaySo(t *testing.T) {
	b := newBox(t)
	ca := newCA(t, "ca")
	id, other := ca.issue("one"), ca.issue("two")
	synctest.Test(t, func(t *testing.T) {
		files := map[string]string{"ca.crt": string(ca.pem), "tls.crt": string(id.cert), "tls.key": string(id.key),
			"tok": "t"}
		for name, content := range files {
			b.write(name, content)
		}
		text := strings.Replace(
			config("c", "https://h", "client-certificate: tls.crt, client-key: tls.key, tokenFile: tok"),
			"server:", "certificate-authority: ca.crt\n    server:", 1)
		cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
		if err != nil {
			t.Fatal(err)
		}
		where := b.path("config") + `:14: user "c": `
		pair := where + "client-certificate with " + where + "client-key: "
		for _, tt := range []struct{ file, content, say string }{
			{"tok", "", where + "tokenFile: " + b.path("tok") + " is empty; the last good token is used"},
			{"tok", "-", where + "tokenFile: open " + b.path("tok") +
				": no such file or directory; the last good token is used"},
			{"tok", "a b", where + "tokenFile: " + b.path("tok") + " is not a token: it holds white space or " +
				"characters that a header cannot carry; the last good token is used"},
			{"tls.crt", "", pair + "tls: failed to find any PEM data in certificate input; the certificate read " +
				"before is used"},
			{"tls.crt", "-", where + "client-certificate: open " + b.path("tls.crt") +
				": no such file or directory; the certificate read before is used"},
			{"tls.key", string(other.key), pair +
				"tls: private key does not match public key; the certificate read before is used"},
		} {
			if b.write(tt.file, tt.content); tt.content == "-" {
				os.Remove(b.path(tt.file))
			}
			b.warnings = nil
			time.Sleep(recheckEvery)
			if got := header(t, cfg); got != "Bearer t" {
				t.Errorf("%s with %q: header %q", tt.file, tt.content, got)
			}
			if len(b.warnings) != 1 || b.warnings[0] != tt.say {
				t.Errorf("warnings %q\nwant     %q", b.warnings, tt.say)
			}
			b.write(tt.file, files[tt.file])
		}
	})
}
