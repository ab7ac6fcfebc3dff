package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/hooks/supervise"
)

// The second controller has a password in its URL, which the definition of CompositeControllers lets through.
const goodAndBad = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: good}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  hooks: {sync: {webhook: {url: "http://hook.shop.svc/sync"}}}
---
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: bad}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: others}
  childResources: [{apiVersion: v1, resource: secrets, updateStrategy: {method: InPlace}}]
  hooks: {sync: {webhook: {url: "http://user:hush@hook.shop.svc/sync"}}}
`

// Rules: HK-11, HK-108, HK-110
func TestCommandsNameAnInvalidControllerAndGoOnWithTheOthers(t *testing.T) {
	c := newPlanCluster(t)
	skiff(t, "crds", "install", "--hooks", "--server", c.url()).Want(t, ExitDone)
	c.define(object{"status": object{}})
	for _, one := range documents(t, goodAndBad) {
		c.create(supervise.Composites, "", one)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	noError(t, os.WriteFile(file, []byte(goodAndBad), 0o600))
	for _, row := range []struct {
		command, shows string
		code           int // with --from-cluster; with files it is ExitUsage
	}{
		{"plan", "1 blocked", exitBlocked},
		{"hooks role", "[things]", ExitFailed},
		{"hooks check", "good", ExitDiffer},
		{"hooks manifests --image skiff:v1", "[things]", ExitFailed},
	} {
		args := append(strings.Fields(row.command), "--server", c.url())
		from := skiff(t, append(args, "--from-cluster")...)
		if from.Code != row.code || !strings.Contains(from.Stdout, row.shows) ||
			!strings.Contains(from.Stderr, "CompositeController bad: spec.hooks.sync.webhook.url: ") {
			t.Errorf("%s --from-cluster: %+v", row.command, from)
		}
		flag := "-f"
		if row.command == "plan" {
			flag = "--hooks"
		}
		files := skiff(t, append(args, flag, file)...)
		if files.Code != ExitUsage || !strings.Contains(files.Stdout, row.shows) ||
			!strings.Contains(files.Stderr, file+":17: spec.hooks.sync.webhook.url: ") {
			t.Errorf("%s of files: %+v", row.command, files)
		}
		for _, out := range []string{from.Stdout + from.Stderr, files.Stdout + files.Stderr} {
			if strings.Contains(out, "hush") || strings.Contains(out, "[others]") {
				t.Errorf("%s prints of the invalid controller\n%s", row.command, out)
			}
		}
	}
	if r := skiff(t, "hooks", "run", "--server", c.url(), "-f", file); r.Code != ExitUsage || r.Stdout != "" {
		t.Errorf("hooks run of files begins without one of them: %+v", r)
	}
}
