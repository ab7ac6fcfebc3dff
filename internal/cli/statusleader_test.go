package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/testcluster/apiserver"
)

var leases = kube.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"}

// serverWithPods is the API server of a cluster, and passes on what is asked of port 8081 of a pod to its handler.
func serverWithPods(t *testing.T, c *cluster, pods map[string]http.Handler) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for key, pod := range pods {
			namespace, name, _ := strings.Cut(key, "/")
			start := "/api/v1/namespaces/" + namespace + "/pods/" + name + ":8081/proxy"
			if strings.HasPrefix(r.URL.Path, start+"/") {
				http.StripPrefix(start, pod).ServeHTTP(w, r)
				return
			}
		}
		c.api.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// says answers all that is asked.
func says(code int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
}

// hold makes a Lease that somebody holds.
func (c *cluster) hold(key, identity string) {
	namespace, name, _ := strings.Cut(key, "/")
	c.create(leases, namespace, object{"metadata": object{"name": name}, "spec": object{"holderIdentity": identity,
		"leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000000Z"}})
}

func TestStatusFindsTheSkiffThatLeadsByItsLease(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	f := program.Follow(t, "run", "--server", c.url(), "--controllers", "webserver", "--leader-elect",
		"--leader-election-namespace", "default", "--health-probe-bind-address", "127.0.0.1:0")
	defer f.Stop()
	probes := must(url.Parse("http://" + probesOf(f)))(t)
	var holder leader.Holder
	f.Await("it holds the Lease", func() bool {
		all := must(leader.Held(t.Context(), c.client, "default", "skiff", 1))(t)
		if len(all) > 0 {
			holder = all[0]
		}
		return holder.Identity != ""
	})
	server := serverWithPods(t, c, map[string]http.Handler{
		"default/" + holder.Host(): httputil.NewSingleHostReverseProxy(probes)})
	f.Await("status finds it", func() bool {
		return strings.HasPrefix(skiff(t, "status", "--server", server).Stdout, "skiff at pod default/"+holder.Host()+
			" is ready; all is well\n[+]leader ok\n    holds Lease default/skiff\n[+]shutdown ok\n")
	})
}

// reportOf is the answer of a skiff with some checks.
func reportOf(checks ...health.Check) string {
	passed := !slices.ContainsFunc(checks, func(c health.Check) bool { return len(c.Failed) > 0 })
	text, err := json.Marshal(health.Report{Format: health.Format, Passed: passed, Checks: checks})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestStatusOfSkiffsThatLead(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.create(namespaces, "", object{"metadata": object{"name": "shop"}})
	c.hold("default/skiff", "skiff-1_a")
	c.hold("shop/skiff-hooks", "hooks-1_b")
	fine := says(http.StatusOK, reportOf(health.Check{Name: "shutdown"}))
	wrong := health.Check{Name: "redis", Failed: []health.Problem{{Public: "x"}}}
	failing := says(http.StatusServiceUnavailable, reportOf(wrong))
	endless := says(http.StatusServiceUnavailable, reportOf(slices.Repeat([]health.Check{wrong}, 10_000)...))
	type pods = map[string]http.Handler
	const first, second = "default/skiff-1", "shop/hooks-1"
	for name, test := range map[string]struct {
		pods pods
		args []string
		code int
		want string // in what is printed
	}{
		"both are well": {pods{first: fine, second: fine}, nil, ExitDone,
			"skiff at pod default/skiff-1 is ready; all is well\n[+]leader ok\n    holds Lease default/skiff\n" +
				"[+]shutdown ok\n\nskiff at pod shop/hooks-1 is ready; all is well\n"},
		"one is not ready": {pods{first: fine, second: failing}, nil, ExitDiffer,
			"skiff at pod shop/hooks-1 is not ready; 1 line needs attention\n" +
				"[+]leader ok\n    holds Lease shop/skiff-hooks\n[-]redis failed: x\n"},
		"one of a namespace": {pods{first: failing, second: fine}, []string{"--leader-election-namespace", "shop"},
			ExitDone, "skiff at pod shop/hooks-1 is ready"},
		"one of a name": {pods{first: failing, second: fine}, []string{"--leader-election-id", "skiff-hooks"},
			ExitDone, "skiff at pod shop/hooks-1 is ready"},
		"one is gone": {pods{first: fine}, nil, ExitDiffer,
			"skiff at Lease shop/skiff-hooks is not ready; 1 line needs attention\n" +
				"[-]leader failed: ask pod shop/hooks-1, "},
		"both are gone": {nil, nil, ExitFailed, "is no pod of namespace shop"},
		"another program": {pods{first: says(http.StatusOK, "hello"), second: says(http.StatusTeapot, "x")}, nil,
			ExitFailed, "the answer is not that of skiff; its pod must serve the probes on port 8081"},
		"an answer without end": {pods{first: endless}, []string{"--leader-election-id", "skiff"}, ExitFailed,
			"its pod must serve the probes on port 8081"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"status", "--server", serverWithPods(t, c, test.pods)}, test.args...)
			r := skiff(t, args...)
			if r.Code != test.code || !strings.Contains(r.Stdout+r.Stderr, test.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", r.Code, test.code, test.want, r.Stdout, r.Stderr)
			}
		})
	}
}

