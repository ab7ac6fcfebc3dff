package e2e

import (
	"strings"
	"testing"
)

const (
	onePod   = `"spec":{"containers":[{"name":"c","image":"i"}]}`
	template = `"template":{"metadata":{"labels":{"a":"b"}},` + onePod + `}`
	selected = `"selector":{"matchLabels":{"a":"b"}}`
)

// kindsWithLives are the served kinds: path, apiVersion, kind, and the members of an object besides these and
// metadata. Left out are those whose objects only a controller lets go (volumes, claims), or that other scripts have:
// pods, jobs, namespaces, definitions, events, certificate requests and what configures admission.
var kindsWithLives = [][4]string{
	{"/api/v1/${ns}/configmaps", "v1", "ConfigMap", `"data":{"a":"b"}`},
	{"/api/v1/${ns}/secrets", "v1", "Secret", `"stringData":{"a":"b"}`},
	{"/api/v1/${ns}/serviceaccounts", "v1", "ServiceAccount", `"automountServiceAccountToken":false`},
	{"/api/v1/${ns}/services", "v1", "Service", `"spec":{"clusterIP":"None","selector":{"a":"b"}}`},
	{"/api/v1/${ns}/endpoints", "v1", "Endpoints",
		`"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":1}]}]`},
	{"/api/v1/${ns}/limitranges", "v1", "LimitRange", `"spec":{"limits":[{"type":"Pod","max":{"cpu":"1"}}]}`},
	{"/api/v1/${ns}/resourcequotas", "v1", "ResourceQuota", `"spec":{"hard":{"configmaps":"100"}}`},
	{"/api/v1/${ns}/podtemplates", "v1", "PodTemplate", template},
	{"/api/v1/${ns}/replicationcontrollers", "v1", "ReplicationController", `"spec":{"replicas":0,` + template + `}`},
	{"/api/v1/nodes", "v1", "Node", `"spec":{"unschedulable":true}`},
	{"/apis/apps/v1/${ns}/controllerrevisions", "apps/v1", "ControllerRevision", `"revision":1,"data":{"a":"b"}`},
	{"/apis/apps/v1/${ns}/deployments", "apps/v1", "Deployment",
		`"spec":{"replicas":0,` + selected + `,` + template + `}`},
	{"/apis/apps/v1/${ns}/replicasets", "apps/v1", "ReplicaSet",
		`"spec":{"replicas":0,` + selected + `,` + template + `}`},
	{"/apis/apps/v1/${ns}/statefulsets", "apps/v1", "StatefulSet",
		`"spec":{"replicas":0,"serviceName":"s",` + selected +
			`,` + template + `}`},
	{"/apis/apps/v1/${ns}/daemonsets", "apps/v1", "DaemonSet", `"spec":{` + selected + `,` + template + `}`},
	{"/apis/autoscaling/v2/${ns}/horizontalpodautoscalers", "autoscaling/v2", "HorizontalPodAutoscaler",
		`"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}`},
	{"/apis/autoscaling/v1/${ns}/horizontalpodautoscalers", "autoscaling/v1", "HorizontalPodAutoscaler",
		`"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}`},
	{"/apis/batch/v1/${ns}/cronjobs", "batch/v1", "CronJob",
		`"spec":{"schedule":"@daily","suspend":true,"jobTemplate":{
		"spec":{` + podTemplateOnce + `}}}`},
	{"/apis/coordination.k8s.io/v1/${ns}/leases", "coordination.k8s.io/v1", "Lease", `"spec":{"holderIdentity":"a"}`},
	{"/apis/discovery.k8s.io/v1/${ns}/endpointslices", "discovery.k8s.io/v1", "EndpointSlice", `"addressType":"IPv4",
		"endpoints":[{"addresses":["192.0.2.1"]}]`},
	{"/apis/networking.k8s.io/v1/${ns}/ingresses", "networking.k8s.io/v1", "Ingress", `"spec":{"defaultBackend":{
		"service":{"name":"a","port":{"number":80}}}}`},
	{"/apis/networking.k8s.io/v1/ingressclasses", "networking.k8s.io/v1", "IngressClass",
		`"spec":{"controller":"a.b/c"}`},
	{"/apis/networking.k8s.io/v1/${ns}/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy",
		`"spec":{"podSelector":{}}`},
	{"/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass", `"handler":"h"`},
	{"/apis/policy/v1/${ns}/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", `"spec":{"minAvailable":1,` +
		selected + `}`},
	{"/apis/rbac.authorization.k8s.io/v1/${ns}/roles", "rbac.authorization.k8s.io/v1", "Role", `"rules":[{"apiGroups":
		[""],"resources":["pods"],"verbs":["get"]}]`},
	{"/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding",
		`"roleRef":{
		"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole",
		`"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding",
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"}`},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClass", `"value":1`},
	{"/apis/storage.k8s.io/v1/csidrivers", "storage.k8s.io/v1", "CSIDriver", `"spec":{"attachRequired":false}`},
	{"/apis/storage.k8s.io/v1/csinodes", "storage.k8s.io/v1", "CSINode",
		`"spec":{"drivers":[{"name":"d","nodeID":"n"}]}`},
	{"/apis/storage.k8s.io/v1/${ns}/csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity",
		`"storageClassName":"s","capacity":"1Gi"`},
	{"/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClass", `"provisioner":"a.b/c"`},
	{"/apis/storage.k8s.io/v1/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment", `"spec":{"attacher":"a",
		"nodeName":"n","source":{"persistentVolumeName":"p"}}`},
	{"/apis/resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1", "DeviceClass", `"spec":{}`},
	{"/apis/resource.k8s.io/v1/${ns}/resourceclaims", "resource.k8s.io/v1", "ResourceClaim", `"spec":{"devices":{}}`},
	{"/apis/resource.k8s.io/v1/${ns}/resourceclaimtemplates", "resource.k8s.io/v1", "ResourceClaimTemplate",
		`"spec":{"spec":{"devices":{}}}`},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io/v1",
		"PriorityLevelConfiguration", `"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}`},
	{"/apis/skiff.dev/v1alpha1/${ns}/webservers", "skiff.dev/v1alpha1", "WebServer", `"spec":{"image":"nginx:1"}`},
}

