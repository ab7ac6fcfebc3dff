package auth

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

const (
	// DefaultIssuer is that of a usual cluster; it is also the audience of tokens for the API server.
	DefaultIssuer = "https://kubernetes.default.svc.cluster.local"
	// tokenLeeway is how far clocks may differ, and how long a token outlives its account, as on the real server.
	tokenLeeway = time.Minute

	minTokenSeconds, defaultTokenSeconds, maxTokenSeconds = 600, 3600, 1 << 32
)

// newTokenKey makes the key that signs tokens when the first one is asked for.
var newTokenKey = sync.OnceValues(func() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
})

// claims are what a token of a service account says.
type claims struct {
	Audiences  []string   `json:"aud"`
	Expires    int64      `json:"exp"`
	Issued     int64      `json:"iat"`
	Issuer     string     `json:"iss"`
	ID         string     `json:"jti"`
	Kubernetes accountRef `json:"kubernetes.io"`
	NotBefore  int64      `json:"nbf"`
	Subject    string     `json:"sub"`
}

type accountRef struct {
	Namespace string    `json:"namespace"`
	Node      *claimRef `json:"node,omitempty"`
	Pod       *claimRef `json:"pod,omitempty"`
	Secret    *claimRef `json:"secret,omitempty"`
	Account   claimRef  `json:"serviceaccount"`
}

// claimRef is an object that has to exist for the token to be good.
type claimRef struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Issue makes the token that a TokenRequest about a service account with this UID asks for, and puts it into the
// request's status. at is the time of the issue.
func (a *Authenticator) Issue(o map[string]any, account kube.Key, uid string, at time.Time) error {
	obj.Default(o, []any{a.Audience()}, "spec", "audiences")
	obj.Default(o, int64(defaultTokenSeconds), "spec", "expirationSeconds")
	obj.Default(o, nil, "spec", "boundObjectRef")
	seconds, _ := obj.Int(o, "spec", "expirationSeconds")
	if why := map[bool]string{seconds < minTokenSeconds: "less than 10 minutes",
		seconds > maxTokenSeconds: "larger than 2^32 seconds"}[true]; why != "" {
		return httpd.Invalid(httpd.AboutKind(kinds.TokenRequest, ""),
			obj.Invalid("spec.expirationSeconds", seconds, "may not specify a duration "+why))
	}
	c := claims{Audiences: obj.Texts(o, "spec", "audiences"), Expires: at.Unix() + seconds, Issued: at.Unix(),
		Issuer: a.Audience(), ID: obj.NewUID(), NotBefore: at.Unix(),
		Subject:    AccountPrefix + account.Namespace + ":" + account.Name,
		Kubernetes: accountRef{Namespace: account.Namespace, Account: claimRef{account.Name, uid}}}
	if err := a.bindToken(&c.Kubernetes, obj.Map(o, "spec", "boundObjectRef")); err != nil {
		return err
	}
	key, err := a.Signer()
	if err != nil {
		return err
	}
	token, err := Sign(key, c)
	if err != nil {
		return httpd.InternalError("failed to generate token: %v", err)
	}
	o["metadata"] = map[string]any{"name": account.Name, "namespace": account.Namespace, "uid": uid,
		"creationTimestamp": at.UTC().Format(time.RFC3339)}
	o["status"] = map[string]any{"token": token,
		"expirationTimestamp": at.Add(time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)}
	return nil
}

// bindToken adds the object of boundObjectRef, whose end is also that of the token.
func (a *Authenticator) bindToken(k *accountRef, ref map[string]any) error {
	if ref == nil {
		return nil
	}
	kind, name := obj.String(ref, "kind"), obj.String(ref, "name")
	at := map[string]struct {
		plural, namespace string
		claim             **claimRef
	}{"Pod": {"pods", k.Namespace, &k.Pod}, "Secret": {"secrets", k.Namespace, &k.Secret},
		"Node": {"nodes", "", &k.Node}}
	to, known := at[kind]
	if v := obj.String(ref, "apiVersion"); !known || v != "v1" {
		if !strings.Contains(v, "/") {
			v = "/" + v // the core group has no name
		}
		return httpd.BadRequest("cannot bind token to object of type %s, Kind=%s", v, kind)
	}
	o := a.Store.Get(to.plural, store.Key{Namespace: to.namespace, Name: name})
	if o == nil {
		return httpd.NotFound(kube.Resource{Plural: to.plural}, name)
	}
	*to.claim = &claimRef{name, obj.String(o.Value(), "metadata", "uid")}
	if uid := obj.String(ref, "uid"); uid != "" && uid != (*to.claim).UID {
		return httpd.Conflict(kube.StatusDetails{Kind: kind, Name: name},
			"the UID in the bound object reference ("+uid+
				") does not match the UID in record. The object might have been deleted and then recreated")
	}
	if account := k.Account.Name; kind == "Pod" && obj.String(o.Value(), "spec", "serviceAccountName") != account {
		return httpd.BadRequest("cannot bind token for serviceaccount %q to pod running with different "+
			"serviceaccount name.", account)
	}
	return nil
}