// Anybody may write a Lease of this name, and run anything in its pod.
func TestStatusIsHeldUpByNoPod(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	fine := says(http.StatusOK, reportOf(health.Check{Name: "shutdown"}))
	for i, key := range []string{"default/skiff", "default/skiff-hooks", "kube-system/skiff", "kube-public/skiff"} {
		c.hold(key, fmt.Sprintf("pod-%d_a", i))
	}
	asked := make(chan struct{})
	server := serverWithPods(t, c, map[string]http.Handler{
		"default/pod-0": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-asked // the other one is asked meanwhile
			fine.ServeHTTP(w, r)
		}),
		"default/pod-1": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(asked)
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
		}),
		"kube-system/pod-2": says(http.StatusOK, reportOf()+strings.Repeat("\n", maxLeaderStatus)),
		"kube-public/pod-3": says(http.StatusOK, reportOf(make([]health.Check, maxStatusLines+1)...)),
	})
	r := skiff(t, "status", "--server", server)
	r.Want(t, ExitDiffer)
	for _, want := range []string{"skiff at pod default/pod-0 is ready; all is well\n",
		"skiff at Lease default/skiff-hooks is not ready;", "skiff at Lease kube-system/skiff is not ready;",
		"[-]status failed: the answer has more lines\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in %.2000s", want, r.Stdout)
		}
	}
}

func TestStatusAsksNotForTooManyLeases(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	for i := range maxLeaders + 1 {
		namespace := fmt.Sprint("n", i)
		c.create(namespaces, "", object{"metadata": object{"name": namespace}})
		c.hold(namespace+"/skiff", "a_b")
	}
	skiff(t, "status", "--server", c.url()).Want(t, ExitFailed,
		"more than 20 Leases have the name skiff: choose one with --leader-election-namespace\n")
}

func TestStatusSaysWhyItFindsNoSkiffThatLeads(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	find := func(want string) {
		t.Helper()
		skiff(t, "status", "--server", c.url()).Want(t, ExitFailed, want)
	}
	find("there is no Lease skiff or skiff-hooks in a namespace that this user may read")
	c.hold("default/skiff", "")
	find("nobody holds Lease default/skiff")
	c.patch(leases, "default", "skiff", object{"spec": object{"holderIdentity": "../../../secrets"}})
	find(`the holder of Lease default/skiff is "../../../secrets", which is no name of a pod`)
}

func TestStatusPrintsTheRightsThatItLacks(t *testing.T) {
	c := newCluster(t, apiserver.Options{RBAC: true, Token: "t"})
	r := skiff(t, "status", "--server", c.url(), "--insecure-loopback-http", "--token", "t", "--as", "ada")
	r.Want(t, ExitFailed, "an administrator grants it: kubectl create clusterrole skiff-status --verb=get,list "+
		"--resource=leases.coordination.k8s.io,pods/proxy && kubectl create clusterrolebinding skiff-status "+
		"--clusterrole=skiff-status --user=ada\n")
}

func TestStatusTakesAnAddressOrACluster(t *testing.T) {
	skiff(t, "status", "--context", "a", "--health-probe-bind-address", "127.0.0.1:1").Want(t, ExitUsage,
		"--health-probe-bind-address and a flag that chooses a cluster: give one of them")
}
