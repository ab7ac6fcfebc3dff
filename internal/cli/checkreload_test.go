package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"skiff/internal/cli/clitest"
	"skiff/internal/operators/reload"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var secretResource = kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}

// annotated is the metadata of an object with annotations.
func annotated(name string, annotations map[string]string) object {
	return object{"name": name, "annotations": annotations}
}

// reloads creates a workload whose container sees the ConfigMap app and the Secret tls.
func (c *cluster) reloads(r kube.Resource, namespace, name string, annotations, template map[string]string) {
	c.t.Helper()
	labels := object{"app": name}
	c.create(r, namespace, object{"metadata": annotated(name, annotations), "spec": object{
		"selector": object{"matchLabels": labels}, "serviceName": name, "template": object{
			"metadata": object{"labels": labels, "annotations": template}, "spec": object{"containers": []object{{
				"name": "main", "image": "web:1", "envFrom": []object{{"configMapRef": object{"name": "app"}},
					{"secretRef": object{"name": "tls"}}}}}}}}})
}

const canary = "no-value-of-a-secret"

// withReloads makes workloads with annotations of Reloader, and of skiff, in a cluster.
func withReloads(t *testing.T, c *cluster) {
	t.Helper()
	for _, namespace := range []string{"blog", "shop"} {
		c.create(namespaceResource, "", object{"metadata": object{"name": namespace}})
	}
	c.create(configMaps, "shop", object{"metadata": annotated("app", map[string]string{
		"reloader.stakater.com/ignore": "yes"}), "data": object{"k": canary}})
	c.create(secretResource, "shop", object{"metadata": annotated("tls", nil), "stringData": object{"k": canary}})
	c.reloads(reload.Kinds[0], "shop", "web", map[string]string{"reloader.stakater.com/auto": "true"}, nil)
	c.reloads(reload.Kinds[1], "shop", "db", map[string]string{"secret.reloader.stakater.com/reload": "tsl"}, nil)
	c.reloads(reload.Kinds[2], "blog", "agent", nil, map[string]string{"reloader.stakater.com/Auto": "true"})
	c.reloads(reload.Kinds[0], "blog", "own", map[string]string{"skiff.dev/reload": "auto"}, nil)
}

func TestCheckListsForWhatWorkloadsRestart(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	withReloads(t, c)
	r := skiff(t, "check", "--reloader-annotations", "--server", c.url())
	r.Want(t, ExitDiffer)
	_, listed, _ := strings.Cut(r.Stdout, "granted\n")
	if want := `  reload      3 of 4 workloads restart when ConfigMaps or Secrets change
! reload      3 annotations or entries of them do not count as they are
  reload      in namespace blog:
!               daemonset/agent
!                 reloader.stakater.com/Auto of the pod template: no annotation of Reloader; did you mean reloader.stakater.com/auto?
                deployment/own: configmap/app (missing), secret/tls (missing), by skiff.dev/reload
  reload      in namespace shop:
                deployment/web: configmap/app, secret/tls, by reloader.stakater.com/auto
!               statefulset/db: secret/tsl (missing), by secret.reloader.stakater.com/reload
!                 secret.reloader.stakater.com/reload: there is no secret "tsl"; did you mean tls?
!               configmap/app
!                 reloader.stakater.com/ignore: "yes" counts as false; did you mean true?
`; listed != want {
		t.Errorf("got\n%s\nwant\n%s", listed, want)
	}
	if strings.Contains(r.Stdout, "webservers.skiff.dev") {
		t.Errorf("the definitions of other controllers are checked: %s", r.Stdout)
	}
	var report struct {
		OK     bool
		Reload reload.Survey
	}
	r = skiff(t, "check", "--reloader-annotations", "-o", "json", "--server", c.url())
	r.Want(t, ExitDiffer)
	noError(t, json.Unmarshal([]byte(r.Stdout), &report))
	if s := report.Reload; report.OK || !s.Reloader || s.Wrong != 3 || s.Restarts != 3 || len(s.Workloads) != 4 ||
		len(s.Sources) != 1 || len(s.NotRead) > 0 || s.Workloads[3].Findings[0].Reason != "NoSource" {
		t.Errorf("as JSON: %s", r.Stdout)
	}
	if r := skiff(t, "check", "--reloader-annotations", "-o", "yaml", "--server", c.url()); r.Code != ExitDone ||
		r.Stdout != "" {
		t.Errorf("the missing rights: %+v", r)
	}
	r = skiff(t, "check", "--controllers", "restart", "--reloader-annotations", "--server", c.url())
	if r.Code != ExitDiffer || !strings.Contains(r.Stdout, "restarttriggers.skiff.dev: not installed") ||
		!strings.Contains(r.Stdout, " of 4 workloads ") {
		t.Errorf("beside other controllers: %+v", r)
	}
}

func TestCheckListsSkiffsOwnAnnotationsWhereReloadIsChecked(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	withReloads(t, c)
	check := func(args ...string) (listed string, code int) {
		r := skiff(t, append([]string{"check", "--controllers", "reload", "--server", c.url()}, args...)...)
		_, listed, _ = strings.Cut(r.Stdout, "granted\n")
		return listed, r.Code
	}
	if got, code := check(); code != ExitDone || got != `  reload      1 of 4 workloads restart when ConfigMaps or Secrets change
  reload      in namespace blog:
                deployment/own: configmap/app (missing), secret/tls (missing), by skiff.dev/reload
nothing is missing
` {
		t.Errorf("exit code %d, got\n%s", code, got)
	}
	if got, code := check("--watch-namespaces", "shop"); code != ExitDone || !strings.Contains(got,
		"0 of 2 workloads") {
		t.Errorf("in a namespace: exit code %d, got\n%s", code, got)
	}
	c.patch(namespaceResource, "", "blog", object{"metadata": object{"labels": object{"team": "b"}}})
	if got, code := check("--watch-namespace-selector", "team=b"); code != ExitDone || !strings.Contains(got,
		"1 of 2 workloads") {
		t.Errorf("in selected namespaces: exit code %d, got\n%s", code, got)
	}
	if got, code := check("--watch-namespace-selector", "team=c"); code != ExitDiffer || strings.Contains(got,
		"workloads") {
		t.Errorf("in no namespace: exit code %d, got\n%s", code, got)
	}
}

