package fakeapi

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/authn"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/rbac"
	"skiff/internal/fakeapi/store"
	"skiff/internal/patch"
)

const (
	certificates = "certificates.k8s.io"
	clientSigner = "kubernetes.io/kube-apiserver-client"
)

// checkSigner refuses what a user may not do with a certificate signing request: approve it, or sign it. cur is nil
// for a new one; a client certificate cannot be asked for in the group of those who may do everything.
func (s *Server) checkSigner(tx *store.Tx, r *request, next, cur map[string]any) error {
	if r.kind.TableName() != "certificatesigningrequests."+certificates {
		return nil
	}
	name := obj.String(next, "metadata", "name")
	if cur == nil {
		if obj.String(next, "spec", "signerName") == clientSigner &&
			asksForMasters(obj.String(next, "spec", "request")) {
			return answer.Forbidden(certificates, r.kind.Plural, name,
				"use of "+clientSigner+" signer with system:masters group is not allowed")
		}
		return nil
	}
	verb := map[string]string{"approval": "approve", "status": "sign"}[r.sub]
	if !s.opts.RBAC || verb == "" || verb == "sign" && patch.Equal(next["status"], cur["status"]) {
		return nil
	}
	signer := obj.String(cur, "spec", "signerName")
	domain, _, _ := strings.Cut(signer, "/")
	for _, of := range []string{signer, domain + "/*"} {
		a := rbac.Action{Verb: verb, Group: certificates, Resource: "signers", Name: of}
		if ok, _ := rolesIn(tx).Allowed(r.user, a); ok {
			return nil
		}
	}
	return answer.Forbidden(certificates, r.kind.Plural, name,
		fmt.Sprintf("user not permitted to %s requests with signerName %q", verb, signer))
}

// asksForMasters reports whether a certificate request, which was found valid, is for a member of system:masters.
func asksForMasters(request string) bool {
	text, err := base64.StdEncoding.DecodeString(request)
	block, _ := pem.Decode(text)
	if err != nil || block == nil {
		return false
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && slices.Contains(parsed.Subject.Organization, authn.Masters)
}
