package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
)

var update = flag.Bool("update", false, "write the table of fields, or the golden answers, anew")

// The fields that the embedded API server knows are those of the real one.
func TestFieldTableIsThatOfTheRealServer(t *testing.T) {
	cluster := ownCluster(t)

	s := schemas{}
	for _, k := range tableKinds() {
		path := "/openapi/v3/apis/" + k.apiVersion
		if !strings.Contains(k.apiVersion, "/") {
			path = "/openapi/v3/api/" + k.apiVersion
		}
		doc := must(cluster.Admin.Get(t.Context(), path))(t)
		for name, schema := range objectAt(doc, "components", "schemas") {
			s[name] = schema.(map[string]any)
		}
	}
	var roots []string
	for _, k := range tableKinds() {
		name := s.of(k)
		if name == "" {
			t.Fatalf("the real server has no schema of %s %s", k.apiVersion, k.kind)
		}
		roots = append(roots, k.apiVersion+" "+k.kind+" "+name)
	}
	want := must(s.table(roots, goTypes()))(t)
	file := filepath.Join(repository, "internal", "testcluster", "apiserver", "schema", "fields.txt")
	if *update {
		noError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	have := must(os.ReadFile(file))(t)
	if string(have) != want {
		t.Errorf("%s is not what the real server says: run this test with -update and look at the difference", file)
	}
}

type tableKind struct{ apiVersion, kind string }

// tableKinds are the built-in kinds, and what else clients send as the body of a request.
func tableKinds() []tableKind {
	var out []tableKind
	for _, k := range kinds.Builtin(features.Set{}) {
		out = append(out, tableKind{k.APIVersion(), k.Kind})
	}
	return append(out, tableKind{"v1", "DeleteOptions"},
		tableKind{"autoscaling/v1", "Scale"}, tableKind{"policy/v1", "Eviction"},
		tableKind{"authentication.k8s.io/v1", "TokenRequest"})
}

// schemas are those of all OpenAPI documents, by name.
type schemas map[string]Object

// of is the name of the schema of a kind; "" if there is none.
func (s schemas) of(k tableKind) string {
	for name, schema := range s {
		for _, gvk := range schema.List("x-kubernetes-group-version-kind") {
			if strings.TrimPrefix(gvk.Str("group")+"/"+gvk.Str("version"), "/") == k.apiVersion &&
				gvk.Str("kind") == k.kind {
				return name
			}
		}
	}
	return ""
}

const tableHead = `# The fields of the built-in kinds as a Kubernetes v1.36 server declares them. Written by the test in internal/tools/e2e/fields_test.go.
# First the kinds (apiVersion, kind, type), then each type: a line for each type of value with the fields that have it.
# A type of value is []T, a list, with what server-side apply and ;strategic merge patches make of it; map:T, an object whose names are data; a type; or string, time, micro-time, bytes (base64), bool, int32, int64,
# double, quantity, int-or-string, any (free JSON), any:T (one of the fields of T, without its name).
# What Go does with the field's zero value is marked: name! is always shown, name* is a pointer and shown if it is set, name!* is a
# pointer and shown as null if it is not set; any other field is not shown when it is "", 0, false or empty. name+ is required.
# name=4 is the number of the field in protobuf; name=2.4 is field 4 of field 2, a struct that JSON does not show.
`

// goTypes are the Go types of the built-in kinds and all that they are made of, by the names that the table has for
// them.
func goTypes() map[string]reflect.Type {
	found := map[string]reflect.Type{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			path := strings.Split(t.PkgPath(), "/")
			if len(path) < 2 {
				return
			}
			name := strings.Join(append(path[len(path)-2:], t.Name()), ".")
			if found[name] != nil {
				return
			}
			found[name] = t
			for _, f := range reflect.VisibleFields(t) {
				walk(f.Type)
			}
		}
	}
	//lint:ignore SA1019 a server still serves Endpoints, and so does the embedded one
	endpoints := corev1.Endpoints{}
	//lint:ignore SA1019 likewise
	components := corev1.ComponentStatus{}
	for _, root := range []any{corev1.ConfigMap{}, endpoints, corev1.Event{}, corev1.Namespace{}, corev1.Node{},
		corev1.Pod{}, corev1.Secret{},
		corev1.ServiceAccount{}, corev1.Service{}, appsv1.ControllerRevision{}, appsv1.DaemonSet{},
		appsv1.Deployment{}, appsv1.ReplicaSet{},
		appsv1.StatefulSet{}, rbacv1.ClusterRoleBinding{}, rbacv1.ClusterRole{}, rbacv1.RoleBinding{}, rbacv1.Role{},
		autoscalingv2.HorizontalPodAutoscaler{}, coordinationv1.Lease{}, eventsv1.Event{},
		apiextensionsv1.CustomResourceDefinition{},
		corev1.Binding{}, components, metav1.DeleteOptions{}, autoscalingv1.Scale{},
		autoscalingv1.HorizontalPodAutoscaler{},
		authenticationv1.SelfSubjectReview{}, authenticationv1.TokenRequest{}, authenticationv1.TokenReview{},
		authorizationv1.SelfSubjectAccessReview{}, authorizationv1.SelfSubjectRulesReview{},
		corev1.PersistentVolumeClaim{}, batchv1.CronJob{}, batchv1.Job{}, networkingv1.Ingress{},
		networkingv1.IngressClass{},
		networkingv1.NetworkPolicy{}, policyv1.PodDisruptionBudget{}, corev1.LimitRange{}, corev1.ResourceQuota{},
		corev1.PersistentVolume{}, corev1.PodTemplate{}, corev1.ReplicationController{}, storagev1.CSIDriver{},
		storagev1.CSINode{}, storagev1.CSIStorageCapacity{}, storagev1.StorageClass{}, storagev1.VolumeAttachment{},
		storagev1.VolumeAttributesClass{}, schedulingv1.PriorityClass{}, nodev1.RuntimeClass{},
		discoveryv1.EndpointSlice{}, networkingv1.IPAddress{}, networkingv1.ServiceCIDR{},
		certificatesv1.CertificateSigningRequest{}, resourcev1.DeviceClass{}, resourcev1.ResourceClaim{},
		resourcev1.ResourceClaimTemplate{}, resourcev1.ResourceSlice{}, flowcontrolv1.FlowSchema{},
		flowcontrolv1.PriorityLevelConfiguration{}, apiregistrationv1.APIService{},
		admissionv1.MutatingAdmissionPolicy{}, admissionv1.MutatingAdmissionPolicyBinding{},
		admissionv1.ValidatingAdmissionPolicy{}, admissionv1.ValidatingAdmissionPolicyBinding{},
		admissionv1.MutatingWebhookConfiguration{}, admissionv1.ValidatingWebhookConfiguration{},
		authorizationv1.SubjectAccessReview{}, policyv1.Eviction{},
		authorizationv1.LocalSubjectAccessReview{}} {
		walk(reflect.TypeOf(root))
	}
	return found
}