func TestCheckSaysWhatTheUserMayNotList(t *testing.T) {
	c := guarded(t)
	withReloads(t, c)
	c.grant(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: some}, rules: [
  {apiGroups: [apps], resources: [deployments, statefulsets], verbs: [list]},
  {apiGroups: [""], resources: [configmaps], verbs: [list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: some},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: some}, subjects: [{kind: User, name: weak}]}
`)
	r := skiff(t, c.asAdministrator("check", "--reloader-annotations", "--as", "weak")...)
	r.Want(t, ExitDiffer)
	for _, want := range []string{"  reload      3 of 3 workloads that could be read restart",
		"! reload      secrets in all namespaces: this user may not list them\n",
		"! reload      daemonsets.apps in all namespaces: this user may not list them\n",
		"                statefulset/db: secret/tsl, by secret.reloader.stakater.com/reload\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.Stdout)
		}
	}
}

// recorded is a proxy in front of a cluster that keeps the answers about a path.
func recorded(t *testing.T, c *cluster, path string) (address string, answers func() string) {
	t.Helper()
	var mu sync.Mutex
	var all bytes.Buffer
	proxy := httputil.NewSingleHostReverseProxy(must(url.Parse(c.url()))(t))
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, path) {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		defer mu.Unlock()
		all.Write(body)
		return err
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

func TestCheckReadsNoValueOfASecret(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	withReloads(t, c)
	for _, path := range []string{"/secrets", "/configmaps"} {
		address, answers := recorded(t, c, path)
		skiff(t, "check", "--reloader-annotations", "--server", address).Want(t, ExitDiffer)
		if got := answers(); !strings.Contains(got, `"name":"`) || strings.Contains(got, canary) ||
			strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(canary))) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// More than a page of each, and more than is printed.
func TestCheckBoundsTheWorkloadsOfItsText(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	const n = maxSurveyLines + 20
	for i := range n {
		c.reloads(reload.Kinds[0], "default", fmt.Sprintf("w%03d", i),
			map[string]string{"skiff.dev/reload": "auto"}, nil)
	}
	r := skiff(t, "check", "--controllers", "reload", "--server", c.url())
	r.Want(t, ExitDone)
	if got := strings.Count(r.Stdout, "deployment/w"); got != maxSurveyLines || !strings.Contains(r.Stdout,
		"  reload      and 20 more, of which -o json has 20\n") {
		t.Errorf("%d workloads are in\n%.3000s", got, r.Stdout)
	}
}

// In a large cluster the wrong ones are seen, wherever they are.
func TestASurveyOfMoreThanIsPrintedBeginsWithTheWrongOnes(t *testing.T) {
	s := &reload.Survey{Workloads: make([]reload.Surveyed, maxSurveyLines+20), NotRead: nil}
	for i := range s.Workloads {
		s.Workloads[i] = reload.Surveyed{Namespace: fmt.Sprintf("n%03d", i), Kind: "Deployment", Name: "web"}
	}
	last := &s.Workloads[len(s.Workloads)-1]
	last.Add(reload.Finding{Wrong: true, Text: "is wrong"})
	text := surveyText(s)
	if i, j := strings.Index(text, "in namespace "+last.Namespace), strings.Index(text, "in namespace n000"); i < 0 ||
		i > j || !strings.Contains(text, "is wrong") {
		t.Errorf("the wrong one is not in front in\n%.500s", text)
	}
}

// The advice grants the missing rule alone: not all Secrets of the namespace for one that is named.
func TestReloadNamesTheMissingRuleAlone(t *testing.T) {
	c, running := guarded(t), map[*clitest.Follower]string{}
	for flags, want := range map[string]string{
		"reload --target deploy/web --secret tls:tls.crt": `{apiGroups: [''], resources: [secrets], ` +
			`resourceNames: [tls], verbs: [list, watch]}, {apiGroups: [apps], resources: [deployments], ` +
			`resourceNames: [web], verbs: [list, watch, patch]}`,
		"reload --target deploy/web,deploy/front --configmap a": `{apiGroups: [''], resources: [configmaps], ` +
			`resourceNames: [a], verbs: [list, watch]}, {apiGroups: [apps], resources: [deployments], ` +
			`verbs: [list, watch, patch]}`,
		"restart -l app=redis --target deploy/web": `{apiGroups: [''], resources: [pods], verbs: [list, watch]}`,
	} {
		f := program.Follow(t, c.asAdministrator(append(strings.Fields(flags), "-n", "shop", "--as", "weak")...)...)
		running[f] = "an administrator adds to a Role of weak in namespace shop: " + want
	}
	for f, want := range running {
		f.Await(want, func() bool { return strings.Contains(f.Stderr.String(), want) })
		if strings.Contains(f.Stderr.String(), "kubectl apply") {
			t.Error(f.Stderr)
		}
		f.Stop()
	}
}
