package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// reloaderSources are the sources of the workloads of reloaderWorkloads.
const reloaderSources = `apiVersion: v1
kind: ConfigMap
metadata: {name: plain}
data: {key: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: special, annotations: {reloader.stakater.com/match: "true"}}
data: {key: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: skipped, annotations: {reloader.stakater.com/ignore: "true"}}
data: {key: one}
---
apiVersion: v1
kind: Secret
metadata: {name: cred}
stringData: {key: one}
`

// reloaderWorkload is a workload with annotations of Reloader, as its users write them.
type reloaderWorkload struct {
	kind, annotations, template string // annotations of the workload and of its pod template, in YAML
	refers                      string // to sources: "configMap/plain secret/cred"
	restarts                    string // the sources whose changes restart the workload
}

// reloaderWorkloads have each annotation that Reloader documents.
var reloaderWorkloads = map[string]reloaderWorkload{
	"auto":     {"Deployment", `reloader.stakater.com/auto: "true"`, "", "configMap/plain", "plain"},
	"vault":    {"Deployment", `reloader.stakater.com/auto: "true"`, "", "secret/cred", "cred"},
	"store":    {"StatefulSet", `reloader.stakater.com/auto: "true"`, "", "configMap/plain", "plain"},
	"agent":    {"DaemonSet", "", `reloader.stakater.com/auto: "true"`, "configMap/plain", "plain"},
	"typed":    {"Deployment", `secret.reloader.stakater.com/auto: "true"`, "", "configMap/plain secret/cred", "cred"},
	"listed":   {"Deployment", `configmap.reloader.stakater.com/reload: "other,pla.*"`, "", "", "plain"},
	"secrets":  {"Deployment", `secret.reloader.stakater.com/reload: cred`, "", "configMap/plain", "cred"},
	"search":   {"Deployment", `reloader.stakater.com/search: "true"`, "", "configMap/plain configMap/special", "special"},
	"ignored":  {"Deployment", `reloader.stakater.com/auto: "true"`, "", "configMap/skipped", ""},
	"excluded": {"Deployment", `reloader.stakater.com/auto: "true", configmaps.exclude.reloader.stakater.com/reload: plain`, "", "configMap/plain secret/cred", "cred"},
	"disabled": {"Deployment", `reloader.stakater.com/auto: "false"`, "", "configMap/plain", ""},
	"bare":     {"Deployment", "", "", "configMap/plain secret/cred", ""},
}

func (w reloaderWorkload) plural() string { return strings.ToLower(w.kind) + "s" }

func (w reloaderWorkload) manifest(name string) string {
	var from []string
	for one := range strings.FieldsSeq(w.refers) {
		kind, source, _ := strings.Cut(one, "/")
		from = append(from, fmt.Sprintf("{%sRef: {name: %s}}", kind, source))
	}
	replicas := "replicas: 1, "
	if w.kind == "DaemonSet" {
		replicas = ""
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s, annotations: {%s}}
spec: {%sselector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}, annotations: {%[5]s}},
  spec: {containers: [{name: main, image: x, envFrom: [%[6]s]}]}}}
