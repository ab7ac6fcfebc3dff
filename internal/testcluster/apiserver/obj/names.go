package obj

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// The limits and messages of k8s.io/apimachinery/pkg/util/validation, which users see in kubectl.
const (
	qualifiedNameMax = 63
	subdomainMax     = 253
	portNameMax      = 15

	qualifiedNameFmt = `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
	labelFmt         = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	subdomainFmt     = labelFmt + `(\.` + labelFmt + `)*`
	label1035Fmt     = `[a-z]([-a-z0-9]*[a-z0-9])?`
	labelValueFmt    = `(` + qualifiedNameFmt + `)?`

	qualifiedNameText = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end " +
		"with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" +
		qualifiedNameFmt + "')"
	labelValueText = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " +
		"and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex " +
		"used for validation is '" + labelValueFmt + "')"
	subdomainText = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
		"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '" +
		subdomainFmt + "')"
	labelText = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must " +
		"start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '" +
		labelFmt + "')"
	label1035Text = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an " +
		"alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used " +
		"for validation is '" + label1035Fmt + "')"
	dataKeyText = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  " +
		"or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)

var (
	labelValue = form{63, "bytes", lazy(`^` + labelValueFmt + `$`), labelValueText}
	subdomain  = form{subdomainMax, "characters", lazy(`^` + subdomainFmt + `$`), subdomainText}
	label      = form{63, "characters", lazy(`^` + labelFmt + `$`), labelText}
	label1035  = form{63, "characters", lazy(`^` + label1035Fmt + `$`), label1035Text}

	qualifiedNameRE = lazy(`^` + qualifiedNameFmt + `$`)
	dataKeyRE       = lazy(`^[-._a-zA-Z0-9]+$`)
	portNameRE      = lazy(`^[-a-z0-9]+$`)
)

// form is what names match that are at most max long; text says so of others.
type form struct {
	max        int
	unit       string
	expression func() *regexp.Regexp
	text       string
}

// mismatch returns what is wrong with a name, "" for nothing.
func (f form) mismatch(s string) string {
	switch {
	case len(s) > f.max:
		return fmt.Sprintf("must be no more than %d %s", f.max, f.unit)
	case f.expression().MatchString(s):
		return ""
	}
	return f.text
}

// rule is one of several about a name.
type rule struct {
	broken bool
	text   string
}

// broken returns the texts of the rules that are broken.
func broken(rules ...rule) (texts []string) {
	for _, r := range rules {
		if r.broken {
			texts = append(texts, r.text)
		}
	}
	return texts
}

// lazy compiles an expression at its first use: skiff run has none.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// QualifiedName returns all errors in a label or annotation key.
func QualifiedName(s string) []string {
	var errs []string
	prefix, name, slash := strings.Cut(s, "/")
	switch {
	case !slash:
		name = s
	case strings.Contains(name, "/"):
		return []string{"a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start " +
			"and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for " +
			"validation is '" + qualifiedNameFmt +
			"') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"}
	case prefix == "":
		errs = append(errs, "prefix part must be non-empty")
	default:
		if why := Subdomain(prefix); why != "" {
			errs = append(errs, "prefix part "+why)
		}
	}
	switch {
	case name == "":
		errs = append(errs, "name part must be non-empty")
	case len(name) > qualifiedNameMax:
		errs = append(errs, "name part must be no more than 63 bytes")
	}
	if !qualifiedNameRE().MatchString(name) {
		errs = append(errs, qualifiedNameText)
	}
	return errs
}

// LabelValue returns the error in a label value, "" for none.
func LabelValue(s string) string { return labelValue.mismatch(s) }

// Subdomain returns the error in a DNS-1123 subdomain, the form of most object names.
func Subdomain(s string) string { return subdomain.mismatch(s) }

// Label returns the error in a DNS-1123 label, the form of namespace and container names.
func Label(s string) string {
	if len(s) <= label.max && strings.Contains(s, ".") && Subdomain(s) == "" {
		return "must not contain dots"
	}
	return label.mismatch(s)
}

// Label1035 returns the error in a DNS-1035 label, the form of CRD plurals.
func Label1035(s string) string { return label1035.mismatch(s) }

// PortName returns all errors in the name of a port (IsValidPortName of the real server).
func PortName(s string) []string {
	return broken(
		rule{len(s) > portNameMax, "must be no more than 15 characters"},
		rule{!portNameRE().MatchString(s), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"},
		rule{!strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz"), "must contain at least one letter (a-z)"},
		rule{strings.Contains(s, "--"), "must not contain consecutive hyphens"},
		rule{strings.HasPrefix(s, "-") || strings.HasSuffix(s, "-"), "must not begin or end with a hyphen"})
}

// DataKey returns all errors in a key of a ConfigMap or a Secret.
func DataKey(s string) []string {
	dots, matches := s == "." || s == "..", dataKeyRE().MatchString(s)
	return broken(
		rule{len(s) > subdomainMax, "must be no more than 253 characters"},
		rule{!matches, dataKeyText},
		rule{dots, "must not be '" + s + "'"},
		rule{matches && !dots && strings.HasPrefix(s, ".."), "must not start with '..'"})
}

// PathSegment returns all errors in a name that only has to fit into a URL, as those of roles.
func PathSegment(s string) []string {
	return broken(
		rule{s == "." || s == "..", "may not be '" + s + "'"},
		rule{strings.Contains(s, "/"), "may not contain '/'"},
		rule{strings.Contains(s, "%"), "may not contain '%'"})
}
