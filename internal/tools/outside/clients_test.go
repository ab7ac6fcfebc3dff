package outside

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// client-go's own clients work against skiff, in JSON and in protobuf.
func TestClientGosClientsInJSONAndProtobuf(t *testing.T) {
	env := &envtest.Environment{BinaryAssetsDirectory: assets(t)}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer env.Stop()
	for name, content := range map[string]rest.ContentConfig{
		"json":                {ContentType: "application/json", AcceptContentTypes: "application/json"},
		"protobuf":            {ContentType: protobuf, AcceptContentTypes: protobuf + ",application/json"},
		"protobuf-by-default": {},
	} {
		t.Run(name, func(t *testing.T) {
			config := rest.CopyConfig(config)
			config.ContentConfig = content
			tryTyped(t, config, name)
			tryDynamic(t, config, name)
			tryMetadata(t, config, name)
			tryScale(t, config, name)
		})
	}
}

// must ends the test at an error.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// tryTyped creates, lists, watches, patches and updates.
func tryTyped(t *testing.T, config *rest.Config, name string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	core := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config)).CoreV1().ConfigMaps("default")
	list := must[*corev1.ConfigMapList](t)(core.List(ctx, metav1.ListOptions{}))
	events := must[watch.Interface](t)(core.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))
	defer events.Stop()
	made := must[*corev1.ConfigMap](t)(core.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{
			"c": {0, 1, 255}}}, metav1.CreateOptions{}))
	event := <-events.ResultChan()
	if seen, ok := event.Object.(*corev1.ConfigMap); !ok || event.Type != watch.Added || seen.UID != made.UID ||
		string(seen.BinaryData["c"]) != "\x00\x01\xff" {
		t.Errorf("the watch has %v", event)
	}
	made.Data["a"] = "changed"
	must[*corev1.ConfigMap](t)(core.Update(ctx, made, metav1.UpdateOptions{}))
	for kind, patch := range map[types.PatchType]string{types.MergePatchType: `{"data":{"merged":"x"}}`,
		types.StrategicMergePatchType: `{"data":{"strategic":"x"}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/data/json","value":"x"}]`} {
		must[*corev1.ConfigMap](t)(core.Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{}))
	}
	got := must[*corev1.ConfigMap](t)(core.Get(ctx, name, metav1.GetOptions{}))
	if fmt.Sprint(got.Data) != "map[a:changed json:x merged:x strategic:x]" {
		t.Errorf("it has %v", got.Data)
	}
}

func tryDynamic(t *testing.T, config *rest.Config, name string) {
	maps := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config)).Resource(
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	applied := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name}, "data": map[string]any{"applied": "x"}}}
	got := must[*unstructured.Unstructured](t)(maps.Apply(t.Context(), name, applied,
		metav1.ApplyOptions{FieldManager: "outside"}))
	if data, _, err := unstructured.NestedStringMap(got.Object, "data"); err != nil || data["applied"] != "x" {
		t.Errorf("applied: %v, %v", data, err)
	}
	list := must[*unstructured.UnstructuredList](t)(maps.List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + name}))
	if len(list.Items) != 1 || list.Items[0].GetKind() != "ConfigMap" {
		t.Errorf("a list has %v", list.Items)
	}
}

func tryMetadata(t *testing.T, config *rest.Config, name string) {
	maps := must[metadata.Interface](t)(metadata.NewForConfig(config)).Resource(
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	one := must[*metav1.PartialObjectMetadata](t)(maps.Get(t.Context(), name, metav1.GetOptions{}))
	list := must[*metav1.PartialObjectMetadataList](t)(maps.List(t.Context(), metav1.ListOptions{Limit: 1}))
	if one.Name != name || len(one.ManagedFields) == 0 || len(list.Items) != 1 {
		t.Errorf("the metadata of %v, and a list of %d", one, len(list.Items))
	}
	if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func tryScale(t *testing.T, config *rest.Config, name string) {
	clients := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	labels := map[string]string{"app": name}
	must[*appsv1.Deployment](t)(clients.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}},
		metav1.CreateOptions{}))
	asked := must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(config))
	var mapper meta.RESTMapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(asked))
	scales := must[scale.ScalesGetter](t)(scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(asked))).Scales("default")
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	s, err := scales.Get(t.Context(), deployments, name, metav1.GetOptions{})
	if err != nil || s.Spec.Replicas != 1 || s.Status.Selector != "app="+name {
		t.Fatalf("the scale is %+v: %v", s, err)
	}
	s.Spec.Replicas = 3
	if s, err = scales.Update(t.Context(), deployments, s, metav1.UpdateOptions{}); err != nil ||
		s.Spec.Replicas != 3 {
		t.Errorf("the scale became %+v: %v", s, err)
	}
}
