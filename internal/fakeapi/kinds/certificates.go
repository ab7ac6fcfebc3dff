package kinds

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"

	"skiff/internal/fakeapi/obj"
)

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

func requestRules(s scope) []Cause {
	request := obj.String(s.o, "spec", "request")
	if why := notRequest(request); why != "" {
		return []Cause{Invalid("spec.request", bytesOf(request), why)}
	}
	return nil
}

func usageRules(s scope) []Cause {
	var out []Cause
	list := obj.Texts(s.o, "spec", "usages")
	for i, u := range list {
		at := fmt.Sprintf("spec.usages[%d]", i)
		if !slices.Contains(usages, u) {
			out = append(out, NotSupported(at, u, usages...))
		}
		if slices.Contains(list[:i], u) {
			out = append(out, Duplicate(at, u))
		}
	}
	return out
}

// decisionRules refuses to take back a decision.
func decisionRules(s scope) []Cause {
	var out []Cause
	for _, old := range obj.Maps(s.stored, "status", "conditions") {
		kind := obj.String(old, "type")
		kept := slices.ContainsFunc(obj.Maps(s.o, "status", "conditions"), func(c Object) bool {
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
