package apiserver

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// authorizeRequest refuses what the user of a request, impersonated or not, may not do.
func (s *Server) authorizeRequest(r *request) error {
	if r.noUser != nil {
		return r.noUser
	}
	var err error
	if r.user, err = s.impersonate(r.user, r.Header); err != nil {
		return err
	}
	return s.authorize(rolesIn(s.store), r.user, r.wanted())
}

// impersonate returns the user that the headers name, if the one who asks may impersonate it, and else that one.
func (s *Server) impersonate(by kinds.User, h http.Header) (kinds.User, error) {
	name, groups := h.Get("Impersonate-User"), slices.Clone(h.Values("Impersonate-Group"))
	const extra = "Impersonate-Extra-"
	extras := slices.DeleteFunc(slices.Sorted(maps.Keys(h)),
		func(k string) bool { return !strings.HasPrefix(k, extra) })
	uid := h.Get("Impersonate-Uid")
	if name == "" {
		if len(groups)+len(extras) > 0 || uid != "" {
			return by, httpd.BadRequest("requested groups, a UID or extra fields without impersonating a user")
		}
		return by, nil
	}
	want := []auth.Action{{Resource: "users", Name: name}}
	ns, account, isAccount := strings.Cut(strings.TrimPrefix(name, auth.AccountPrefix), ":")
	if isAccount = isAccount && strings.HasPrefix(name, auth.AccountPrefix); isAccount {
		want[0] = auth.Action{Resource: "serviceaccounts", Namespace: ns, Name: account}
	}
	for _, g := range groups {
		want = append(want, auth.Action{Resource: "groups", Name: g})
	}
	for _, k := range extras {
		key, err := url.PathUnescape(strings.ToLower(strings.TrimPrefix(k, extra)))
		if err != nil {
			return by, httpd.BadRequest("the name of the header %q cannot be read", k)
		}
		for _, v := range h.Values(k) {
			want = append(want, auth.Action{Group: "authentication.k8s.io", Resource: "userextras", Subresource: key,
				Name: v})
		}
	}
	if uid != "" {
		want = append(want, auth.Action{Group: "authentication.k8s.io", Resource: "uids", Name: uid})
	}
	roles := rolesIn(s.store)
	for _, a := range want {
		a.Verb = "impersonate"
		if err := s.authorize(roles, by, a); err != nil {
			return by, err
		}
	}
	if isAccount && len(groups) == 0 {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + ns}
	} else if strings.HasPrefix(name, "system:node:") && len(groups) == 0 {
		groups = []string{"system:nodes"}
	}
	all := auth.Authenticated
	if name == auth.Anonymous {
		all = auth.Unauthenticated
	}
	if !slices.Contains(groups, all) && !slices.Contains(groups, auth.Unauthenticated) {
		groups = append(groups, all)
	}
	return kinds.User{Name: name, Groups: groups}, nil
}

// authorize returns the 403 for what a user may not do. Without RBAC that is only the anonymous user.
func (s *Server) authorize(roles auth.Objects, u kinds.User, a auth.Action) error {
	if !s.opts.RBAC && (u.Name != auth.Anonymous || auth.Public(a)) {
		return nil
	}
	ok, why := roles.Allowed(u, a)
	if ok {
		return nil
	}
	resource, where := a.Resource, "at the cluster scope"
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", u.Name, a.Verb, resource, a.Group, where)
	if a.Path != "" {
		text = fmt.Sprintf("User %q cannot %s path %q", u.Name, a.Verb, a.Path)
	}
	text = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;").Replace(text)
	if why != "" {
		text += ": " + why
	}
	return httpd.Forbidden(a.Group, a.Resource, a.Name, text)
}

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
			return httpd.Forbidden(certificates, r.kind.Plural, name,
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
		a := auth.Action{Verb: verb, Group: certificates, Resource: "signers", Name: of}
		if ok, _ := rolesIn(tx).Allowed(r.user, a); ok {
			return nil
		}
	}
	return httpd.Forbidden(certificates, r.kind.Plural, name,
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
	return err == nil && slices.Contains(parsed.Subject.Organization, auth.Masters)
}
