package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
)

const shops = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: shops}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: apps/v1, resource: deployments}]
  generateSelector: true
  hooks: {sync: {exec: {command: [HOOK]}}}
`

// The role of hook controllers has no right to read pods; an administrator has. Nothing makes the pods of a Deployment
// here.
//
// Rules: LP-08, LP-12
func TestThePageOfAHooksParentGoesOnToThePodsOfItsDeploymentWhereTheyMayBeRead(t *testing.T) {
	c := guarded(t)
	c.define(map[string]any{"status": map[string]any{}})
	dir := t.TempDir()
	hook := filepath.Join(dir, "hook")
	noError(t, os.WriteFile(hook, []byte("#!/bin/sh\ncat >/dev/null\n"+
		`echo '{"children": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {`+
		`"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {`+
		`"containers": [{"name": "c", "image": "nginx"}]}}}}]}'`+"\n"), 0o700))
	file := filepath.Join(dir, "c.yaml")
	noError(t, os.WriteFile(file, []byte(strings.Replace(shops, "HOOK", hook, 1)), 0o600))
	c.create(kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}, "default",
		named("one", nil))
	pods := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	for name, app := range map[string]string{"web-1": "web", "other-1": "other"} {
		c.create(pods, "default", object{"metadata": object{"name": name, "labels": object{"app": app}},
			"spec": object{"containers": []any{object{"name": "c", "image": "nginx"}}}})
		key := kube.Key{Namespace: "default", Name: name}
		noError(t, c.client.Patch(t.Context(), pods, key, kube.MergePatch,
			object{"status": object{
				"conditions": []any{object{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
					"message": "no node"}}}}, nil, kube.WriteOptions{Subresource: "status"}))
	}
	role := skiff(t, "hooks", "role", "-f", file)
	role.Want(t, ExitDone)
	c.grant(role.Stdout)
	for _, user := range []string{"system:serviceaccount:skiff:skiff-hooks", ""} {
		args := c.asAdministrator("hooks", "run", "-f", file, "--health-probe-bind-address", "127.0.0.1:0",
			"--debug-bind-address", "127.0.0.1:0")
		if user != "" {
			args = append(args, "--as", user)
		}
		running := program.Follow(t, args...)
		var body string
		running.Await("the child, and the reason of its pod", func() bool {
			m := pageURL.FindStringSubmatch(running.Stderr.String())
			if m == nil {
				return false
			}
			_, body = browse(t, m[1]+"object/Thing/default/one", "")
			return strings.Contains(body, "Deployment web") && (user != "" || strings.Contains(body, "Unschedulable"))
		})
		if strings.Contains(body, "web-1</td>") != (user == "") {
			t.Errorf("as %q, the page of the parent is\n%s", user, body)
		}
		if strings.Contains(body, "other-1") || user != "" && strings.Contains(body, "<h2>Pods</h2>") {
			t.Errorf("as %q, there is more than the pod of the parent\n%s", user, body)
		}
		running.Stop()
	}
}
