package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// JSON Web Tokens are signed with the two algorithms that kube-apiserver's service account tokens are signed with by
// usual keys: ES256 (ECDSA, P-256) and RS256 (RSA). What a token says is not the matter of this file.

// maxToken bounds a token; those of service accounts have about a thousand bytes.
const maxToken = 16 << 10

type header struct {
	Algorithm string `json:"alg"`
}

var (
	errForm      = errors.New("invalid bearer token")
	errSignature = errors.New("the signature of the token is not valid")
)

// algorithm returns the name of the algorithm of a public key.
func algorithm(public crypto.PublicKey) (string, error) {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return "ES256", nil
		}
	case *rsa.PublicKey:
		return "RS256", nil
	}
	return "", fmt.Errorf("a %T cannot sign tokens: use an RSA key, or an ECDSA key on P-256", public)
}

// publicKey returns a public key as a JSON Web Key. Its ID is a hash of it, as with kube-apiserver.
func publicKey(public crypto.PublicKey) (map[string]any, error) {
	alg, err := algorithm(public)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encode the public key: %w", err)
	}
	sum, text := sha256.Sum256(der), base64.RawURLEncoding.EncodeToString
	key := map[string]any{"use": "sig", "kid": text(sum[:]), "alg": alg}
	if p, ok := public.(*rsa.PublicKey); ok {
		key["kty"], key["n"], key["e"] = "RSA", text(p.N.Bytes()), text(big.NewInt(int64(p.E)).Bytes())
		return key, nil
	}
	point := der[len(der)-64:] // X and Y are the end of the encoding
	key["kty"], key["crv"], key["x"], key["y"] = "EC", "P-256", text(point[:32]), text(point[32:])
	return key, nil
}

// Sign returns a token with the claims, which are encoded as JSON.
func Sign(key crypto.Signer, claims any) (string, error) {
	public, err := publicKey(key.Public())
	if err != nil {
		return "", err
	}
	head, err := json.Marshal(map[string]any{"alg": public["alg"], "kid": public["kid"]})
	body, bodyErr := json.Marshal(claims)
	if err := errors.Join(err, bodyErr); err != nil {
		return "", fmt.Errorf("encode the token: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	if k, ok := key.(*ecdsa.PrivateKey); ok {
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			return "", fmt.Errorf("sign the token: %w", err)
		}
		signature = make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
	} else if signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return text + "." + encode(signature), nil
}

// Verify checks the signature of a token, which has to be by this key, and decodes the claims. It does not look at
// what they say.
func Verify(token string, key crypto.PublicKey, claims any) error {
	alg, err := algorithm(key)
	if err != nil {
		return err
	}
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return errForm
	}
	var decoded [3][]byte
	for i, p := range parts {
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(p); err != nil {
			return errForm
		}
	}
	var head header
	if err := json.Unmarshal(decoded[0], &head); err != nil {
		return errForm
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if head.Algorithm != alg || !signedBy(key, sum[:], decoded[2]) {
		return errSignature
	}
	if err := json.Unmarshal(decoded[1], claims); err != nil {
		return errForm
	}
	return nil
}

func signedBy(key crypto.PublicKey, sum, signature []byte) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return len(signature) == 64 && ecdsa.Verify(k, sum, new(big.Int).SetBytes(signature[:32]),
			new(big.Int).SetBytes(signature[32:]))
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum, signature) == nil
	}
	return false
}