// accountOf returns the service account that a token is of at a time. The audience of the token has to be one of those
// given.
func (a *Authenticator) accountOf(token string, audiences []string, at time.Time) (kinds.User, error) {
	key, err := a.Signer()
	if err != nil {
		return kinds.User{}, err
	}
	var c claims
	if err := Verify(token, key.Public(), &c); err != nil {
		return kinds.User{}, err
	}
	k := c.Kubernetes
	user := k.Namespace + ":" + k.Account.Name
	switch {
	case c.Issuer != a.Audience() || c.Subject != AccountPrefix+user:
		return kinds.User{}, errors.New("the token is of another issuer")
	case at.After(time.Unix(c.Expires, 0).Add(tokenLeeway)):
		return kinds.User{}, errors.New("service account token has expired")
	case at.Add(tokenLeeway).Before(time.Unix(c.NotBefore, 0)):
		return kinds.User{}, errors.New("service account token is not valid yet")
	case !slices.ContainsFunc(c.Audiences, func(s string) bool { return slices.Contains(audiences, s) }):
		return kinds.User{}, errors.New("token audiences do not include the server's")
	case !a.exists("serviceaccounts", k.Namespace, &k.Account, at) || !a.exists("pods", k.Namespace, k.Pod, at) ||
		!a.exists("secrets", k.Namespace, k.Secret, at) || !a.exists("nodes", "", k.Node, at):
		return kinds.User{}, errors.New("service account token has been invalidated")
	}
	u := kinds.User{Name: AccountPrefix + user, UID: k.Account.UID,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + k.Namespace, Authenticated},
		Extra:  map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + c.ID}}}
	for name, ref := range map[string]*claimRef{"pod": k.Pod, "node": k.Node} {
		if ref != nil {
			u.Extra["authentication.kubernetes.io/"+name+"-name"] = []string{ref.Name}
			u.Extra["authentication.kubernetes.io/"+name+"-uid"] = []string{ref.UID}
		}
	}
	return u, nil
}

// exists reports whether the object of a claim is the stored one; a claim that is not made is good.
func (a *Authenticator) exists(plural, namespace string, ref *claimRef, at time.Time) bool {
	if ref == nil {
		return true
	}
	o := a.Store.Get(plural, store.Key{Namespace: namespace, Name: ref.Name})
	if o == nil || obj.String(o.Value(), "metadata", "uid") != ref.UID {
		return false
	}
	gone, err := time.Parse(time.RFC3339, obj.String(o.Value(), "metadata", "deletionTimestamp"))
	return err != nil || at.Sub(gone) < tokenLeeway
}

// Signer returns the key that signs tokens.
func (a *Authenticator) Signer() (crypto.Signer, error) {
	if a.Key != nil {
		return a.Key, nil
	}
	return newTokenKey()
}

// Audience is the issuer of tokens, and the audience that the API server itself has.
func (a *Authenticator) Audience() string { return cmp.Or(a.Issuer, DefaultIssuer) }

// Review answers a TokenReview.
func (a *Authenticator) Review(o map[string]any, at time.Time) (map[string]any, error) {
	token, audiences := obj.String(o, "spec", "token"), obj.Texts(o, "spec", "audiences")
	if token == "" {
		return nil, httpd.BadRequest("token is required for TokenReview in authentication")
	}
	if len(audiences) == 0 {
		audiences = []string{a.Audience()}
	}
	user, err := a.Bearer(token, audiences, at)
	if err != nil {
		return map[string]any{"user": map[string]any{}, "error": err.Error()}, nil
	}
	return map[string]any{"authenticated": true, "user": kinds.UserInfo(user), "audiences": obj.Anys(audiences)}, nil
}

// ServeOpenID serves what verifies the tokens of service accounts elsewhere: who issues them, and the public key. The
// error is NoSuchPath for another path.
func (a *Authenticator) ServeOpenID(w http.ResponseWriter, r *http.Request) error {
	const configuration, keys = "/.well-known/openid-configuration", "/openid/v1/jwks"
	path := strings.TrimSuffix(r.URL.Path, "/")
	if path != configuration && path != keys {
		return httpd.NoSuchPath
	}
	if r.Method != http.MethodGet {
		return httpd.MethodNotAllowed()
	}
	signer, err := a.Signer()
	if err != nil {
		return err
	}
	key, err := publicKey(signer.Public())
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	if path == keys {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		httpd.JSON(w, http.StatusOK, map[string]any{"keys": []any{key}})
		return nil
	}
	httpd.JSON(w, http.StatusOK, map[string]any{"issuer": a.Audience(), "jwks_uri": "https://" + r.Host + keys,
		"response_types_supported": []any{"id_token"}, "subject_types_supported": []any{"public"},
		"id_token_signing_alg_values_supported": []any{key["alg"]}})
	return nil
}
