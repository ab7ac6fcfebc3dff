package nearest_test

import (
	"strings"
	"testing"

	"skiff/internal/runtime/nearest"
)

func TestAMistypedWordFindsTheNameThatItMeans(t *testing.T) {
	names := []string{"webserver", "redis", "restart", "watch-namespaces", "controllers", "replicas", "ns",
		"WebServer"}
	for word, want := range map[string]string{
		"webservr": "webserver", "wbeserver": "webserver", "web": "", "WEBSERVER": "webserver", "redsi": "redis",
		"replica": "replicas", "controler": "controllers", "namespaces": "watch-namespaces", "re": "", "x": "",
		"": "", "deployment": "", "restrat": "restart", "redis": "", "contr": "controllers",
		strings.Repeat("w", 1000): "",
	} {
		if got := nearest.Of(word, names); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
	if got := nearest.Of("web", []string{"webserver", "redis"}); got != "webserver" {
		t.Errorf("the beginning of one name: %q", got)
	}
	if got := nearest.Ask("prot", []string{"port"}, "--", "=80"); got != "did you mean --port=80?" {
		t.Error(got)
	}
}
