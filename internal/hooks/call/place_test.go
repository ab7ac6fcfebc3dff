package call

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/hooks/spec"
)

func TestTheErrorOfAProgramNamesTheLineOfItsAuthor(t *testing.T) {
	for name, test := range map[string]struct {
		stderr string
		want   trace
	}{
		"python, while it is read": {"  File \"/h/hook.py\", line 8\n    def sync(r)\n               ^\n" +
			"SyntaxError: expected ':'", trace{"SyntaxError: expected ':'", "hook.py:8"}},
		"python, in its library": {"Traceback (most recent call last):\n  File \"/h/hook.py\", line 4, in <module>\n" +
			"    f()\n  File \"/h/lib/a.py\", line 3, in f\n    return json.loads(\"x\")\n" +
			"  File \"/usr/lib/python3/json/decoder.py\", line 355, in raw_decode\n    raise JSONDecodeError\n" +
			"json.decoder.JSONDecodeError: Expecting value", trace{"json.decoder.JSONDecodeError: Expecting value",
			"lib/a.py:3"}},
		"node, while it runs": {"file:///h/hook.mjs:2\n  null.x\n       ^\n\nTypeError: null has no x\n" +
			"    at f (file:///h/hook.mjs:2:8)\n    at file:///h/hook.mjs:4:1\n\nNode.js v20.20.2",
			trace{"TypeError: null has no x", "hook.mjs:2"}},
		"node, a module that is not there": {"node:internal/modules/esm/resolve:283\n    throw new X(\n\n" +
			"Error [ERR_MODULE_NOT_FOUND]: Cannot find module\n    at finalizeResolution (node:internal/x:283:11)" +
			"\n\nNode.js v20.20.2", trace{"Error [ERR_MODULE_NOT_FOUND]: Cannot find module", ""}},
		"go": {"panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/h/hook.go:2 +0x28",
			trace{"panic: assignment to entry in nil map", "hook.go:2"}},
		"shell": {"./hook.sh: 3: FOO: parameter not set", trace{"./hook.sh: 3: FOO: parameter not set", ""}},
		"bash":  {"./hook.sh: line 3: FOO: unbound variable", trace{"./hook.sh: line 3: FOO: unbound variable", ""}},
		"jq": {"jq: error: syntax error at <top-level>, line 1:\n.x[\njq: 1 compile error",
			trace{"jq: error: syntax error at <top-level>, line 1:", ""}},
		"a file of somebody else": {"  File \"/etc/x.py\", line 8\nSyntaxError", trace{"SyntaxError", ""}},
		"anything else":           {"first\ncannot open x\n", trace{"cannot open x", ""}},
		"nothing":                 {"", trace{}},
	} {
		if got := traceOf(strings.Split(test.stderr, "\n"), "/h"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestAScriptThatIsNotThereIsFoundInTheCommand(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hook.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"python3 hook.py": "", "python3 hook.py other.py": "", "python3 -u no.py": filepath.Join(dir, "no.py"),
		"node /no/hook.mjs": "/no/hook.mjs", "sh -c exec ./no.sh": "", "python3 -m no.py": "", "jq .a": "",
	} {
		if got := MissingScript(&spec.Exec{Dir: dir, Command: strings.Fields(command)}); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
