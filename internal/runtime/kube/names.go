package kube

import "regexp"

// maxName is how many bytes the name of an object may have.
const maxName = 253

var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// ValidName says whether s can be the name of an object of most kinds (RFC 1123 subdomain). Such a name stays in its
// place in a URL.
func ValidName(s string) bool { return len(s) <= maxName && objectName.MatchString(s) }
