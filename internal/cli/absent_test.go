package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func TestANamespaceThatDoesNotExistIsNamedUntilItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		defer api.Close()
		pipe := api.ListenPipe()
		defer pipe.Close()
		client := must(kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial}))(t)
		defer client.Close()
		allowed := api.Inject(apiserver.Fault{Verb: "get", Resource: "namespaces", Name: "secret",
			Reply: &apiserver.Reply{Code: http.StatusForbidden, Reason: "Forbidden", Message: "no"}})
		defer allowed()
		noError(t, client.Create(t.Context(), namespaceResource, "", object{"apiVersion": "v1", "kind": "Namespace",
			"metadata": object{"name": "shop"}}, nil, kube.WriteOptions{}))
		ctx, stop := context.WithCancel(t.Context())
		var a absent
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.watch(ctx, client, []string{"default", "secret", "shpo"}, logr.Discard())
		}()
		time.Sleep(time.Second)
		if lines := a.attention(); len(lines) != 1 || lines[0].Text(time.Now()) != "--watch-namespaces: "+
			"namespace shpo does not exist; skiff works in it once it does; did you mean shop?" {
			t.Errorf("attention %q", lines)
		}
		noError(t, client.Create(t.Context(), namespaceResource, "", object{"apiVersion": "v1", "kind": "Namespace",
			"metadata": object{"name": "shpo"}}, nil, kube.WriteOptions{}))
		time.Sleep(absentEvery)
		if lines := a.attention(); len(lines) != 0 {
			t.Errorf("attention when it exists: %q", lines)
		}
		<-ended // nothing is asked any more
		stop()
	})
}

func TestCheckNamesANamespaceThatDoesNotExist(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	check := func(args ...string) clitest.Result {
		return skiff(t, append([]string{"check", "--server", c.url(), "--watch-namespaces"}, args...)...)
	}
	r := check("default,defualt,elsewhere")
	r.Want(t, ExitDiffer)
	for _, want := range []string{"! namespace   defualt does not exist; did you mean default?\n",
		"! namespace   elsewhere does not exist; create it, or correct --watch-namespaces\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.Stdout)
		}
	}
	if r := check("default"); r.Code != ExitDone || strings.Contains(r.Stdout, "does not exist") {
		t.Errorf("one that exists: %+v", r)
	}
	var report struct{ Absent []struct{ Namespace string } }
	noError(t, json.Unmarshal([]byte(check("defualt", "-o", "json").Stdout), &report))
	if len(report.Absent) != 1 || report.Absent[0].Namespace != "defualt" {
		t.Errorf("as JSON: %+v", report)
	}
}
