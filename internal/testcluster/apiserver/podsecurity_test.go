package apiserver

import (
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
)

const enforced = "/api/v1/namespaces/safe/pods"

func securePod(name, container string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"i"` + container + `}]}}`
}

const privilegedContainer = `,"securityContext":{"privileged":true}`

func TestTheServerCanDoWithoutPodSecurityAndDefaultStorageClass(t *testing.T) {
	withServer(t, Options{WithoutPlugins: OptionalPlugins}, func(w *testServer) {
		w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"safe","labels":{
			"pod-security.kubernetes.io/enforce":"baseline"}}}`)
		w.must(201, "POST", enforced, securePod("bad", privilegedContainer))
		w.must(201, "POST", "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"a","annotations":{
			"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"a.b/c"}`)
		a := w.must(201, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"a"},"spec":{
			"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
		if class := a.at("spec.storageClassName"); class != nil {
			t.Errorf("the claim has class %v", class)
		}
	})
}

// withSafe has a namespace with labels, each as name=value without the prefix that they share.
func withSafe(t *testing.T, f func(w *testServer), labels ...string) {
	t.Helper()
	for i, label := range labels {
		name, value, _ := strings.Cut(label, "=")
		labels[i] = `"pod-security.kubernetes.io/` + name + `":"` + value + `"`
	}
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"safe","labels":{`+strings.Join(labels, ",")+`}}}`)
		f(w)
	})
}

// warned returns the texts of the Warning headers of an answer.
func warned(a response) string { return strings.Join(a.header["Warning"], "\n") }

// That each rule says what Kubernetes' own says is held by internal/tools/e2e.
func TestPodsThatANamespaceDoesNotAllowAreRefused(t *testing.T) {
	withSafe(t, func(w *testServer) {
		a := w.must(403, "POST", enforced, securePod("bad", privilegedContainer))
		if want := `pods "bad" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must ` +
			`not set securityContext.privileged=true)`; a.at("message") != want || a.at("reason") != "Forbidden" {
			t.Errorf("%s, want %s", a.raw, want)
		}
		if a := w.must(201, "POST", enforced, securePod("good", "")); warned(a) != "" {
			t.Errorf("warning %q", warned(a))
		}
		w.must(201, "POST", pods, securePod("bad", privilegedContainer)) // of another namespace
		a = w.must(201, "POST", "/apis/apps/v1/namespaces/safe/deployments", `{"metadata":{"name":"d"},"spec":{"selector":{
			"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"hostNetwork":true,"containers":[
			{"name":"c","image":"i"}]}}}}`)
		if want := `would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)`; !strings.Contains(
			warned(a), want) {
			t.Errorf("warning %q, want %s", warned(a), want)
		}
	}, "enforce=baseline")
}

func TestTheStandardOfANamespaceMayBeAnOlderOneOrOnlyWarn(t *testing.T) {
	withSafe(t, func(w *testServer) {
		a := w.must(201, "POST", enforced, securePod("a", privilegedContainer))
		if want := `would violate PodSecurity \"restricted:v1.7\": privileged (`; !strings.Contains(warned(a), want) ||
			strings.Contains(warned(a), "allowPrivilegeEscalation") {
			t.Errorf("warning %q, want %s", warned(a), want)
		}
		a = w.must(200, "PATCH", enforced+"/a", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type",
			string(kube.MergePatch))
		if warned(a) != "" {
			t.Errorf("a warning about a change that has nothing to do with it: %q", warned(a))
		}
		a = w.must(200, "PATCH", enforced+"/a", `{"spec":{"containers":[{"name":"c","image":"j"}]}}`, "Content-Type",
			string(kube.StrategicMergePatch))
		if !strings.Contains(warned(a), "privileged") {
			t.Errorf("no warning about another image: %q", warned(a))
		}
	}, "warn=restricted", "warn-version=v1.7")
}

func TestLabelsOfNamespacesAreStandardsAndTellOfPodsThatAreThere(t *testing.T) {
	withSafe(t, func(w *testServer) {
		w.must(201, "POST", enforced, securePod("a", privilegedContainer))
		w.must(201, "POST", enforced, securePod("b", privilegedContainer))
		label := func(code int, value string) response {
			return w.must(code, "PATCH", "/api/v1/namespaces/safe", `{"metadata":{"labels":{
				"pod-security.kubernetes.io/enforce":`+value+`}}}`, "Content-Type", string(kube.MergePatch))
		}
		if a := label(422, `"odd"`); a.at("message") != `Namespace "safe" is invalid: metadata.labels[pod-security.`+
			`kubernetes.io/enforce]: Invalid value: "odd": must be one of privileged, baseline, restricted` {
			t.Error(a.raw)
		}
		w.must(422, "POST", "/api/v1/namespaces", `{"metadata":{"name":"x","labels":{
			"pod-security.kubernetes.io/warn-version":"1.25"}}}`)
		a := label(200, `"baseline"`)
		for _, want := range []string{`existing pods in namespace \"safe\" violate the new PodSecurity enforce level ` +
			`\"baseline:latest\"`, "a (and 1 other pod): privileged"} {
			if !strings.Contains(warned(a), want) {
				t.Errorf("warning %q, want %s", warned(a), want)
			}
		}
		if a := label(200, `"privileged"`); warned(a) != "" {
			t.Errorf("warning %q where all is allowed again", warned(a))
		}
	})
}