`, w.kind, name, w.annotations, replicas, w.template, strings.Join(from, ", "))
}

// templates returns the pod templates of reloaderWorkloads.
func (s *Scope) templates() map[string]string {
	s.Helper()
	out := map[string]string{}
	for name, w := range reloaderWorkloads {
		out[name] = fmt.Sprint(s.workload(w.plural(), name).At("spec", "template"))
	}
	return out
}

// rolledOut waits until all have.
func (s *Scope) rolledOut() {
	s.Helper()
	for name, w := range reloaderWorkloads {
		s.Kubectl("rollout", "status", w.plural()+"/"+name, "--timeout=4m")
	}
}

// wantChanged waits until the workloads that depend on a source, and no others, have another template than before.
func (s *Scope) wantChanged(source string, before map[string]string) {
	s.Helper()
	want := map[string]bool{}
	for name, w := range reloaderWorkloads {
		if slices.Contains(strings.Fields(w.restarts), source) {
			want[name] = true
		}
	}
	changed := func() map[string]bool {
		out := map[string]bool{}
		for name, template := range s.templates() {
			if template != before[name] {
				out[name] = true
			}
		}
		return out
	}
	Eventually(s, 4*limit, "those that depend on "+source+" are restarted", func() (bool, string) {
		return maps.Equal(changed(), want), fmt.Sprintf("%v, want %v", changed(), want)
	})
	s.rolledOut()
	Throughout(s, 3*time.Second, "no others are", func() (bool, string) {
		return maps.Equal(changed(), want), fmt.Sprintf("%v, want %v", changed(), want)
	})
}

// The workloads of a user of Reloader are restarted as before, with no edit: first by Reloader, where one is given
// (-reloader PATH), with skiff beside it, and then by skiff alone.
func TestReloadersUsersMoveWithoutAnEdit(t *testing.T) {
	s := newScope(t)
	s.Apply(reloaderSources)
	for name, w := range reloaderWorkloads {
		s.Apply(w.manifest(name))
	}
	s.rolledOut()
	flags := []string{"--controllers", "reload", "--reloader-annotations", "--watch-namespaces", s.NS,
		"--reload-debounce", "1s"}
	change := func(kind, name string, n int) {
		data := fmt.Sprintf(`{"data":{"key":"n%d"}}`, n)
		if kind == "secret" {
			data = fmt.Sprintf(`{"stringData":{"key":"n%d"}}`, n)
		}
		s.Kubectl("patch", kind, name, "-p", data)
	}
	if *reloaderFlag != "" {
		s.besideReloader(t, flags, change)
	}
	sk := startSkiffAs(t, s, admin, flags...)
	for name, w := range reloaderWorkloads {
		if w.restarts == "" {
			continue
		}
		Eventually(s, limit, "what "+name+" runs with is written down", func() (bool, string) {
			o := s.workload(w.plural(), name)
			return o.Str("metadata", "annotations", "skiff.dev/reloaded") != "", o.String()
		})
	}
	for _, source := range []string{"configmap/plain", "configmap/special", "configmap/skipped", "secret/cred"} {
		kind, name, _ := strings.Cut(source, "/")
		before := s.templates()
		change(kind, name, 2)
		s.wantChanged(name, before)
		s.waitMoment(time.Second) // times are whole seconds
	}
	noForbidden(s, sk.Log())
	noError(t, sk.Terminate())
}

// besideReloader has Reloader at work with skiff beside it: each change is one restart. Then Reloader goes.
func (s *Scope) besideReloader(t *testing.T, flags []string, change func(kind, name string, n int)) {
	s.Apply(`apiVersion: apps/v1
kind: Deployment
metadata: {name: reloader-reloader, labels: {helm.sh/chart: reloader-2.2.16}}
spec: {replicas: 1, selector: {matchLabels: {app: reloader}}, template: {metadata: {labels: {app: reloader}},
  spec: {containers: [{name: reloader, image: r.example/stakater/reloader:v1.4.21}]}}}
`)
	env := []string{"KUBECONFIG=" + must(s.c.Kubeconfig(admin))(t), "HOME=" + s.c.Dir, "KUBERNETES_NAMESPACE=" + s.NS}
	other := must(s.c.Start("reloader", env, *reloaderFlag))(t)
	Eventually(s, limit, "Reloader is alive", func() (bool, string) {
		resp, err := http.Get("http://127.0.0.1:9090/live")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK, other.Tail(20)
	})
	s.waitMoment(5 * time.Second) // it does not say when it has listed all
	sk := startSkiffAs(t, s, admin, flags...)
	before, first := s.templates(), s.revision("auto")
	change("configmap", "plain", 1)
	s.wantChanged("plain", before)
	Throughout(s, 40*time.Second, "skiff restarts none again", func() (bool, string) {
		n := s.revision("auto")
		return n == first+1, fmt.Sprint(n - first)
	})
	s.Kubectl("scale", "deployment/reloader-reloader", "--replicas=0")
	noError(t, sk.Terminate())
	if _, err := other.Stop(time.Minute); err != nil {
		t.Error(err)
	}
}
