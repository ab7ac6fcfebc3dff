package kinds

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
)

// certificates has the requests for certificates.
func certificates() []*Kind {
	return []*Kind{{Resource: clusterScoped(kube.Resource{Group: "certificates.k8s.io", Version: "v1",
		Plural: "certificatesigningrequests", Kind: "CertificateSigningRequest"}), ShortNames: []string{"csr"},
		Status: true, NewStatus: constant(Object{}), Approval: true, Author: true, Prepare: prepareRequest,
		Validate: requestRules, Fields: map[string]func(Object) string{"spec.signerName": at("spec", "signerName")},
		Columns: []Column{ageColumn,
			text("SignerName", orNone("<none>", "spec", "signerName")),
			text("Requestor", field("spec", "username")), text("RequestedDuration", func(o Object) any {
				n, ok := obj.Int(o, "spec", "expirationSeconds")
				if !ok {
					return "<none>"
				}
				return HumanDuration(time.Duration(n) * time.Second)
			}),
			text("Condition", requestStatus)}}}
}

// prepareRequest keeps the spec of a request, and gives its conditions their times.
func prepareRequest(next, cur Object) {
	if cur != nil {
		next["spec"] = obj.Clone(obj.Map(cur, "spec"))
	}
	now := time.Now().UTC().Format(time.RFC3339)
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

// Approve reduces a change of a request through the subresource approval to its conditions.
func Approve(next, cur Object) {
	status := obj.Clone(obj.Map(cur, "status"))
	if delete(status, "conditions"); len(obj.Slice(next, "status", "conditions")) > 0 {
		status["conditions"] = obj.Slice(next, "status", "conditions")
	}
	next["status"] = status
}

// usages are the known key usages.
var usages = []string{"any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
	"data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system",
	"ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc",
	"ocsp signing", "s/mime", "server auth", "signing", "timestamping"}

func requestRules(next, cur Object) []Cause {
	var out []Cause
	spec := obj.Map(next, "spec")
	if why := notRequest(obj.String(spec, "request")); why != "" {
		out = append(out, Invalid("spec.request", bytesOf(obj.String(spec, "request")), why))
	}
	list := obj.Texts(spec, "usages")
	if len(list) == 0 {
		out = append(out, Required("spec.usages", ""))
	}
	for i, u := range list {
		at := fmt.Sprintf("spec.usages[%d]", i)
		if !slices.Contains(usages, u) {
			out = append(out, NotSupported(at, u, usages...))
		}
		if slices.Contains(list[:i], u) {
			out = append(out, Duplicate(at, u))
		}
	}
	switch signer := obj.String(spec, "signerName"); {
	case signer == "":
		out = append(out, Required("spec.signerName", ""))
	case signer == "kubernetes.io/legacy-unknown":
		out = append(out, Invalid("spec.signerName", signer,
			"the legacy signerName is not allowed via this API version"))
	case strings.Count(signer, "/") != 1:
		out = append(out, Invalid("spec.signerName", signer, "must be a fully qualified domain and path of the form "+
			"'example.com/signer-name'"))
	}
	if n, ok := obj.Int(spec, "expirationSeconds"); ok && n < 600 {
		out = append(out, Invalid("spec.expirationSeconds", n,
			"may not specify a duration less than 600 seconds (10 minutes)"))
	}
	for _, old := range obj.Maps(cur, "status", "conditions") {
		kind := obj.String(old, "type")
		kept := slices.ContainsFunc(obj.Maps(next, "status", "conditions"), func(c Object) bool {
			return c["type"] == kind
		})
		if !kept && slices.Contains(decisions, kind) {
			out = append(out, Forbidden("status.conditions",
				fmt.Sprintf("updates may not remove a condition of type %q", kind)))
		}
	}
	return out
}

// bytesOf decodes base64 as the real server quotes it: as a list of numbers.
func bytesOf(encoded string) any {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(b) == 0 {
		return encoded
	}
	var out []any
	for _, c := range b {
		out = append(out, int64(c))
	}
	return out
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

func requestStatus(o Object) any {
	has := map[string]bool{}
	for _, c := range obj.Maps(o, "status", "conditions") {
		has[obj.String(c, "type")] = true
	}
	out := "Pending"
	if has["Approved"] {
		out = "Approved"
	}
	if has["Denied"] {
		out = "Denied"
	}
	if has["Failed"] {
		out += ",Failed"
	}
	if obj.String(o, "status", "certificate") != "" {
		out += ",Issued"
	}
	return out
}