// life is the script of what happens to objects of a kind: created, shown, changed in each way, deleted in each way,
// and all of that seen by a watch.
func life(kind [4]string) Script {
	path, head := kind[0], `{"apiVersion":"`+kind[1]+`","kind":"`+kind[2]+`","metadata":{"name":"`
	only := strings.ToLower("life-" + strings.NewReplacer("/", "-", ".", "-").Replace(kind[1]) + "-" + kind[2])
	body := func(name, metadata string) string { return head + name + `"` + metadata + `},` + kind[3] + `}` }
	change := func(step, query, kind, body string) Step {
		return Step{Name: step, Method: "PATCH", Path: path + "/" + only + query, Type: kind, Body: body}
	}
	steps := []Step{
		{Name: "before", Path: path + "?fieldSelector=metadata.name%3Dnone",
			Capture: map[string]string{"rv": "metadata.resourceVersion"}},
		{Name: "create by a dry run", Method: "POST", Path: path + "?dryRun=All", Body: body(only, "")},
		{Name: "not stored", Path: path + "/" + only},
		{Name: "create", Method: "POST", Path: path, Body: body(only, ""),
			Capture: map[string]string{"made": "metadata.resourceVersion"}},
		{Name: "again", Method: "POST", Path: path, Body: body(only, "")},
		{Name: "table", Path: path + "?fieldSelector=metadata.name%3D" + only, Accept: asTable},
		{Name: "update by a dry run", Method: "PUT", Path: path + "/" + only + "?dryRun=All",
			Body: body(only, `,"resourceVersion":"${made}","labels":{"u":"1"}`)},
		{Name: "update", Method: "PUT", Path: path + "/" + only,
			Body: body(only, `,"resourceVersion":"${made}","labels":{"u":"1"}`)},
		{Name: "update of an old version", Method: "PUT", Path: path + "/" + only,
			Body: body(only, `,"resourceVersion":"${made}","labels":{"u":"2"}`)},
		change("JSON patch", "", "application/json-patch+json", `[{"op":"add","path":"/metadata/annotations","value":
			{"j":"1"}},{"op":"test","path":"/metadata/labels/u","value":"1"}]`),
		change("merge patch", "", mergePatch, `{"metadata":{"labels":{"u":null,"m":"1"}}}`),
		change("strategic patch", "", strategicPatch, `{"metadata":{"annotations":{"s":"1","$patch":"replace"}}}`),
		change("apply", "?fieldManager=other", applyPatch, head+only+`","labels":{"m":"1","a":"1"}}}`),
		change("apply less", "?fieldManager=other", applyPatch, head+only+`","labels":{"m":"1"}}}`),
		change("apply what another has", "?fieldManager=third", applyPatch, head+only+`","labels":{"m":"2"}}}`),
		change("patch by a dry run", "?dryRun=All", mergePatch, `{"metadata":{"labels":{"d":"1"}}}`),
		change("patch that changes nothing", "", mergePatch, `{"metadata":{"labels":{"m":"1"}}}`),
		{Name: "delete by a dry run", Method: "DELETE", Path: path + "/" + only + "?dryRun=All"},
	}
	for _, policy := range []string{"Foreground", "Orphan", "Background"} {
		steps = append(steps, Step{Name: "delete " + policy, Method: "DELETE", Path: path + "/" + only +
			"?propagationPolicy=" + policy}, Step{Name: "left by " + policy, Path: path + "/" + only},
			change("let go by "+policy, "", mergePatch, `{"metadata":{"finalizers":null}}`),
			Step{Name: "create for the next", Method: "POST", Path: path, Body: body(only, "")})
	}
	return Script{Name: only, Steps: append(steps,
		Step{Name: "delete", Method: "DELETE", Path: path + "/" + only},
		Step{Name: "gone", Path: path + "/" + only},
		Step{Name: "watch", ToEnd: true, Path: path +
			"?watch=1&timeoutSeconds=1&resourceVersion=${rv}&fieldSelector=metadata.name%3D" + only})}
}

// What happens to an object of any kind is the same on the embedded server as on a real one, step by step.
func TestEachKindLivesOnTheEmbeddedServerAsOnTheRealOne(t *testing.T) {
	cluster := ownCluster(t)
	fake := startFake(t)
	installForScripts(t, cluster.Admin)
	installForScripts(t, fake)
	for _, kind := range kindsWithLives {
		script := life(kind)
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			runDifferential(t, script, cluster.Admin, fake, allowedInLives())
		})
	}
}

func allowedInLives() []*Allowance {
	return []*Allowance{
		{Script: "*", Step: "table", Path: "*columnDefinitions.*description",
			Why: "The embedded server has the first sentence of a description."},
		{Script: "life-v1-node", Step: "*", Path: "*spec.taints",
			Why: "The real server taints a new node until a controller finds it ready."},
		{Script: "life-apps-v1-daemonset", Step: "table", Path: "*metadata.annotations",
			Why: "The real server adds this annotation when it converts the object to its version: rows have none."},
		{Script: "life-apps-v1-controllerrevision", Step: "*", Path: "*f:data.f:a",
			Why: "The real server takes these data as one value."},
	}
}
