package cli

import (
	"strings"
	"testing"
)

func TestRestartRefusesWhatCannotWork(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", "--selector: say which pods"},
		{"--selector app=redis", "--target: say what"},
		{"--selector app=redis --target predixy", `--target "predixy": want KIND/NAME`},
		{"--selector app=redis --target job/predixy", "only a deployment, statefulset or daemonset"},
		{"--selector app=redis --target deployment/a --on Never", `--on: "Never" is none of PodReplaced`},
		{"--selector app=redis --target deployment/a --budget 5", `--budget "5": want MAX/DURATION`},
		{"--selector app=redis --target deployment/a --budget 0/1h", `--budget "0/1h"`},
		{"--selector app=redis --target deployment/a --health-probe-bind-address nowhere", "want HOST:PORT"},
		{"--selector !x --target deployment/a --server http://127.0.0.1:1", "would match every pod"},
		{"--selector app=redis --target deployment/a,deploy/a --server http://127.0.0.1:1",
			"deployment/a is there twice"},
		{"--selector app=redis --target deployment/" + strings.Join(strings.Split("abcdefghijklmnopq", ""),
			",deployment/") + " --server http://127.0.0.1:1", "--target: want 1 to 16, there are 17"},
		{"--selector app=redis --target deployment/a --cooldown 48h --server http://127.0.0.1:1",
			`--cooldown: "48h0m0s" is too long; at most 24h`},
		{"--selector app=redis --target deployment/a/b",
			`--target "deployment/a/b": "a/b" is not the name of an object`},
		{"--selector app=redis --target deployment/a -n My_Team",
			`--namespace: "My_Team" is not a valid namespace name`},
		{"--selector app=redis --target deployment/a extra", "takes no arguments"},
	} {
		var stderr strings.Builder
		t.Setenv("KUBECONFIG", "/nowhere")
		t.Setenv("HOME", t.TempDir())
		code := Main(t.Context(), append([]string{"restart"}, strings.Fields(test.args)...),
			&strings.Builder{}, &stderr)
		if code != ExitUsage || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", test.args, code, stderr.String(), ExitUsage, test.want)
		}
	}
}
