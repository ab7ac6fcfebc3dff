package fakeapi

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/fields"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/jwt"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

const (
	// defaultIssuer is that of a usual cluster; it is also the audience of tokens for the API server.
	defaultIssuer = "https://kubernetes.default.svc.cluster.local"
	// tokenLeeway is how far clocks may differ, and how long a token outlives its account, as on the real server.
	tokenLeeway = time.Minute

	minTokenSeconds, defaultTokenSeconds, maxTokenSeconds = 600, 3600, 1 << 32
)

var tokenRequests = kube.Resource{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}

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

// createToken answers POST serviceaccounts/NAME/token.
func (s *Server) createToken(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return answer.MethodNotAllowed()
	}
	question, form := *r, fields.For(tokenRequests.APIVersion(), tokenRequests.Kind)
	question.kind = &kinds.Kind{Resource: tokenRequests, Type: form, Unknown: form.Prune}
	o, err := s.readObject(w, &question)
	if err != nil {
		return err
	}
	details := kube.StatusDetails{Group: tokenRequests.Group, Kind: tokenRequests.Kind, Name: r.name}
	for field, want := range map[string]string{"name": r.name, "namespace": r.namespace} {
		if have := obj.String(o, "metadata", field); have != "" && have != want {
			return answer.Invalid(details, []kinds.Cause{kinds.Invalid("metadata."+field, have,
				"must match the service account "+field+" if specified")})
		}
	}
	account, _ := s.store.Get("serviceaccounts", store.Key(r.key()))
	if account == nil {
		return answer.NotFound(r.kind.Resource, r.name)
	}
	if o, err = s.admitPosted(r, o); err != nil {
		return err
	}
	obj.Default(o, []any{s.audience()}, "spec", "audiences")
	obj.Default(o, int64(defaultTokenSeconds), "spec", "expirationSeconds")
	obj.Default(o, nil, "spec", "boundObjectRef")
	seconds, _ := obj.Int(o, "spec", "expirationSeconds")
	if why := map[bool]string{seconds < minTokenSeconds: "less than 10 minutes",
		seconds > maxTokenSeconds: "larger than 2^32 seconds"}[true]; why != "" {
		details.Name = ""
		return answer.Invalid(details, []kinds.Cause{kinds.Invalid("spec.expirationSeconds", seconds,
			"may not specify a duration "+why)})
	}
	at := time.Now()
	c := claims{Audiences: obj.Texts(o, "spec", "audiences"), Expires: at.Unix() + seconds, Issued: at.Unix(),
		Issuer: s.audience(), ID: newUID(), NotBefore: at.Unix(),
		Subject: accountPrefix + r.namespace + ":" + r.name, Kubernetes: accountRef{Namespace: r.namespace,
			Account: claimRef{r.name, obj.String(account.Value(), "metadata", "uid")}}}
	if err := s.bindToken(&c.Kubernetes, obj.Map(o, "spec", "boundObjectRef")); err != nil {
		return err
	}
	key, err := s.signer()
	if err != nil {
		return err
	}
	token, err := jwt.Sign(key, c)
	if err != nil {
		return answer.InternalError("failed to generate token: %v", err)
	}
	o["metadata"] = map[string]any{"name": r.name, "namespace": r.namespace, "uid": c.Kubernetes.Account.UID,
		"creationTimestamp": at.UTC().Format(time.RFC3339)}
	o["status"] = map[string]any{"token": token,
		"expirationTimestamp": at.Add(time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)}
	answer.Bytes(w, http.StatusCreated, forms.WithType(question.kind, answer.Encode(o)))
	return nil
}

// bindToken adds the object of boundObjectRef, whose end is also that of the token.
func (s *Server) bindToken(k *accountRef, ref map[string]any) error {
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
		return answer.BadRequest("cannot bind token to object of type %s, Kind=%s", v, kind)
	}
	o, _ := s.store.Get(to.plural, store.Key{Namespace: to.namespace, Name: name})
	if o == nil {
		return answer.NotFound(kube.Resource{Plural: to.plural}, name)
	}
	*to.claim = &claimRef{name, obj.String(o.Value(), "metadata", "uid")}
	if uid := obj.String(ref, "uid"); uid != "" && uid != (*to.claim).UID {
		return answer.Conflict(kube.StatusDetails{Kind: kind, Name: name},
			"the UID in the bound object reference ("+uid+
				") does not match the UID in record. The object might have been deleted and then recreated")
	}
	if account := k.Account.Name; kind == "Pod" && obj.String(o.Value(), "spec", "serviceAccountName") != account {
		return answer.BadRequest("cannot bind token for serviceaccount %q to pod running with different "+
			"serviceaccount name.",
			account)
	}
	return nil
}

