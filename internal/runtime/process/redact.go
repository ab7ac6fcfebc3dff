package process

import (
	"regexp"
	"strings"
)

// redacted stands for what may be a secret.
const redacted = "[redacted]"

const (
	// leastToken is the length from which letters and digits without a break are taken for a token: the shortest that
	// providers issue have 20 characters, and few words, paths and hosts have so many without a separator.
	leastToken = 20
	// leastSecret is the length from which the value of an argument or a variable of a program is redacted under any
	// name: a shorter one is a word such as "login" or "dev".
	leastSecret = 8
	// leastNamed is the same of those whose name says that they are secrets: three letters are in too many words.
	leastNamed = 4
)

var (
	// secretName is the name of a flag, a variable or an annotation whose value is a secret.
	secretName = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|cookie|authorization|` +
		`(api|access|private)[-_.]?key|(^|[-_.])(pw|pwd|pat|jwt|dsn|salt|creds|auth|key)([-_.]|\d*$)|pass[-_.\d]*$|` +
		`pass[-_.]|auth$|(?-i:_KEYS\d*$)`)
	// variable is a name in capitals, which is that of a variable wherever it stands, as in env: {SIGNING_KEY: x}.
	variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	// secretField is secretName for the fields of any object, which more often have such words in them.
	secretField = regexp.MustCompile(`(?i)^(.*[-_.])?(pass|passwd|password|passphrase|pwd|secret|token|credentials?|` +
		`creds|jwt|cookie|authorization|(api|access|private)[-_]?key)$|` +
		`[a-z](?-i:Password|Passwd|Passphrase|Token|ApiKey|APIKey|AccessKey|PrivateKey|Credentials?)$`)
	// namedSecret is a value behind a name that says what it is, in a URL, JSON, YAML or a sentence.
	namedSecret = regexp.MustCompile(`(?i)((?:token|passwo?r?d|passphrase|secret|authorization|cookie|\bpwd?|` +
		`(?:api|access|private)[-_]?key)["']?(?:\s*=\s*|\s*:\s*)["']?)(?:bearer\s+|basic\s+)?([^\s"',;&]+)`)
	// spokenSecret is a value behind the name of a directive: "requirepass x".
	spokenSecret = regexp.MustCompile(`(?i)\b((?:passphrase|requirepass|masterauth)\s+)([^\s"',;&=:]+)`)
	// dsn is a password in the address of a database as Go's drivers have it: user:password@tcp(host).
	dsn = regexp.MustCompile(`([\w.-]+:)[^\s/@]+(@(?:tcp|unix|udp)\()`)
	// scheme is a header's value.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	// userinfo is a password in a URL.
	userinfo = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
	// unbroken is what a token can be made of, but for the dots of a JWT and the slashes of base64, which paths have.
	unbroken = regexp.MustCompile(`[A-Za-z0-9_+=-]{20,}`)
	// bootstrap is a bootstrap token of kubeadm: its ID, and its secret of 16 characters.
	bootstrap = regexp.MustCompile(`\b([a-z0-9]{6}\.)[a-z0-9]{16}\b`)
	uuid      = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// IsSecret says whether the value of an argument or a variable of a program, with its name, may be a secret.
func IsSecret(name, value string) bool {
	return len(value) >= leastSecret || len(value) >= leastNamed && secretName.MatchString(name)
}

// IsSecretName says of the name of a flag, a variable or an annotation that its value is a secret.
func IsSecretName(name string) bool { return secretName.MatchString(name) }

// IsSecretField says of the name of a field of any object that a text in it is a secret.
func IsSecretField(name string) bool {
	return secretField.MatchString(name) || name != "KEY" && variable.MatchString(name) && IsSecretName(name)
}

// Redact replaces in a line that a program has printed what looks like a token, and the secrets that the program was
// given, of which longer ones come first. It rather takes too much: the line is there to say what is wrong.
func Redact(line string, given []string) string {
	for _, secret := range given {
		line = strings.ReplaceAll(line, secret, redacted)
	}
	return redactTokens(RedactNamed(line))
}

// RedactNamed replaces in a text what is said to be a secret: passwords in URLs, the values of headers, and what
// stands behind a name such as password.
func RedactNamed(line string) string {
	line = userinfo.ReplaceAllString(line, "${1}"+redacted+"@")
	line = dsn.ReplaceAllString(line, "${1}"+redacted+"${2}")
	line = spokenSecret.ReplaceAllString(line, "${1}"+redacted)
	line = scheme.ReplaceAllString(line, "${1} "+redacted)
	line = namedSecret.ReplaceAllStringFunc(line, func(s string) string {
		parts := namedSecret.FindStringSubmatch(s)
		if !assigned(parts[1]) && !strings.ContainsAny(parts[2], "0123456789") {
			return s // "token: expired"
		}
		return parts[1] + redacted
	})
	return bootstrap.ReplaceAllString(line, "${1}"+redacted)
}

// redactTokens replaces what looks like a token by itself.
func redactTokens(line string) string {
	return unbroken.ReplaceAllStringFunc(line, func(s string) string {
		if len(s) < leastToken || uuid.MatchString(s) || !strings.ContainsAny(s, "0123456789") ||
			strings.ToLower(s) == s && strings.Count(s, "-") > 1 { // the name of an object, a host or a region
			return s
		}
		return redacted
	})
}

// assigned says of a name and what is behind it that a value follows, and not a word of a sentence: "name=", or a
// quote.
func assigned(name string) bool {
	return strings.Contains(name, "=") || strings.HasSuffix(name, `"`) || strings.HasSuffix(name, "'")
}
