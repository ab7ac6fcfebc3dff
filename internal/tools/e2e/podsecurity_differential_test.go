package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podapi "k8s.io/pod-security-admission/api"
	podrules "k8s.io/pod-security-admission/policy"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/podsecurity"
)

// The embedded server says of a pod that a namespace does not allow what Kubernetes' own package says, for each level
// and each version of the rules: for the examples of package podpolicy, and for random pods.
func TestPodSecuritySaysWhatKubernetesOwnPackageSays(t *testing.T) {
	var templates []json.RawMessage
	for _, e := range templateExamples(t) {
		if !e.Invalid {
			templates = append(templates, e.Template)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		templates = append(templates, must(json.Marshal(randomTemplate(random)))(t))
	}
	kubernetes := must(podrules.NewEvaluator(podrules.DefaultChecks(), nil))(t)
	refused := 0
	for _, text := range templates {
		var typed corev1.PodTemplateSpec
		if json.Unmarshal(text, &typed) != nil {
			continue // no pod at all
		}
		typed.CreationTimestamp = metav1.Time{}
		decoded := must(patch.Decode(must(json.Marshal(typed))(t)))(t).(map[string]any) // as a server stores it
		for _, level := range []podapi.Level{podapi.LevelBaseline, podapi.LevelRestricted} {
			for _, version := range []int{0, 7, 8, 18, 19, 21, 22, 23, 24, 25, 26, 27, 29, 31, 32, 33, 34, 35, 36} {
				standard := podapi.LevelVersion{Level: level, Version: podapi.MajorMinorVersion(1, version)}
				found := kubernetes.EvaluatePod(standard, &typed.ObjectMeta, &typed.Spec)
				result := podrules.AggregateCheckResults(found)
				policy, _ := podsecurity.PolicyOf(map[string]any{"pod-security.kubernetes.io/enforce": string(level),
					"pod-security.kubernetes.io/enforce-version": fmt.Sprintf("v1.%d", version)})
				have := policy.Enforce.Check(decoded, 36)
				if have.Details() != result.ForbiddenDetail() || policy.Enforce.String() != standard.String() {
					t.Fatalf("%s of %s:\n%s: %s\nKubernetes says\n%s: %s", level, text, policy.Enforce, have.Details(),
						standard, result.ForbiddenDetail())
				}
				if !result.Allowed {
					refused++
				}
			}
		}
	}
	t.Logf("%d templates, refused %d times", len(templates), refused)
}

// randomTemplate has random values in the fields that the standards are about.
func randomTemplate(random *rand.Rand) map[string]any {
	pick := func(values ...any) any { return values[random.IntN(len(values))] }
	sparse := func(into map[string]any, name string, values ...any) {
		if random.IntN(4) == 0 {
			into[name] = pick(values...)
		}
	}
	profile := func() map[string]any {
		return map[string]any{"type": pick("RuntimeDefault", "Localhost", "Unconfined", "Odd")}
	}
	context := func(ofPod bool) map[string]any {
		c := map[string]any{}
		sparse(c, "runAsNonRoot", true, false)
		sparse(c, "runAsUser", 0, 1000)
		sparse(c, "seccompProfile", profile())
		sparse(c, "appArmorProfile", profile())
		sparse(c, "seLinuxOptions", map[string]any{"type": pick("", "container_t", "container_engine_t", "spc_t"),
			"user": pick("", "u"), "role": pick("", "r")})
		sparse(c, "windowsOptions", map[string]any{"hostProcess": pick(true, false)})
		if ofPod {
			sparse(c, "sysctls", []any{map[string]any{"name": pick("kernel.msgmax", "net.ipv4.tcp_rmem",
				"net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_fin_timeout", "kernel.shm_rmid_forced"),
				"value": "1"},
				map[string]any{"name": pick("a", "net.ipv4.tcp_syncookies"), "value": "1"}})
			return c
		}
		sparse(c, "privileged", true, false)
		sparse(c, "procMount", "Default", "Unmasked")
		if random.IntN(2) == 0 {
			c["allowPrivilegeEscalation"] = pick(false, false, true)
		}
		if random.IntN(2) == 0 {
			c["capabilities"] = map[string]any{"drop": pick([]any{"ALL"}, []any{}, []any{"KILL"}),
				"add": pick([]any{}, []any{"NET_BIND_SERVICE"}, []any{"SYS_ADMIN", "BPF"}, []any{"CHOWN"})}
		}
		return c
	}
	container := func(name string) any {
		c := map[string]any{"name": name, "image": "i"}
		if random.IntN(4) > 0 {
			c["securityContext"] = context(false)
		}
		host := func() any { return pick("", "10.0.0.1", "h") }
		sparse(c, "ports", []any{map[string]any{"containerPort": 80, "hostPort": pick(0, 80, 443)}})
		sparse(c, "livenessProbe", map[string]any{"httpGet": map[string]any{"port": 80, "host": host()}})
		sparse(c, "startupProbe", map[string]any{"tcpSocket": map[string]any{"port": 80, "host": host()}})
		sparse(c, "lifecycle", map[string]any{"preStop": map[string]any{"httpGet": map[string]any{"port": 80,
			"host": host()}}})
		return c
	}
	spec := map[string]any{"containers": []any{container("a"), container("b")}}
	sparse(spec, "initContainers", []any{container("init")})
	sparse(spec, "ephemeralContainers", []any{container("debug")})
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC", "hostUsers"} {
		sparse(spec, field, true, false)
	}
	sparse(spec, "os", map[string]any{"name": pick("linux", "windows")})
	sparse(spec, "volumes", []any{map[string]any{"name": "v", "hostPath": map[string]any{"path": "/"}},
		map[string]any{"name": "w", pick("nfs", "emptyDir", "iscsi", "portworxVolume").(string): map[string]any{}}})
	if random.IntN(3) > 0 {
		spec["securityContext"] = context(true)
	}
	annotations := map[string]any{}
	sparse(annotations, "container.apparmor.security.beta.kubernetes.io/a", "unconfined", "localhost/x", "")
	sparse(annotations, "container.seccomp.security.alpha.kubernetes.io/b", "unconfined", "docker/default")
	sparse(annotations, "seccomp.security.alpha.kubernetes.io/pod", "odd", "runtime/default")
	return map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
}

