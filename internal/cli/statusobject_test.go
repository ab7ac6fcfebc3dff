package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/page"
	"skiff/internal/testcluster/apiserver"
)

// Two objects: what is wrong with the first is made of names alone, with the second it repeats a value.
func TestStatusSaysWhatIsWrongWithAnObjectToWhoMaySeeIt(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	deployments := kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	c.create(deployments, "default", object{"metadata": object{"name": "taken"}, "spec": object{
		"selector": object{"matchLabels": object{"a": "b"}},
		"template": object{"metadata": object{"labels": object{"a": "b"}},
			"spec": object{"containers": []any{object{"name": "a", "image": "a"}}}}}})
	c.create(webServers, "default", object{"metadata": object{"name": "taken"}, "spec": object{"image": "nginx:1"}})
	c.create(webServers, "default", object{"metadata": object{"name": "odd",
		"annotations": object{"skiff.dev/paused": "canary"}}, "spec": object{"image": "nginx:1",
		"template": object{"spec": object{"restartPolicy": "canary"}}}})
	token := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(token, []byte("hush"), 0o600))
	for _, test := range []struct {
		name  string
		flags []string
		ask   []string
		all   bool
	}{
		{"without a token", nil, nil, false},
		{"with the token", []string{"--debug-token-file", token}, []string{"--debug-token-file", token}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, url := livePage(t, c.url(), test.flags...)
			defer f.Stop()
			status := func(args ...string) clitest.Result {
				return skiff(t, slices.Concat([]string{"status", "--debug-bind-address", url}, args, test.ask)...)
			}
			var got page.ObjectAnswer
			f.Await("both objects are stalled or degraded", func() bool {
				for _, name := range []string{"webserver/taken", "ws/odd"} {
					if status(name).Code != ExitDiffer {
						return false
					}
				}
				return true
			})
			noError(t, json.Unmarshal([]byte(status("webservers.skiff.dev/taken", "-o", "json").Stdout), &got))
			if got.Owner.Reason != "NameTaken" || !strings.Contains(got.Owner.Message, "Deployment default/taken") {
				t.Errorf("taken: %+v", got.Owner.Trouble)
			}
			for _, args := range [][]string{{"ws/odd"}, {"ws/odd", "-o", "json"}, nil, {"-o", "json"}} {
				if r := status(args...); strings.Contains(r.Stdout, "canary") != test.all {
					t.Errorf("status %q: canary is shown %t, want %t:\n%s", args, !test.all, test.all, r.Stdout)
				}
			}
			status("ws/none").Want(t, ExitFailed, "skiff works for no such object")
			status("ws/takne").Want(t, ExitFailed, "did you mean ws/taken?")
			status("redis/takne").Want(t, ExitFailed, "`kubectl get redis -A`")
			status("default/taken", "-n", "none").Want(t, ExitFailed,
				"want KIND/NAME, for example webserver/taken -n default")
			status("default/x", "-n", "none").Want(t, ExitFailed, "want KIND/NAME, for example webserver/")
			status("pod/taken").Want(t, ExitFailed, "skiff works for no such object")
			status("ws/taken", "-n", "other").Want(t, ExitFailed, "in namespace other")
			status("ws").Want(t, ExitUsage, "want KIND/NAME")
			status("ws/taken", "--watch").Want(t, ExitUsage, "--watch")
		})
	}
}

func TestCommandsAreNotCutInTheTerminal(t *testing.T) {
	command := "`kubectl describe pods -n default -l " + strings.Repeat("a=b,", 30) + "c`"
	lines := new(statusText).wrapped("look at the pods with "+command+" and at "+command, "  ")
	for _, line := range lines {
		if strings.Count(line, "`")%2 != 0 {
			t.Errorf("a command is cut:\n%s", strings.Join(lines, "\n"))
		}
	}
}

func TestTheStoryOfAnObjectNamesPodsThatAreNotReadyAndIsBounded(t *testing.T) {
	a := page.ObjectAnswer{Pods: &page.Pods{All: 200, Ready: 150, More: true,
		List: []page.Pod{{Name: "web-0", State: "not ready", Reason: "ImagePullBackOff", Message: "no such image"}}}}
	for range 49 {
		a.Pods.List = append(a.Pods.List, page.Pod{Name: "web", State: "not ready"})
	}
	a.Pods.List = append(a.Pods.List, page.Pod{Name: "fine", State: "ready"})
	a.Owner.Children, a.Owner.Omitted = make([]page.Child, 200), 800
	w := newStatusText(io.Discard)
	w.story(&a)
	text := w.String()
	for _, want := range []string{"PODS  150 of the first 200 ready\n",
		"web-0 not ready: ImagePullBackOff: no such image\n",
		"and 40 more\n", "and 990 more\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "fine") || strings.Count(text, "\n") > 40 {
		t.Errorf("too much:\n%s", text)
	}
}
