package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"skiff/internal/operators/redis"
	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/podpolicy"
)

// inForce applies the admission policies that skiff prints for the namespace, and waits until the server obeys them.
func (s *Scope) inForce(t *testing.T, policy podpolicy.Policy) {
	t.Helper()
	t.Cleanup(func() {
		for _, kind := range []string{"validatingadmissionpolicybinding", "validatingadmissionpolicy"} {
			for _, name := range []string{"templates", "sizes", "adopt"} {
				s.kubectl.Must(t, "", "delete", kind, "skiff-"+name+"-"+s.NS)
			}
		}
	})
	s.Apply(manifests(t, s, "--policies", "--namespaced", s.NS, "--", "--template-policy", policy.String()))
	for name, body := range map[string]string{
		"templates": `{"spec":{"image":"i","template":{"spec":{"hostNetwork":true}}}}`,
		"sizes": `{"spec":{"image":"i","env":[` + manyVariables(1001) + `],"template":{"spec":{"containers":[{
			"name":"webserver","securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"},
			"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}`,
	} {
		Eventually(t, limit, "the policy about "+name+" is in force", func() (bool, string) {
			err := s.tryWebServer(t, body)
			return err != nil && strings.Contains(err.Error(), "'skiff-"+name+"-"), fmt.Sprint(err)
		})
	}
}