// The labels of a namespace mean the same.
func TestPodSecurityReadsLabelsAsKubernetesOwnPackage(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	usual := podapi.LevelVersion{Level: podapi.LevelPrivileged, Version: podapi.LatestVersion()}
	for range 5000 {
		texts, labels := map[string]string{}, map[string]any{}
		for _, mode := range []string{"enforce", "audit", "warn"} {
			for suffix, values := range map[string][]string{
				"":         {"privileged", "baseline", "restricted", "odd", "Baseline", "", "", ""},
				"-version": {"latest", "v1.0", "v1.25", "v1.99", "v1.05", "1.25", "v2.1", "", "", ""}} {
				if value := values[random.IntN(len(values))]; value != "" {
					key := "pod-security.kubernetes.io/" + mode + suffix
					texts[key], labels[key] = value, value
				}
			}
		}
		want, errs := podapi.PolicyToEvaluate(texts, podapi.Policy{Enforce: usual, Audit: usual, Warn: usual})
		have, causes := podsecurity.PolicyOf(labels)
		var said, told []string
		for _, err := range errs {
			said = append(said, err.Error())
		}
		for _, c := range causes {
			told = append(told, c.Field+": "+c.Message)
		}
		if fmt.Sprint(have.Enforce, have.Warn, have.Audit) != fmt.Sprint(want.Enforce, want.Warn, want.Audit) ||
			strings.Join(said, "\n") != strings.Join(told, "\n") {
			t.Fatalf("%v:\n%v %q\nKubernetes says\n%v %q", labels, have, told, want, said)
		}
	}
}
