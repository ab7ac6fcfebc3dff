package apiserver

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/obj"
)

const (
	accounts    = "/api/v1/namespaces/default/serviceaccounts"
	tokenReview = "/apis/authentication.k8s.io/v1/tokenreviews"
)

// tokenOf asks for a token of the account default.
func (w *testServer) tokenOf(spec string) string {
	w.t.Helper()
	a := w.must(201, "POST", accounts+"/bot/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest",`+
		`"spec":{`+spec+`}}`, "Authorization", "Bearer admin")
	token, _ := a.at("status.token").(string)
	return token
}

func (w *testServer) whoIs(token string) string {
	w.t.Helper()
	a := w.do("POST", whoAmI, `{}`, "Authorization", "Bearer "+token)
	if a.code == 401 {
		return "401"
	}
	return fmt.Sprint(a.at("status.userInfo.username"), a.at("status.userInfo.groups"))
}

const bot = "system:serviceaccount:default:bot[system:serviceaccounts system:serviceaccounts:default " +
	"system:authenticated]"

// withBot runs a test with the service account bot.
func withBot(t *testing.T, test func(w *testServer)) {
	withServer(t, Options{Token: "admin"}, func(w *testServer) {
		w.must(201, "POST", accounts, `{"metadata":{"name":"bot"}}`, "Authorization", "Bearer admin")
		test(w)
	})
}

// Rules: FI-12, FS-42
func TestATokenOfAServiceAccountIsGoodUntilItExpires(t *testing.T) {
	withBot(t, func(w *testServer) {
		a := w.must(201, "POST", accounts+"/bot/token", `{}`, "Authorization", "Bearer admin")
		if got := fmt.Sprint(a.at("kind"), a.at("spec.expirationSeconds"), a.at("spec.audiences")); got !=
			"TokenRequest3600 ["+auth.DefaultIssuer+"]" {
			t.Errorf("%s: %s", got, a.raw)
		}
		if want := time.Now().Add(time.Hour).UTC().Format(time.RFC3339); a.at("status.expirationTimestamp") != want {
			t.Errorf("expires %v, want %s", a.at("status.expirationTimestamp"), want)
		}
		hour, short := a.at("status.token").(string), w.tokenOf(`"expirationSeconds":600`)
		if got := w.whoIs(hour); got != bot {
			t.Errorf("the token is of %s, want %s", got, bot)
		}
		time.Sleep(12 * time.Minute) // a minute is forgiven
		if got := w.whoIs(short); got != "401" {
			t.Errorf("the expired token is of %s", got)
		}
		if got := w.whoIs(hour); got != bot {
			t.Errorf("the other token is of %s, want %s", got, bot)
		}
		tampered := hour[:len(hour)-6] + "AAAAAA"
		if got := w.whoIs(tampered); got != "401" {
			t.Errorf("a token with another signature is of %s", got)
		}
	})
}

func TestATokenEndsWithWhatItIsBoundTo(t *testing.T) {
	withBot(t, func(w *testServer) {
		admin := []string{"Authorization", "Bearer admin"}
		w.must(201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"}}`, admin...)
		free := w.tokenOf("")
		bound := w.tokenOf(`"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"s"}`)
		if got := w.whoIs(bound); got != bot {
			t.Errorf("before: %s", got)
		}
		w.must(200, "DELETE", "/api/v1/namespaces/default/secrets/s", "", admin...)
		if got := w.whoIs(bound); got != "401" {
			t.Errorf("after the Secret: %s", got)
		}
		if got := w.whoIs(free); got != bot {
			t.Errorf("the other token: %s", got)
		}
		w.must(200, "DELETE", accounts+"/bot", "", admin...)
		w.must(201, "POST", accounts, `{"metadata":{"name":"bot"}}`, admin...)
		if got := w.whoIs(free); got != "401" {
			t.Errorf("with another account of the name: %s", got)
		}
	})
}

func TestATokenForOthersIsNotForTheServer(t *testing.T) {
	withBot(t, func(w *testServer) {
		token := w.tokenOf(`"audiences":["vault"]`)
		if got := w.whoIs(token); got != "401" {
			t.Errorf("a token for vault is of %s", got)
		}
		review := func(audiences string) string {
			a := w.must(201, "POST", tokenReview, fmt.Sprintf(`{"spec":{"token":%q,"audiences":[%s]}}`, token,
				audiences), "Authorization", "Bearer admin")
			return fmt.Sprint(a.at("status.authenticated"), a.at("status.user.username"), a.at("status.audiences"))
		}
		if got, want := review(`"vault"`), "truesystem:serviceaccount:default:bot[vault]"; got != want {
			t.Errorf("a review for vault says %s, want %s", got, want)
		}
		if got := review(""); !strings.HasPrefix(got, "<nil>") {
			t.Errorf("a review for the server says %s", got)
		}
	})
}

func TestTokensNeedNoOtherCredentials(t *testing.T) {
	withServer(t, Options{ClientCA: x509.NewCertPool()}, func(w *testServer) {
		w.must(403, "GET", configMaps, "")
	})
}

// Who verifies a token elsewhere finds its key by its ID.
func TestTheKeyOfTokensIsPublished(t *testing.T) {
	withBot(t, func(w *testServer) {
		as := []string{"Authorization", "Bearer admin"}
		c := w.must(200, "GET", "/.well-known/openid-configuration", "", as...)
		uri, _ := c.at("jwks_uri").(string)
		if c.at("issuer") != auth.DefaultIssuer || !strings.HasPrefix(uri, "https://") ||
			!strings.HasSuffix(uri, "/openid/v1/jwks") || c.header.Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("%s, %v", c.raw, c.header)
		}
		keys := w.must(200, "GET", "/openid/v1/jwks", "", as...)
		if got := keys.header.Get("Content-Type"); got != "application/jwk-set+json" {
			t.Error(got)
		}
		head, _, _ := strings.Cut(w.tokenOf(""), ".")
		text, err := base64.RawURLEncoding.DecodeString(head)
		id, _ := obj.Maps(keys.body, "keys")[0]["kid"].(string)
		if err != nil || id == "" || !strings.Contains(string(text), id) {
			t.Errorf("the token has %s, and the key %s (%v)", text, keys.raw, err)
		}
	})
}
