package kube

import "strings"

// CompareRV compares two resource versions of one resource: -1, 0 or 1 as a is older than, the same as or
// newer than b. comparable is false where the rule does not hold, and then only equality means anything: a
// resource version is comparable if it is all digits with no leading zero, of any length (KEP-5504; the
// conformance suite allows 128 bit, so it is not parsed as a number).
func CompareRV(a, b string) (order int, comparable bool) {
	if !numericRV(a) || !numericRV(b) {
		return strings.Compare(a, b), a == b && a != ""
	}
	if len(a) != len(b) {
		if len(a) < len(b) {
			return -1, true
		}
		return 1, true
	}
	return strings.Compare(a, b), true
}

func numericRV(s string) bool {
	if s == "" || s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
