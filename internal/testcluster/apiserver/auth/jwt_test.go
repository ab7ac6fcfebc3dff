package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
)

type testClaims struct {
	Name string `json:"name"`
}

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestATokenIsGoodForTheKeyThatSignedItOnly(t *testing.T) {
	ec, other := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P256())
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"ES256": ec, "RS256": rs} {
		token, err := Sign(key, testClaims{"a"})
		if err != nil {
			t.Fatal(err)
		}
		var got testClaims
		if err := Verify(token, key.Public(), &got); err != nil || got.Name != "a" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		for what, bad := range map[string]string{
			"another body":     strings.Replace(token, ".", ".e30", 1),
			"no signature":     token[:strings.LastIndexByte(token, '.')+1],
			"two parts":        token[:strings.LastIndexByte(token, '.')],
			"no base64":        token + "!",
			"a header of none": "eyJhbGciOiJub25lIn0" + token[strings.IndexByte(token, '.'):],
			"too long":         token + strings.Repeat("A", maxToken),
		} {
			if Verify(bad, key.Public(), &got) == nil {
				t.Errorf("%s: %s is accepted", name, what)
			}
		}
		if Verify(token, other.Public(), &got) == nil || Verify(token, nil, &got) == nil {
			t.Errorf("%s: a token of an unknown key is accepted", name)
		}
	}
}

func TestKeysOfOtherKindsCannotSign(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{ed, ecKey(t, elliptic.P384())} {
		if _, err := Sign(key, testClaims{}); err == nil || !strings.Contains(err.Error(), "cannot sign tokens") {
			t.Errorf("%T: %v", key, err)
		}
	}
}

// Any text is refused without a panic: a signature cannot be guessed.
func FuzzVerify(f *testing.F) {
	key := ecKey(f, elliptic.P256())
	token, err := Sign(key, testClaims{"a"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a.b.c")
	f.Add(token[:len(token)-4] + "AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		var got testClaims
		if Verify(text, key.Public(), &got) == nil {
			t.Errorf("%q is accepted", text)
		}
	})
}