// zeroMark says what Go does with the zero value of a field; see the head of the table.
func zeroMark(t reflect.Type, field string) (string, error) {
	if t == nil {
		return "", fmt.Errorf("no Go type has the field %s", field)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != field {
			continue
		}
		omitted := strings.Contains(options, "omitzero") || strings.Contains(options, "omitempty") &&
			f.Type.Kind() != reflect.Struct
		mark := ""
		if !omitted {
			mark = "!"
		}
		if f.Type.Kind() == reflect.Pointer {
			mark += "*"
		}
		return mark, nil
	}
	return "", fmt.Errorf("the Go type %s has no field %s", t, field)
}

// protobufNumbers adds to found the numbers of the fields of a type, by their JSON names. What is no message has none.
func protobufNumbers(t reflect.Type, prefix string, found map[string]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		parts := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(parts) < 2 {
			continue // apiVersion and kind: they are in the envelope
		}
		if f.Anonymous && strings.Contains(options, "inline") {
			protobufNumbers(f.Type, prefix+parts[1]+".", found)
			continue
		}
		if name == "" { // a field of a union
			name = strings.TrimPrefix(parts[len(parts)-1], "name=")
		}
		found[name] = "=" + prefix + parts[1]
	}
}

// table writes all types that the roots are made of.
func (s schemas) table(roots []string, types map[string]reflect.Type) (string, error) {
	var b strings.Builder
	b.WriteString(tableHead + "\n")
	var queue []string
	for _, r := range roots {
		name := r[strings.LastIndexByte(r, ' ')+1:]
		fmt.Fprintf(&b, "%s%s\n", strings.TrimSuffix(r, name), short(name))
		queue = append(queue, name)
	}
	lines := map[string]string{}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if lines[short(name)] != "" {
			continue
		}
		byType, numbers := map[string][]string{}, map[string]string{}
		if types[short(name)] == nil {
			return "", fmt.Errorf("no Go type is %s", short(name))
		}
		protobufNumbers(types[short(name)], "", numbers)
		properties := unions[short(name)]
		if properties == nil {
			properties = objectAt(s[name], "properties")
		}
		for field, schema := range properties {
			word, refers := s.word(schema.(map[string]any))
			if refers != "" {
				queue = append(queue, refers)
			}
			mark, err := zeroMark(types[short(name)], field)
			if err != nil && unions[short(name)] == nil {
				return "", fmt.Errorf("%s: %w", short(name), err)
			}
			if required, _ := s[name]["required"].([]any); slices.Contains(required, any(field)) {
				mark += "+"
			}
			byType[word] = append(byType[word], field+mark+numbers[field])
		}
		text := short(name)
		if s[name].Str("x-kubernetes-map-type") == "atomic" {
			text += " atomic"
		}
		text += "\n"
		for _, word := range slices.Sorted(maps.Keys(byType)) {
			slices.Sort(byType[word])
			text += "  " + word + " " + strings.Join(byType[word], " ") + "\n"
		}
		lines[short(name)] = text
	}
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(lines[name])
	}
	return b.String(), nil
}

