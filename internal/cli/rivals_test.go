package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/runtime/page"
	"skiff/internal/testcluster/apiserver"
)

func TestAnotherSkiffAtWorkIsNamedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		held   map[string]string // a holder, by the key of its Lease
		dead   bool              // nobody renews the Leases
		refuse bool              // nobody may list Leases
		want   string
	}{
		"no Lease":            {},
		"one that leads":      {held: map[string]string{"default/skiff": "skiff-1_a"}, want: "skiff-1_a"},
		"in all namespaces":   {held: map[string]string{"kube-public/skiff": "skiff-1_a"}, want: "skiff-1_a"},
		"one that has ended":  {held: map[string]string{"default/skiff": "skiff-1_a"}, dead: true},
		"one that gave it up": {held: map[string]string{"default/skiff": ""}},
		"its own":             {held: map[string]string{"default/skiff": "self"}},
		"another program's":   {held: map[string]string{"default/argo": "argo-1_a"}},
		"no right to list":    {held: map[string]string{"default/skiff": "skiff-1_a"}, refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := apiserver.New(apiserver.Options{})
				defer api.Close()
				pipe := api.ListenPipe()
				defer pipe.Close()
				client := must(kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial}))(t)
				defer client.Close()
				if test.refuse {
					defer api.Inject(apiserver.Fault{Verb: "list", Resource: "leases", Reply: &apiserver.Reply{
						Code: http.StatusForbidden, Reason: "Forbidden", Message: "no"}})()
				}
				renew := func(key, holder, at string) {
					namespace, name, _ := strings.Cut(key, "/")
					noError(t, client.Patch(t.Context(), leases, kube.Key{Namespace: namespace, Name: name},
						kube.ApplyPatch, object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
							"metadata": object{"name": name, "namespace": namespace},
							"spec":     object{"holderIdentity": holder, "renewTime": at}}, nil,
						kube.WriteOptions{FieldManager: "test"}))
				}
				for key, holder := range test.held {
					renew(key, holder, "2026-01-02T03:04:05.000000Z")
				}
				var out bytes.Buffer
				log := must((&logFlags{format: "json"}).logger(&out))(t)
				var r rival
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					r.watch(ctx, client, programLease, "self", log)
				}()
				time.Sleep(time.Second)
				for key, holder := range test.held {
					if !test.dead {
						renew(key, holder, "2026-01-02T03:04:06.000000Z")
					}
				}
				time.Sleep(rivalLooks * rivalEvery)
				told := r.attention()
				if (len(told) == 1) != (test.want != "") || len(told) == 1 && (told[0].Reason != "AnotherSkiff" ||
					told[0].Quoted != test.want || strings.Contains(told[0].Hidden().Note(), test.want)) {
					t.Errorf("status says %+v, want %q", told, test.want)
				}
				time.Sleep(rivalAgain + rivalLooks*rivalEvery) // nobody renews any more
				if told := r.attention(); len(told) != 0 {
					t.Errorf("status still says %+v, of a skiff that is gone", told)
				}
				if test.want == "" {
					<-ended
				}
				stop()
				<-ended
				lines := strings.Count(out.String(), `"WARN"`)
				if test.want == "" && lines != 0 || test.want != "" && (lines != 1 ||
					!strings.Contains(out.String(), test.want)) {
					t.Errorf("logged %q, want %q", out.String(), test.want)
				}
			})
		})
	}
}

// The first skiff holds the Lease, the second one works without an election: both write the same objects.
func TestTheStatusAndThePageOfTheSecondSkiffNameTheFirst(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	const anywhere = "127.0.0.1:0"
	first := program.Follow(t, "run", "--server", c.url(), "--leader-elect", "--leader-election-namespace", "default",
		"--health-probe-bind-address", anywhere)
	defer first.Stop()
	var holder leader.Holder
	first.Await("it holds the Lease", func() bool {
		if all := must(leader.Held(t.Context(), c.client, "default", programLease, 1))(t); len(all) > 0 {
			holder = all[0]
		}
		return holder.Identity != ""
	})
	token := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(token, []byte("hush\n"), 0o600))
	second := program.Follow(t, "run", "--server", c.url(), "--health-probe-bind-address", anywhere,
		"--debug-bind-address", anywhere, "--debug-token-file", token)
	defer second.Stop()
	probes := probesOf(second)
	var url string
	second.Await("the URL of the page", func() bool {
		if m := pageURL.FindStringSubmatch(second.Stderr.String()); m != nil {
			url = m[1]
		}
		return url != ""
	})
	var told []health.Problem
	second.Await("status has the Problem", func() bool {
		told = problemsAt(t, probes, "AnotherSkiff")
		return len(told) > 0
	})
	if len(told) != 1 || told[0].Quoted != holder.Identity {
		t.Errorf("status says %+v, want one of %q", told, holder.Identity)
	}
	if r := skiff(t, "status", "--health-probe-bind-address", probes); r.Code != ExitDiffer {
		t.Errorf("status of the second exits with %d: %s", r.Code, r.Stdout)
	}
	var s page.State
	_, body := browse(t, url+"state?format=json", "hush")
	noError(t, json.Unmarshal([]byte(body), &s))
	if len(s.Attention) != 1 || s.Attention[0].State != "process" ||
		!strings.Contains(s.Attention[0].Step, holder.Identity) {
		t.Errorf("the page says %s", body)
	}
	if told := problemsAt(t, probesOf(first), "AnotherSkiff"); len(told) > 0 {
		t.Errorf("the status of the one that leads says %+v", told)
	}
}

// problemsAt are the Problems with a reason in what the probes at an address answer.
func problemsAt(t *testing.T, address, reason string) (out []health.Problem) {
	t.Helper()
	r := skiff(t, "status", "-o", "json", "--health-probe-bind-address", address)
	var s status
	noError(t, json.Unmarshal([]byte(r.Stdout), &s))
	if s.Probes == nil {
		t.Fatalf("status has no probes: %s%s", r.Stdout, r.Stderr)
	}
	for _, check := range s.Probes.Checks {
		for _, problem := range check.Problems {
			if problem.Reason == reason {
				out = append(out, problem)
			}
		}
	}
	return out
}
