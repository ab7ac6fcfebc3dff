package kinds

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/testcluster/apiserver/obj"
)

// maxData is the limit of the total data of a ConfigMap or a Secret.
const maxData = 1 << 20

// dataSize limits the data of a ConfigMap or a Secret: text in the field plain, base64 in the field encoded. at is the
// field that is reported.
func dataSize(plain, encoded, at string) func(scope) {
	return func(s scope) {
		total := 0
		for _, v := range obj.Strings(s.root, plain) {
			total += len(v)
		}
		for _, v := range obj.Strings(s.root, encoded) {
			total += base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(v, "=")))
		}
		if total > maxData {
			s.add(obj.TooLong(at, maxData))
		}
	}
}

// dataTwice refuses keys that are in both fields of a ConfigMap.
func dataTwice(s scope) {
	for _, key := range obj.Keys(obj.Map(s.o, "binaryData")) {
		if _, twice := obj.Map(s.o, "data")[key]; twice {
			s.invalid("data["+key+"]", key, "duplicate of key present in binaryData")
		}
	}
}

// notDockerConfig returns why a text is no Docker configuration, a JSON object in base64; "" if it is one.
func notDockerConfig(encoded string) string {
	var config map[string]any
	decoded, _ := base64.StdEncoding.DecodeString(encoded) // what is no base64 has been refused before
	if err := json.Unmarshal(decoded, &config); err != nil {
		return err.Error()
	}
	return ""
}

// keyPairWarnings are those about certificates that no server can use.
func keyPairWarnings(o Object) []string {
	if obj.String(o, "type") != "kubernetes.io/tls" {
		return nil
	}
	var pair [2][]byte
	for i, key := range []string{"tls.crt", "tls.key"} {
		pair[i], _ = base64.StdEncoding.DecodeString(obj.String(o, "data", key))
	}
	if _, err := tls.X509KeyPair(pair[0], pair[1]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// encodeStringData moves stringData of a Secret, which is write-only, to data.
func encodeStringData(s scope) {
	for key, v := range obj.Strings(s.o, "stringData") {
		obj.Set(s.o, base64.StdEncoding.EncodeToString([]byte(v)), "data", key)
	}
	delete(s.o, "stringData")
}

// conditionTimes gives the conditions of a request their times.
func conditionTimes(s scope) {
	next, cur, now := s.o, s.stored, timestamp()
	for _, c := range obj.Maps(next, "status", "conditions") {
		obj.Default(c, now, "lastUpdateTime")
		changed := now
		for _, old := range obj.Maps(cur, "status", "conditions") {
			if old["type"] == c["type"] && old["status"] == c["status"] {
				changed = obj.String(old, "lastTransitionTime")
			}
		}
		obj.Default(c, changed, "lastTransitionTime")
	}
}

// decisions are the conditions that are set once, through the subresource approval.
var decisions = []string{"Approved", "Denied"}

// Decide reduces a change of a request through the subresource approval to its conditions, and one through status to
// what is no decision.
func Decide(sub string, next, cur Object) (out []Cause) {
	conditions := obj.Maps(next, "status", "conditions")
	if sub == "approval" {
		status := obj.Clone(obj.Map(cur, "status"))
		if delete(status, "conditions"); len(conditions) > 0 {
			status["conditions"] = obj.Slice(next, "status", "conditions")
		}
		next["status"] = status
		return nil
	}
	for _, c := range conditions {
		if kind := obj.String(c, "type"); slices.Contains(decisions, kind) {
			old := Condition(cur, kind)
			if old == nil {
				out = append(out, obj.Forbidden("status.conditions",
					fmt.Sprintf("updates may not add a condition of type %q", kind)))
			}
			clear(c)
			maps.Copy(c, old)
		}
	}
	return out
}

// signerNameRules requires a domain and a path (ValidateSignerName).
func signerNameRules(s scope) {
	const at = "spec.signerName"
	name := obj.String(s.root, "spec", "signerName")
	domain, path, _ := strings.Cut(name, "/")
	if strings.Count(name, "/") != 1 {
		s.invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	labels := func(part string, form func(string) string) {
		for label := range strings.SplitSeq(part, ".") {
			if why := form(label); why != "" {
				s.invalid(at, part, fmt.Sprintf("validating label %q: %s", label, why))
				return
			}
		}
	}
	if len(domain) > 253 {
		s.add(obj.TooLong(at, 253))
	}
	labels(domain, obj.Label)
	if !strings.Contains(domain, ".") {
		s.invalid(at, domain, "should be a domain with at least two segments separated by dots")
	}
	labels(path, obj.Subdomain)
}

// decisionRules require that a request is not both approved and denied.
func decisionRules(s scope) {
	seen := map[string]bool{}
	for _, c := range obj.Maps(s.o, "status", "conditions") {
		kind := obj.String(c, "type")
		if kind == "Approved" && seen["Denied"] || kind == "Denied" && seen["Approved"] {
			s.invalid("status.conditions", kind, "Approved and Denied conditions are mutually exclusive")
		}
		seen[kind] = true
	}
}

// notCertificates returns why a text is no list of certificates, "" if it is one.
func notCertificates(encoded string) string {
	rest, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err.Error()
	}
	for found := false; len(rest) > 0; found = true {
		var block *pem.Block
		switch block, rest = pem.Decode(rest); {
		case block == nil && found:
			return ""
		case block == nil:
			return "must contain at least one CERTIFICATE PEM block"
		case block.Type != "CERTIFICATE":
			return fmt.Sprintf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		case len(block.Headers) > 0:
			return "no PEM block headers are permitted"
		}
		if _, err := x509.ParseCertificates(block.Bytes); err != nil {
			return err.Error()
		}
	}
	return ""
}

// notRequest returns why a text is no certificate request, "" if it is one.
func notRequest(encoded string) string {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err.Error()
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return "PEM block type must be CERTIFICATE REQUEST"
	}
	if _, err := x509.ParseCertificateRequest(block.Bytes); err != nil {
		return err.Error()
	}
	return ""
}

// hookResources validates the resources of a rule, in which wildcards stand beside nothing that they include.
func hookResources(s scope) {
	list, at := obj.Slice(s.o, "resources"), s.at+".resources"
	ofResource, ofSub, plain := map[string]bool{}, map[string]bool{}, false
	for i, item := range list {
		text, _ := item.(string)
		at := fmt.Sprintf("%s[%d]", at, i)
		if text == "" {
			s.add(obj.Required(at, ""))
			continue
		}
		resource, sub, divided := strings.Cut(text, "/")
		if !divided {
			plain = text != "*"
			continue
		}
		if ofResource[resource] {
			s.invalid(at, text, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, text))
		}
		if ofSub[sub] {
			s.invalid(at, text, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, text))
		}
		ofResource[resource], ofSub[sub] = ofResource[resource] || sub == "*", ofSub[sub] || resource == "*"
	}
	if len(list) > 1 && slices.Contains(list, any("*/*")) {
		s.invalid(at, list, "if '*/*' is present, must not specify other resources")
	}
	if plain && slices.Contains(list, any("*")) {
		s.invalid(at, list, "if '*' is present, must not specify other resources without subresources")
	}
}

