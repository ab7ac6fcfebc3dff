package selector

import (
	"regexp"
	"strings"
	"sync"
)

// The limits and messages of k8s.io/apimachinery/pkg/util/validation, which users see in kubectl.
const (
	qualifiedNameMax = 63
	labelValueMax    = 63
	subdomainMax     = 253
	labelMax         = 63
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
	qualifiedNameRE = lazy(`^` + qualifiedNameFmt + `$`)
	labelValueRE    = lazy(`^` + labelValueFmt + `$`)
	subdomainRE     = lazy(`^` + subdomainFmt + `$`)
	labelRE         = lazy(`^` + labelFmt + `$`)
	label1035RE     = lazy(`^` + label1035Fmt + `$`)
	dataKeyRE       = lazy(`^[-._a-zA-Z0-9]+$`)
	portNameRE      = lazy(`^[-a-z0-9]+$`)
)

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
func LabelValue(s string) string {
	if len(s) > labelValueMax {
		return "must be no more than 63 bytes"
	}
	return mismatch(labelValueRE(), s, labelValueText)
}

// Subdomain returns the error in a DNS-1123 subdomain, the form of most object names.
func Subdomain(s string) string {
	if len(s) > subdomainMax {
		return "must be no more than 253 characters"
	}
	return mismatch(subdomainRE(), s, subdomainText)
}

// Label returns the error in a DNS-1123 label, the form of namespace and container names.
func Label(s string) string {
	if len(s) > labelMax {
		return "must be no more than 63 characters"
	}
	if strings.Contains(s, ".") && subdomainRE().MatchString(s) {
		return "must not contain dots"
	}
	return mismatch(labelRE(), s, labelText)
}

// Label1035 returns the error in a DNS-1035 label, the form of CRD plurals.
func Label1035(s string) string {
	if len(s) > labelMax {
		return "must be no more than 63 characters"
	}
	return mismatch(label1035RE(), s, label1035Text)
}

// PortName returns all errors in the name of a port (IsValidPortName of the real server).
func PortName(s string) []string {
	var errs []string
	if len(s) > portNameMax {
		errs = append(errs, "must be no more than 15 characters")
	}
	if !portNameRE().MatchString(s) {
		errs = append(errs, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
	}
	if !strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz") {
		errs = append(errs, "must contain at least one letter (a-z)")
	}
	if strings.Contains(s, "--") {
		errs = append(errs, "must not contain consecutive hyphens")
	}
	if strings.HasPrefix(s, "-") || strings.HasSuffix(s, "-") {
		errs = append(errs, "must not begin or end with a hyphen")
	}
	return errs
}

// DataKey returns all errors in a key of a ConfigMap or a Secret.
func DataKey(s string) []string {
	var errs []string
	if len(s) > subdomainMax {
		errs = append(errs, "must be no more than 253 characters")
	}
	switch {
	case !dataKeyRE().MatchString(s):
		errs = append(errs, dataKeyText)
	case s == "." || s == "..":
		errs = append(errs, "must not be '"+s+"'")
	case strings.HasPrefix(s, ".."):
		errs = append(errs, "must not start with '..'")
	}
	return errs
}

// PathSegment returns all errors in a name that only has to fit into a URL, as those of roles.
func PathSegment(s string) []string {
	if s == "." || s == ".." {
		return []string{"may not be '" + s + "'"}
	}
	var errs []string
	for _, part := range []string{"/", "%"} {
		if strings.Contains(s, part) {
			errs = append(errs, "may not contain '"+part+"'")
		}
	}
	return errs
}

func mismatch(re *regexp.Regexp, s, text string) string {
	if re.MatchString(s) {
		return ""
	}
	return text
}