// accountOf returns the service account that a token is of. The audience of the token has to be one of those given.
func (s *Server) accountOf(token string, audiences []string) (User, error) {
	key, err := s.signer()
	if err != nil {
		return User{}, err
	}
	var c claims
	if err := jwt.Verify(token, []crypto.PublicKey{key.Public()}, &c); err != nil {
		return User{}, err
	}
	k, at := c.Kubernetes, time.Now()
	user := k.Namespace + ":" + k.Account.Name
	switch {
	case c.Issuer != s.audience() || c.Subject != accountPrefix+user:
		return User{}, errors.New("the token is of another issuer")
	case at.After(time.Unix(c.Expires, 0).Add(tokenLeeway)):
		return User{}, errors.New("service account token has expired")
	case at.Add(tokenLeeway).Before(time.Unix(c.NotBefore, 0)):
		return User{}, errors.New("service account token is not valid yet")
	case !slices.ContainsFunc(c.Audiences, func(a string) bool { return slices.Contains(audiences, a) }):
		return User{}, errors.New("token audiences do not include the server's")
	case !s.lives("serviceaccounts", k.Namespace, &k.Account) || !s.lives("pods", k.Namespace, k.Pod) ||
		!s.lives("secrets", k.Namespace, k.Secret) || !s.lives("nodes", "", k.Node):
		return User{}, errors.New("service account token has been invalidated")
	}
	u := User{Name: accountPrefix + user, UID: k.Account.UID,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + k.Namespace, authenticated},
		Extra:  map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + c.ID}}}
	for name, ref := range map[string]*claimRef{"pod": k.Pod, "node": k.Node} {
		if ref != nil {
			u.Extra["authentication.kubernetes.io/"+name+"-name"] = []string{ref.Name}
			u.Extra["authentication.kubernetes.io/"+name+"-uid"] = []string{ref.UID}
		}
	}
	return u, nil
}

// lives reports whether the object of a claim is the stored one; a claim that is not made is good.
func (s *Server) lives(plural, namespace string, ref *claimRef) bool {
	if ref == nil {
		return true
	}
	o, _ := s.store.Get(plural, store.Key{Namespace: namespace, Name: ref.Name})
	if o == nil || obj.String(o.Value(), "metadata", "uid") != ref.UID {
		return false
	}
	gone, err := time.Parse(time.RFC3339, obj.String(o.Value(), "metadata", "deletionTimestamp"))
	return err != nil || time.Since(gone) < tokenLeeway
}

// signer returns the key that signs tokens.
func (s *Server) signer() (crypto.Signer, error) {
	if s.opts.TokenKey != nil {
		return s.opts.TokenKey, nil
	}
	return newTokenKey()
}

// audience is the issuer of tokens, and the audience that the API server itself has.
func (s *Server) audience() string {
	if s.opts.Issuer != "" {
		return s.opts.Issuer
	}
	return defaultIssuer
}

// reviewToken answers a TokenReview.
func (s *Server) reviewToken(o map[string]any) (map[string]any, error) {
	token, audiences := obj.String(o, "spec", "token"), obj.Texts(o, "spec", "audiences")
	if token == "" {
		return nil, answer.BadRequest("token is required for TokenReview in authentication")
	}
	if len(audiences) == 0 {
		audiences = []string{s.audience()}
	}
	user, err := s.bearer(token, audiences)
	if err != nil {
		return map[string]any{"user": map[string]any{}, "error": err.Error()}, nil
	}
	return map[string]any{"authenticated": true, "user": kinds.UserInfo(user), "audiences": obj.Anys(audiences)}, nil
}