// servicePath checks the path of a Service that a webhook calls.
func servicePath(s scope) {
	path, at := obj.String(s.o, "path"), s.at+".path"
	switch {
	case path == "" || path == "/":
		return
	case path == "//":
		s.invalid(at, path, "segment[0] may not be empty")
		return
	case path[0] != '/':
		s.invalid(at, path, "must start with a '/'")
	}
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		switch why := obj.Subdomain(step); {
		case step == "":
			s.invalid(at, path, fmt.Sprintf("segment[%d] may not be empty", i))
		case why != "":
			s.invalid(at, path, fmt.Sprintf("segment[%d]: %s", i, why))
		}
	}
}

// hookURL checks the URL of a webhook.
func hookURL(s scope) {
	address, isURL := s.o["url"].(string)
	if !isURL {
		return
	}
	at := s.at + ".url"
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(address)
	if err != nil {
		s.add(obj.Required(at, "url must be a valid URL: "+err.Error()+form))
		return
	}
	refuse := func(broken bool, value, text string) {
		if broken {
			s.invalid(at, value, text)
		}
	}
	refuse(u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme"+form)
	refuse(u.Host == "", u.Host, "host must be specified"+form)
	refuse(u.User != nil, u.User.String(), "user information is not permitted in the URL")
	refuse(u.Fragment != "", u.Fragment, "fragments are not permitted in the URL")
	refuse(u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL")
}

// reviewVersions validates the versions of reviews that a webhook takes, the list in a field.
func reviewVersions(s scope, field string) {
	versions, at := obj.Slice(s.o, field), s.at+"."+field
	seen := map[any]bool{}
	for i, v := range versions {
		at, text := fmt.Sprintf("%s[%d]", at, i), fmt.Sprint(v)
		if seen[v] {
			s.invalid(at, v, "duplicate version")
		} else if why := obj.Label1035(text); why != "" {
			s.invalid(at, v, why)
		}
		seen[v] = true
	}
	if !seen["v1"] && !seen["v1beta1"] {
		s.invalid(at, versions, "must include at least one of v1, v1beta1")
	}
}
