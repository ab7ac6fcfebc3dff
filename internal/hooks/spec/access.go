package spec

import (
	"crypto/x509"
	"net"
	"net/url"
	"regexp"
	"strings"

	"skiff/internal/runtime/kube"
)

// accessFields are the fields of which access is made.
func accessFields() []string { return []string{"caBundle", "clientTLS", "authorization", "basicAuth"} }

// access reads how an endpoint is reached, of a webhook or of an entry of endpointConfigs.
func (v value) access() Access {
	var a Access
	a.CAInline, a.CA = v.field("caBundle").caBundle()
	a.ClientTLS = v.field("clientTLS").pair("certKey", "tls.crt", "privateKeyKey", "tls.key")
	a.Basic = v.field("basicAuth").pair("usernameKey", "username", "passwordKey", "password")
	a.Bearer, a.Scheme = v.field("authorization").authorization()
	if a.Basic != nil && a.Bearer != nil {
		v.wrong("has authorization and basicAuth: keep one of them")
	}
	return a
}

// caBundle reads who may have signed the certificate of an endpoint.
func (v value) caBundle() (inline string, ref *Reference) {
	if !v.only("inline", "secretRef", "configMapRef") {
		return "", nil
	}
	text, secret, configMap := v.field("inline"), v.field("secretRef"), v.field("configMapRef")
	given := 0
	for _, one := range []value{text, secret, configMap} {
		if one.has() {
			given++
		}
	}
	if given != 1 {
		v.wrong("must have exactly one of inline, secretRef and configMapRef")
	}
	if text.has() {
		inline = text.string()
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(inline)) {
			text.wrong("has no certificate in PEM form")
		}
	}
	if secret.has() {
		ref = secret.reference("ca.crt")
	}
	if configMap.has() {
		ref = configMap.reference("ca.crt")
		ref.ConfigMap = true
	}
	return inline, ref
}

// reference reads one key of an object. byDefault is the key, "" where the object has to name one.
func (v value) reference(byDefault string) *Reference {
	v.only("name", "namespace", "key")
	if byDefault != "" {
		v.byDefault("key", byDefault)
	}
	r := &Reference{Key: v.field("key").required().dataKey()}
	r.Namespace, r.Name = v.objectName()
	return r
}

// pair reads two keys of a Secret, with their defaults; nil if it is missing.
func (v value) pair(first, firstDefault, second, secondDefault string) *Pair {
	if !v.only("secretRef", first, second) {
		return nil
	}
	v.byDefault(first, firstDefault)
	v.byDefault(second, secondDefault)
	p := &Pair{First: v.field(first).dataKey(), Second: v.field(second).dataKey()}
	secret := v.field("secretRef").required()
	if secret.only("name", "namespace") {
		p.Namespace, p.Name = secret.objectName()
	}
	return p
}

// scheme is that of an Authorization header (a token of RFC 9110).
var scheme = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// authorization reads what is sent in the Authorization header.
func (v value) authorization() (ref *Reference, name string) {
	if !v.only("type", "secretRef") {
		return nil, ""
	}
	v.byDefault("type", "Bearer")
	name = strings.TrimSpace(v.field("type").string())
	switch {
	case name == "":
		name = "Bearer"
	case strings.EqualFold(name, "basic"):
		v.field("type").wrong("Basic is not sent this way: use basicAuth")
	case !scheme.MatchString(name):
		v.field("type").wrong("must be a scheme such as Bearer, is %q", kube.Printable(name, maxShown))
	}
	return v.field("secretRef").required().reference(""), name
}

// objectName reads the name of a Secret or ConfigMap.
func (v value) objectName() (in, name string) {
	return v.field("namespace").required().matching(namespace.MatchString, "the name of a namespace"),
		v.field("name").required().matching(kube.ValidName, "the name of an object")
}

func (v value) dataKey() string {
	return v.matching(dataKey.MatchString, "a key of its data (letters, digits, '-', '_' and '.')")
}

// endpoint is an entry of endpointConfigs.
type endpoint struct {
	host   string // HOST or HOST:PORT
	access Access
}

func (v value) endpoints() (out []endpoint) {
	for entry := range v.items(maxItems) {
		if !entry.only(append(accessFields(), "host")...) {
			continue
		}
		host := entry.field("host").required().matching(func(s string) bool {
			return isEndpoint("http://"+s) && !strings.ContainsAny(s, "/?#")
		}, "HOST or HOST:PORT")
		out = append(out, endpoint{host, entry.access()})
	}
	return out
}

// accessOf finds the first entry for the host of a URL. A port may be left out where it is that of the scheme.
func accessOf(endpoints []endpoint, at string) Access {
	u, err := url.Parse(at)
	if err != nil {
		return Access{} // which has been named
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	for _, e := range endpoints {
		if strings.EqualFold(e.host, u.Host) ||
			u.Port() == "" && strings.EqualFold(e.host, net.JoinHostPort(u.Hostname(), usual)) ||
			strings.EqualFold(e.host, strings.TrimSuffix(u.Host, ":"+usual)) {
			return e.access
		}
	}
	return Access{}
}
