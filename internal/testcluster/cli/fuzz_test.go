package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// Each flag has the values that it was given, and no other has any.
func FuzzProgramFlags(f *testing.F) {
	for _, args := range []string{"--cert-dir=/tmp\n--secure-port\n0", "-v\n--a=b=c\n--a", "x", "-", "--=",
		"--a\n\n-1"} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		flags, err := parseProgramFlags(args)
		if err != nil {
			return
		}
		for name, values := range flags {
			if len(values) > len(args) || !strings.Contains(text, name) {
				t.Errorf("%q has the flag %q with %q", text, name, values)
			}
		}
		_, err = apiServerOptions(programFlags{"simulate": flags["simulate"], "bind-address": flags["bind-address"],
			"authorization-mode": flags["authorization-mode"]}, "dir")
		if err != nil && flags["simulate"] == nil {
			t.Error(err)
		}
	})
}

// A file with a private key is read, or refused with its name; what is read can sign.
func FuzzPrivateKey(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if der, err = x509.MarshalECPrivateKey(key); err != nil {
		f.Fatal(err)
	}
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\n-----END RSA PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		signer, err := parseKey("the-file", text)
		switch {
		case err != nil && (signer != nil || !strings.Contains(err.Error(), "the-file")):
			t.Errorf("%v, %v", signer, err)
		case err == nil && signer.Public() == nil:
			t.Error("a key without a public one")
		}
	})
}

// A file of tokens has users with names, or is refused with its name.
func FuzzUsers(f *testing.F) {
	for _, text := range []string{"t,u,1,\"a,b\"", "t,u", "\"", "a,b,c\n,,,\n", "t,u,1,,,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		users, err := parseUsers("the-file", []byte(text))
		if err != nil && !strings.Contains(err.Error(), "the-file") {
			t.Error(err)
		}
		for token, user := range users {
			if token == "" || user.Name == "" {
				t.Errorf("%q is %q", token, user.Name)
			}
		}
	})
}

// What is loaded can be sent as JSON, and has a kind.
func FuzzManifests(f *testing.F) {
	for _, text := range []string{"apiVersion: v1\nkind: Pod\n---\n{}", `{"kind":"List","apiVersion":"v1","items":[{}]}`,
		"a: &x [*x]", "? [a]: b", "kind: A\napiVersion: 2001-01-01\nd: 2001-01-01", "a: !!binary x", "a: .inf"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseManifests("the-file", []byte(text))
		if err != nil && !strings.Contains(err.Error(), "the-file") {
			t.Error(err)
		}
		for _, m := range list {
			if m.object["kind"] == "" || m.object["apiVersion"] == "" {
				t.Errorf("%q has %v", text, m.object)
			}
		}
	})
}

// A kubeconfig that is written is read as what was meant.
func FuzzKubeconfig(f *testing.F) {
	f.Add("https://127.0.0.1:1", []byte("ca"), "token")
	f.Add("a: b\n- c", []byte{0}, "\"'\t#: \x7f")
	f.Fuzz(func(t *testing.T, url string, ca []byte, token string) {
		// Neither a URL nor a token has a line break: it could not be sent.
		if bad := func(s string) bool {
			return strings.ToValidUTF8(s, "") != s || strings.ContainsAny(s, "\n\r\u0085\u2028\u2029")
		}; bad(url) || bad(token) {
			return
		}
		text, err := kubeconfigOf(url, ca, token)
		if err != nil {
			t.Fatal(err)
		}
		var read struct {
			Clusters []struct {
				Cluster struct {
					Server string
					CA     []byte `json:"certificate-authority-data"`
				}
			}
			Users []struct{ User struct{ Token string } }
		}
		var value any
		if err := yaml.Unmarshal(text, &value); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		again, err := json.Marshal(value)
		if err != nil || json.Unmarshal(again, &read) != nil {
			t.Fatalf("%v: %s", err, text)
		}
		cluster := read.Clusters[0].Cluster
		if cluster.Server != url || !bytes.Equal(cluster.CA, ca) || read.Users[0].User.Token != token {
			t.Errorf("%+v is read of %s", read, text)
		}
	})
}
