package operator

import (
	"strings"
	"testing"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/podpolicy"
)

func TestThePodTemplatesOfAllKindsOfChildrenAreChecked(t *testing.T) {
	const pod = `{"containers":[{"name":"c","securityContext":{"privileged":PRIVILEGED}}]}`
	for name, text := range map[string]string{
		"Pod":         `{"kind":"Pod","spec":` + pod + `}`,
		"Deployment":  `{"kind":"Deployment","spec":{"template":{"spec":` + pod + `}}}`,
		"StatefulSet": `{"kind":"StatefulSet","spec":{"template":{"spec":` + pod + `}}}`,
		"CronJob":     `{"kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":` + pod + `}}}}}`,
	} {
		for _, privileged := range []string{"true", "false"} {
			body, err := patch.Decode([]byte(strings.ReplaceAll(text, "PRIVILEGED", privileged)))
			if err != nil {
				t.Fatal(err)
			}
			children := []apply.Child{{Body: map[string]any{"kind": "Service", "spec": map[string]any{}}},
				{Body: body.(map[string]any)}}
			err = checkTemplates(podpolicy.Baseline, children)
			if refused := err != nil; refused != (privileged == "true") {
				t.Errorf("%s with privileged %s: %v", name, privileged, err)
			}
			if err := checkTemplates(podpolicy.Any, children); err != nil {
				t.Errorf("%s with --template-policy=any: %v", name, err)
			}
		}
	}
}
