package authn

import (
	"net/http"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/jwt"
)

// ServeOpenID serves what verifies the tokens of service accounts elsewhere: who issues them, and the public key. It
// reports false for another path.
func (a *Authenticator) ServeOpenID(w http.ResponseWriter, r *http.Request) bool {
	const configuration, keys = "/.well-known/openid-configuration", "/openid/v1/jwks"
	if r.URL.Path != configuration && r.URL.Path != keys || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	var key map[string]any
	signer, err := a.Signer()
	if err == nil {
		key, err = jwt.Public(signer.Public())
	}
	if err != nil {
		answer.Error(w, err)
		return true
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	if r.URL.Path == keys {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		answer.JSON(w, http.StatusOK, map[string]any{"keys": []any{key}})
		return true
	}
	answer.JSON(w, http.StatusOK, map[string]any{"issuer": a.Audience(), "jwks_uri": "https://" + r.Host + keys,
		"response_types_supported": []any{"id_token"}, "subject_types_supported": []any{"public"},
		"id_token_signing_alg_values_supported": []any{key["alg"]}})
	return true
}