func manyVariables(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"E%d","value":"v"}`, i)
	}
	return strings.Join(list, ",")
}

// tryWebServer has the server say whether it would take a WebServer.
func (s *Scope) tryWebServer(t *testing.T, body string) error {
	t.Helper()
	var object Object
	noError(t, json.Unmarshal([]byte(body), &object))
	object["apiVersion"], object["kind"] = "skiff.dev/v1alpha1", "WebServer"
	object["metadata"] = map[string]any{"name": "tried"}
	path := "/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/webservers?dryRun=All"
	_, err := s.c.Admin.Create(t.Context(), path, object)
	return err
}

// What a policy about templates refuses is what skiff refuses, but for values of a type that no pod has there, which
// only skiff sees. The first container of each example is made that of skiff, so that restricted has no other to
// complain about.
func TestTheTemplatePolicyRefusesWhatSkiffRefuses(t *testing.T) {
	examples := templateExamples(t)
	for _, policy := range []podpolicy.Policy{podpolicy.Baseline, podpolicy.Restricted} {
		s := newScope(t)
		s.inForce(t, policy)
		for _, e := range examples {
			overlay := strings.Replace(string(e.Template), `"containers": [{"name": "c"`,
				`"containers": [{"name": "webserver"`, 1)
			v := must(patch.Decode([]byte(overlay)))(t)
			found := policy.Check("spec.template.", v.(map[string]any))
			err := s.tryWebServer(t, `{"spec":{"image":"i","template":`+overlay+`}}`)
			byPolicy := IsCode(err, http.StatusForbidden) &&
				strings.Contains(err.Error(), "'skiff-templates-"+s.NS+"' denied request: spec.template")
			if err != nil && !byPolicy {
				t.Errorf("%s: the server says %v", e.Name, err)
			}
			if refused := err != nil; refused != (len(found) > 0) && (refused || !e.Invalid) {
				t.Errorf("%s with %s: skiff says %q, the server says %v", e.Name, policy, found, err)
			}
		}
	}
}

// What differs from what skiff prints is named, with and without the need for it.
func TestCheckSeesWhichAdmissionPoliciesAreInForce(t *testing.T) {
	s := newScope(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	check := func(code int, want string, args ...string) {
		t.Helper()
		r := runSkiff(t, s, append([]string{"check", "--kubeconfig", kubeconfig, "--watch-namespaces", s.NS},
			args...)...)
		if r.Code != code || !strings.Contains(r.Stdout, want) {
			t.Errorf("skiff check %q: want exit code %d and %q: %v", args, code, want, r)
		}
	}
	const optional = "policy      skiff-adopt: not installed, optional: " +
		"`skiff manifests --policies | kubectl apply -f -`\n"
	check(0, "  "+optional)
	check(3, "! "+optional, "--policies")
	s.inForce(t, podpolicy.Restricted)
	check(0, "  policy      skiff-templates-"+s.NS+": installed, the same as in this skiff, with "+
		"--template-policy=restricted\n", "--policies")
	s.Kubectl("patch", "validatingadmissionpolicybinding", "skiff-sizes-"+s.NS, "--type=merge", "-p",
		`{"spec":{"validationActions":["Warn"]}}`)
	check(3, "! policy      skiff-sizes-"+s.NS+": not bound, no binding of it denies", "--policies")
	s.Kubectl("patch", "validatingadmissionpolicy", "skiff-adopt-"+s.NS, "--type=merge", "-p",
		`{"spec":{"matchConditions":[{"name":"set","expression":"false"}]}}`)
	check(0, "  policy      skiff-adopt-"+s.NS+": differs, from that of this skiff")
}

// Both kinds, each policy with an object that is taken and one that is not: by an administrator, and by a user who may
// write custom resources, and pods but for deleting them.
func TestAdmissionPoliciesRefuseInWords(t *testing.T) {
	s := newScope(t)
	s.inForce(t, podpolicy.Baseline)
	user := s.NS
	pods := kube.Resource{Version: "v1", Plural: "pods"}
	rights := []kube.Right{{Resource: webserver.Rights[0].Resource, Verbs: []string{"get", "create", "patch"}},
		{Resource: redis.Rights[0].Resource, Verbs: []string{"get", "create", "patch"}},
		{Resource: pods, Verbs: []string{"create", "patch"}}}
	s.Apply(grant("Role", "tenant", user, rights))
	const adopting = "metadata: {name: %s, annotations: {skiff.dev/adopt: \"true\"}}"
	const plain = "metadata: {name: %s}"
	const object = "apiVersion: skiff.dev/v1alpha1\nkind: "
	for _, kind := range []string{"WebServer\nspec: {image: i", "Redis\nspec: {port: 6379, num: 0"} {
		try := func(as, meta, spec string) Result {
			t.Helper()
			manifest := fmt.Sprintf(object+kind+"%s}\n"+meta+"\n", spec, "x")
			group := map[string]string{user: "system:authenticated", admin.Name: admin.Groups}[as]
			r := must(s.kubectl.Run(t.Context(), manifest, "-n", s.NS, "--as", as, "--as-group", group, "apply",
				"--dry-run=server", "-f", "-"))(t)
			return r
		}
		for _, c := range []struct{ as, meta, spec, want string }{
			{user, plain, ", template: {spec: {hostUsers: false, volumes: [{name: v, emptyDir: {}}]}}", ""},
			{user, plain, ", template: {spec: {initContainers: [{name: i, securityContext: {privileged: true}}]}}",
				"spec.template.spec, container i: securityContext.privileged must be false; correct it, or ask the " +
					"operator of skiff, which runs with --template-policy=baseline"},
			{user, plain, ", template: {spec: {tolerations: [" + strings.Repeat("{key: k}, ", 200) + "]}}", ""},
			{user, plain, ", template: {spec: {tolerations: [" + strings.Repeat("{key: k}, ", 201) + "]}}",
				"spec.template.spec.tolerations must have at most 200 items; remove what is not needed, or keep " +
					"it in a ConfigMap that the pods mount"},
			{user, adopting, "", "metadata.annotations: skiff.dev/adopt has skiff take over objects that others " +
				"made; user " + user + " may not delete pods in this namespace; remove it, or have it set by a " +
				"user who may"},
			{admin.Name, adopting, "", ""},
		} {
			if r := try(c.as, c.meta, c.spec); (r.Code == 0) != (c.want == "") || !strings.Contains(r.Stderr, c.want) {
				t.Errorf("%s%.100s by %s: want %q: %v", kind, c.spec, c.as, c.want, r)
			}
		}
	}
	s.Apply(grant("Role", "tenant", user, append(rights, kube.Right{Resource: pods, Verbs: []string{"delete"}})))
	Eventually(t, limit, "a user who may write pods sets the annotation", func() (bool, string) {
		manifest := object + "WebServer\nspec: {image: i}\n" + fmt.Sprintf(adopting, "adopts")
		r, err := s.kubectl.Run(t.Context(), manifest, "-n", s.NS, "--as", user, "--as-group=system:authenticated",
			"apply", "-f", "-")
		return err == nil && r.Code == 0, fmt.Sprint(err, r)
	})
}
