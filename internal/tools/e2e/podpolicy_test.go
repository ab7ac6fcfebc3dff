package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/podpolicy"
)

// templateExample is a pod template with something that a policy may refuse.
type templateExample struct {
	Name     string
	Invalid  bool // no pod at all
	Template json.RawMessage
}

// templateExamples are those of the unit tests of package podpolicy.
func templateExamples(t *testing.T) []templateExample {
	t.Helper()
	text := must(os.ReadFile(filepath.Join(repository, "internal/runtime/podpolicy/testdata/templates.json")))(t)
	var examples []templateExample
	noError(t, json.Unmarshal(text, &examples))
	return examples
}

// What --template-policy refuses is what a namespace that enforces the Pod Security Standard of that name refuses of a
// pod. What the server does not take for a pod at all has to be refused, too.
func TestTemplatePoliciesAreThePodSecurityStandards(t *testing.T) {
	examples := templateExamples(t)
	for _, policy := range []podpolicy.Policy{podpolicy.Baseline, podpolicy.Restricted} {
		s := newScope(t)
		s.Kubectl("label", "namespace", s.NS, "pod-security.kubernetes.io/enforce="+policy.String())
		s.Kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
		pods := "/api/v1/namespaces/" + s.NS + "/pods?dryRun=All&fieldValidation=Strict"
		for _, e := range examples {
			v := must(patch.Decode(e.Template))(t)
			pod := Object(v.(map[string]any))
			found := policy.Check("", pod)
			meta, _ := pod["metadata"].(map[string]any)
			if meta == nil {
				meta = map[string]any{}
			}
			meta["name"] = "p"
			pod["apiVersion"], pod["kind"], pod["metadata"] = "v1", "Pod", meta
			_, err := s.c.Admin.Create(t.Context(), pods, pod)
			byPolicy := IsCode(err, http.StatusForbidden) && strings.Contains(err.Error(), "violates PodSecurity")
			invalid := IsCode(err, http.StatusUnprocessableEntity) || IsCode(err, http.StatusBadRequest)
			if err != nil && !byPolicy && !invalid || invalid != e.Invalid {
				t.Errorf("%s: the server says %v", e.Name, err)
			}
			if refused := err != nil; refused != (len(found) > 0) {
				t.Errorf("%s with %s: skiff says %q, the server says %v", e.Name, policy, found, err)
			}
		}
	}
}
