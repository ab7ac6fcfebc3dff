package wire

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// maxName is the longest name, and maxLabel the longest part of a host name.
const (
	maxName  = 253
	maxLabel = 63
)

// pathNamed are kinds whose names are any segment of a path, such as system:node.
var pathNamed = []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "IPAddress", "ClusterTrustBundle"}

// checkName refuses a name which no object of a kind can have: the write would fail after earlier writes.
func checkName(r kube.Resource, name, path string) error {
	builtIn := !strings.Contains(r.Group, ".") || strings.HasSuffix(r.Group, ".k8s.io")
	want := "small letters, digits, '-' and '.', at most 253 of them"
	ok := kube.ValidName(name)
	switch {
	case r.Group == "" && (r.Kind == "Namespace" || r.Kind == "Service"):
		want = "small letters, digits and '-', at most 63 of them"
		ok = ok && len(name) <= maxLabel && !strings.Contains(name, ".")
	case !builtIn || slices.Contains(pathNamed, r.Kind): // an aggregated API may take more than definitions do
		want = "a segment of a path: visible characters of ASCII, without '/' and '%', at most 253 of them"
		ok = ok || len(name) <= maxName && name != "." && name != ".." && !strings.ContainsFunc(name, notInPath)
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%s: %s cannot be the name of a %s: want %s", path, quote(name), r.Kind, want)
}

// notInPath is a character which no name of an object can have: the server refuses slashes and percent signs, and
// no typed name has the rest.
func notInPath(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == '%' }
