package schema

import (
	"testing"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := patch.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func TestValuesOfTheWrongTypeAreNamedInGosWords(t *testing.T) {
	deployment := For("apps/v1", "Deployment")
	lease := object(t, `{"spec":{"renewTime":"2026-01-01T00:00:00Z"}}`)
	if got, want := For("coordination.k8s.io/v1", "Lease").TypeError(lease),
		`parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": `+
			`cannot parse "Z" as ".000000"`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for text, want := range map[string]string{
		`{"metadata":{"creationTimestamp":"yesterday"}}`: `parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": ` +
			`cannot parse "yesterday" as "2006"`,
		`{"spec":{"replicas":"three"}}`: "json: cannot unmarshal string into Go " +
			"struct field DeploymentSpec.spec.replicas of type int32",
		`{"spec":{"replicas":1.5}}`: "json: cannot unmarshal number 1.5 into Go " +
			"struct field DeploymentSpec.spec.replicas of type int32",
		`{"spec":{"replicas":3000000000}}`: "json: cannot unmarshal number 3000000000 " +
			"into Go struct field DeploymentSpec.spec.replicas of type int32",
		`{"spec":{"paused":"yes"}}`: "json: cannot unmarshal string into Go " +
			"struct field DeploymentSpec.spec.paused of type bool",
		`{"spec":{"template":{"spec":{"containers":{}}}}}`: "json: cannot unmarshal object into Go " +
			"struct field PodSpec.spec.template.spec.containers of type []v1.Container",
		`{"spec":{"template":{"spec":{"containers":[{"args":[1]}]}}}}`: "json: cannot unmarshal number into Go " +
			"struct field Container.spec.template.spec.containers.args of type string",
		`{"spec":{"template":{"metadata":{"labels":{"a":1}}}}}`: "json: cannot unmarshal number into Go struct " +
			"field ObjectMeta.spec.template.metadata.labels of type string",
		`{"spec":[]}`: "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
		`{"spec":{"replicas":null,"strategy":{"rollingUpdate":{"maxSurge":1}}}}`:                            "",
		`{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":1,"memory":"1Gi"}}}]}}}}`: "",
	} {
		if got := deployment.TypeError(object(t, text)); got != want {
			t.Errorf("%s: %s\nwant %s", text, got, want)
		}
	}
}

// Rules: FS-19
func TestAClosedNodeKnowsEachFieldAndKeepsWhatPatchKnows(t *testing.T) {
	n := For("apps/v1", "Deployment").Node()
	spec := n.Field("spec")
	containers := spec.Field("template").Field("spec").Field("containers")
	if !spec.Closed || spec.Declared("replica") || !spec.Declared("replicas") ||
		containers.ListType() != patch.ListMap || containers.MergeKey != "name" {
		t.Errorf("spec %+v, containers %+v", spec, containers)
	}
	resources := containers.Item().Field("resources")
	if !resources.Field("limits").Field("cpu").Quantity || resources.Field("limits").Declared("cpu") ||
		resources.Closed == false {
		t.Errorf("resources %+v", resources)
	}
	if labels := spec.Field("template").Field("metadata").Field("labels"); labels.Closed || labels.Declared("x") {
		t.Errorf("the names of labels are data: %+v", labels)
	}
	crd := For("apiextensions.k8s.io/v1", "CustomResourceDefinition").Node()
	schema := crd.Field("spec").Field("versions").Item().Field("schema").Field("openAPIV3Schema")
	if deep := schema.Field("properties").Field("spec").Field("properties").Field("x"); !deep.Declared("type") ||
		deep.Declared("typo") {
		t.Errorf("a schema within a schema: %+v", deep)
	}
}

// What OpenAPI says beside the types of fields: an apply of another label of a nodeSelector takes all of it, a port
// without a protocol is the one with TCP, and a selector of pods is replaced as a whole.
func TestNodesSayWhatTheTableOfFieldsDoesNot(t *testing.T) {
	pod := For("v1", "Pod").Node().Field("spec")
	ports := pod.Field("containers").Item().Field("ports")
	key := ports.ItemKey(map[string]any{"containerPort": int64(80)})
	if !pod.Field("nodeSelector").IsAtomicObject() || key["protocol"] != "TCP" {
		t.Errorf("nodeSelector %+v, the key of a port %v", pod.Field("nodeSelector"), key)
	}
	volume, budget := For("v1", "PersistentVolume").Node(), For("policy/v1", "PodDisruptionBudget").Node()
	if volume.Field("spec").Field("claimRef").IsAtomicObject() || !budget.Field("spec").Field("selector").Replace {
		t.Error("a claimRef is owned field by field, and the selector of a budget is replaced")
	}
	status := map[string]any{"status": map[string]any{}}
	filled := patch.FillZero(For("policy/v1", "PodDisruptionBudget").Node(), status)
	if v, shown := obj.Map(filled, "status")["currentHealthy"]; v != int64(0) || !shown {
		t.Errorf("a status shows its numbers: %v", filled)
	}
}

func TestTypesOfFieldsAreCheckedInFormsOfSeveral(t *testing.T) {
	definition, err := patch.Decode([]byte(`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":5}}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	text := For("apiextensions.k8s.io/v1", "CustomResourceDefinition").TypeError(definition.(map[string]any))
	if text != "json: cannot unmarshal number into Go struct field JSONSchemaProps.type of type string" {
		t.Error(text)
	}
}
