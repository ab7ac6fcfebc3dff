package cli

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
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
				ended := make(chan struct{})
				started := time.Now()
				go func() {
					defer close(ended)
					warnOfRival(t.Context(), client, programLease, "self", log)
				}()
				time.Sleep(time.Second)
				for key, holder := range test.held {
					if !test.dead {
						renew(key, holder, "2026-01-02T03:04:06.000000Z")
					}
				}
				<-ended
				if took := time.Since(started); took > time.Minute {
					t.Errorf("it took %s", took)
				}
				lines := strings.Count(out.String(), "\n")
				if test.want == "" && lines != 0 || test.want != "" && (lines != 1 ||
					!strings.Contains(out.String(), test.want) || !strings.Contains(out.String(), `"WARN"`)) {
					t.Errorf("logged %q, want %q", out.String(), test.want)
				}
			})
		})
	}
}
