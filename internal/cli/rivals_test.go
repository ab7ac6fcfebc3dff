package cli

import (
	"bytes"
	"context"
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
