package e2e

import "testing"

func TestStructsInMessagesAreNotCompared(t *testing.T) {
	for message, want := range map[string]string{
		`a: Invalid value: {"A":{"b":1}}: no, b: Invalid value: {}: no`: `a: Invalid value: <object>: no, ` +
			`b: Invalid value: <object>: no`,
		`a: Invalid value: v1.Pod{A:1, B:{C:2}}: no`:                  `a: Invalid value: <object>: no`,
		`a: Invalid value: "b": no`:                                   `a: Invalid value: "b": no`,
		`a: Invalid value: {"A":{: no`:                                `a: Invalid value: {"A":{: no`,
		"is invalid: [a: no, spec: Forbidden: no\n@@ -1 +1 @@\n - A]": "is invalid: [a: no, spec: Forbidden: no]",
	} {
		if got := withoutStructs(message); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", message, got, want)
		}
	}
}