// word spells a type of value; refers is the schema that it names, if it does.
func (s schemas) word(v Object) (word, refers string) {
	if of := v.List("allOf"); len(of) == 1 {
		v = of[0]
	}
	if ref := v.Str("$ref"); ref != "" {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if special := map[string]string{"Time": "time", "MicroTime": "micro-time", "Quantity": "quantity",
			"IntOrString": "int-or-string"}[name[strings.LastIndexByte(name, '.')+1:]]; special != "" {
			return special, ""
		}
		if unions[short(name)] != nil {
			return "any:" + short(name), name
		}
		if s[name]["properties"] == nil && (s[name].Str("type") != "object" || strings.HasSuffix(name, "FieldsV1") ||
			strings.HasSuffix(name, "RawExtension")) {
			return "any", ""
		}
		return short(name), name
	}
	switch kind := v.Str("type"); kind {
	case "array":
		word, refers = s.word(objectAt(v, "items"))
		return "[" + listType(v) + "]" + word, refers
	case "object":
		if v["additionalProperties"] == nil {
			return "any", ""
		}
		word, refers = s.word(objectAt(v, "additionalProperties"))
		return "map:" + word, refers
	case "string":
		return cmp.Or(map[string]string{"byte": "bytes", "date-time": "time",
			"int-or-string": "int-or-string"}[v.Str("format")], kind), ""
	case "integer":
		return cmp.Or(v.Str("format"), "int64"), ""
	case "number":
		return "double", ""
	case "boolean":
		return "bool", ""
	}
	return "any", ""
}

// listType says how server-side apply owns a list, and behind a semicolon how a strategic merge patch merges it.
func listType(v Object) string {
	out := ""
	switch kind := v.Str("x-kubernetes-list-type"); kind {
	case "set", "atomic":
		out = kind
	case "map":
		var keys []string
		list, _ := v["x-kubernetes-list-map-keys"].([]any)
		for _, k := range list {
			keys = append(keys, k.(string))
		}
		out = "map:" + strings.Join(keys, ",")
	}
	if strategy := v.Str("x-kubernetes-patch-strategy"); strings.HasPrefix(strategy, "merge") {
		out += ";" + strategy
		if key := v.Str("x-kubernetes-patch-merge-key"); key != "" {
			out += ":" + key
		}
	}
	return out
}

// unions are the types of which JSON shows one field, without its name: the OpenAPI documents do not say which those
// are.
var unions = map[string]map[string]any{
	"apiextensions.v1.JSONSchemaPropsOrArray": {"schema": jsonSchema,
		"jSONSchemas": map[string]any{"type": "array", "items": jsonSchema}},
	"apiextensions.v1.JSONSchemaPropsOrBool": {"schema": jsonSchema,
		"allows": map[string]any{"type": "boolean"}},
	"apiextensions.v1.JSONSchemaPropsOrStringArray": {"schema": jsonSchema,
		"property": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}},
}

var jsonSchema = map[string]any{"$ref": "#/components/schemas/" +
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"}

func objectAt(o Object, path ...string) Object {
	m, _ := o.At(path...).(map[string]any)
	return m
}

// short is the name of a schema without the path of its Go module: group.version.Name.
func short(name string) string {
	parts := strings.Split(name, ".")
	return strings.Join(parts[len(parts)-3:], ".")
}
