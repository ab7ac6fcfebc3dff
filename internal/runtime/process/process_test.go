package process_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"skiff/internal/runtime/process"
)

func TestALineOfAProgramHasNoTokensInIt(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ." +
		"eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r5wW1gFWFOEjXk0"
	for _, same := range []string{"the token: expired 3 hours ago", "open https://idp.example/device and wait",
		"request 123e4567-e89b-12d3-a456-426614174000 failed",
		"no such host: oidc-1.eks.eu-west-1.amazonaws.example",
		"open /home/user1/.kube/cache/gke_gcloud_auth_plugin_cache: no",
		"cluster my-long-name-of-a-cluster-3-in-eu-west-1 does not answer",
		"wrote 3 of ppw=4 blocks",
	} {
		if got := process.Redact(same, nil); got != same {
			t.Errorf("%s became %s", same, got)
		}
	}
	for line, want := range map[string]string{
		"got " + jwt + ", and now?":               "got [redacted].[redacted].[redacted], and now?",
		"Authorization: Bearer abc.def.ghijkl":    "Authorization: Bearer [redacted]",
		"send bearer k8s-aws-v1.aHR0cHM6Ly9zdHMu": "send bearer [redacted]",
		`{"token":"s3cr3t","code":401}`:           `{"token":"[redacted]","code":401}`,
		`{"password": "horse", "code": 401}`:      `{"password": "[redacted]", "code": 401}`,
		"password=hunter two":                     "password=[redacted] two",
		"connect with pw=horse and port=3":        "connect with pw=[redacted] and port=3",
		"gpg --passphrase horse --sign x":         "gpg --passphrase [redacted] --sign x",
		"https://me:hunter2@proxy.example:8080/x": "https://me:[redacted]@proxy.example:8080/x",
		"key AKIAIOSFODNN7EXAMPLE of the account": "key [redacted] of the account",
		"join with abcdef.0123456789abcdef now":   "join with abcdef.[redacted] now",
		"--password given-to-it":                  "--password [redacted]",
	} {
		if got := process.Redact(line, []string{"given-to-it"}); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestLinesAreCutAndCounted(t *testing.T) {
	var said []string
	lines := &process.Lines{MaxLine: 4, MaxTotal: 10, Say: func(line string) { said = append(said, line) }}
	for _, text := range []string{"one\n\n", "\x1b[2Jtw", "\xff\r\nthree and", " more\nend of it"} {
		if n, err := io.WriteString(lines, text); n != len(text) || err != nil {
			t.Fatalf("wrote %d of %q: %v", n, text, err)
		}
	}
	lines.Flush()
	if got, want := fmt.Sprintf("%q", said), `["one" "[2Jt" "thr"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOutputBeyondItsLimitIsAnError(t *testing.T) {
	o := &process.Output{Limit: 5}
	if _, err := io.Copy(o, strings.NewReader("12345")); err != nil || o.Over {
		t.Fatalf("%v, over: %v", err, o.Over)
	}
	if _, err := io.Copy(o, strings.NewReader("6")); err == nil || !o.Over || string(o.Data) != "12345" {
		t.Errorf("%q, %v, over: %v", o.Data, err, o.Over)
	}
}
