package e2e

const (
	onePod   = `"spec":{"containers":[{"name":"c","image":"i"}]}`
	template = `"template":{"metadata":{"labels":{"a":"b"}},` + onePod + `}`
	selected = `"selector":{"matchLabels":{"a":"b"}}`
)

// living is a kind whose objects can be created, changed and deleted. body is what an object has besides apiVersion,
// kind and metadata. name is that of the object, where the kind asks for a certain one. settled is a text in its
// status when the server's own controllers have written there what they write after each creation.
type living struct{ path, version, kind, body, name, settled string }

// kindsWithLives are all kinds that the embedded server stores. It has no APIServices: it aggregates no other servers.
var kindsWithLives = []living{
	{"/api/v1/${ns}/configmaps", "v1", "ConfigMap", `"data":{"a":"b"}`, "", ""},
	{"/api/v1/${ns}/secrets", "v1", "Secret", `"stringData":{"a":"b"}`, "", ""},
	{"/api/v1/${ns}/serviceaccounts", "v1", "ServiceAccount", `"automountServiceAccountToken":false`, "", ""},
	{"/api/v1/${ns}/services", "v1", "Service", `"spec":{"clusterIP":"None","selector":{"a":"b"}}`, "", ""},
	{"/api/v1/${ns}/endpoints", "v1", "Endpoints",
		`"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":1}]}]`, "", ""},
	{"/api/v1/${ns}/limitranges", "v1", "LimitRange", `"spec":{"limits":[{"type":"Pod","max":{"cpu":"1"}}]}`, "", ""},
	{"/api/v1/${ns}/resourcequotas", "v1", "ResourceQuota", `"spec":{"hard":{"configmaps":"100"}}`, "", ""},
	{"/api/v1/${ns}/podtemplates", "v1", "PodTemplate", template, "", ""},
	{"/api/v1/${ns}/replicationcontrollers", "v1", "ReplicationController", `"spec":{"replicas":0,` + template + `}`, "", ""},
	{"/api/v1/nodes", "v1", "Node", `"spec":{"unschedulable":true}`, "", ""},
	{"/apis/apps/v1/${ns}/controllerrevisions", "apps/v1", "ControllerRevision", `"revision":1,"data":{"a":"b"}`, "", ""},
	{"/apis/apps/v1/${ns}/deployments", "apps/v1", "Deployment",
		`"spec":{"replicas":0,` + selected + `,` + template + `}`, "", ""},
	{"/apis/apps/v1/${ns}/replicasets", "apps/v1", "ReplicaSet",
		`"spec":{"replicas":0,` + selected + `,` + template + `}`, "", ""},
	{"/apis/apps/v1/${ns}/statefulsets", "apps/v1", "StatefulSet",
		`"spec":{"replicas":0,"serviceName":"s",` + selected +
			`,` + template + `}`, "", ""},
	{"/apis/apps/v1/${ns}/daemonsets", "apps/v1", "DaemonSet", `"spec":{` + selected + `,` + template + `}`, "", ""},
	{"/apis/autoscaling/v2/${ns}/horizontalpodautoscalers", "autoscaling/v2", "HorizontalPodAutoscaler",
		`"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}`, "", ""},
	{"/apis/autoscaling/v1/${ns}/horizontalpodautoscalers", "autoscaling/v1", "HorizontalPodAutoscaler",
		`"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}`, "", ""},
	{"/apis/batch/v1/${ns}/cronjobs", "batch/v1", "CronJob",
		`"spec":{"schedule":"@daily","suspend":true,"jobTemplate":{
		"spec":{` + podTemplateOnce + `}}}`, "", ""},
	{"/apis/coordination.k8s.io/v1/${ns}/leases", "coordination.k8s.io/v1", "Lease", `"spec":{"holderIdentity":"a"}`, "", ""},
	{"/apis/discovery.k8s.io/v1/${ns}/endpointslices", "discovery.k8s.io/v1", "EndpointSlice", `"addressType":"IPv4",
		"endpoints":[{"addresses":["192.0.2.1"]}]`, "", ""},
	{"/apis/networking.k8s.io/v1/${ns}/ingresses", "networking.k8s.io/v1", "Ingress", `"spec":{"defaultBackend":{
		"service":{"name":"a","port":{"number":80}}}}`, "", ""},
	{"/apis/networking.k8s.io/v1/ingressclasses", "networking.k8s.io/v1", "IngressClass",
		`"spec":{"controller":"a.b/c"}`, "", ""},
	{"/apis/networking.k8s.io/v1/${ns}/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy",
		`"spec":{"podSelector":{}}`, "", ""},
	{"/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass", `"handler":"h"`, "", ""},
	{"/apis/policy/v1/${ns}/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", `"spec":{"minAvailable":1,` +
		selected + `}`, "", ""},
	{"/apis/rbac.authorization.k8s.io/v1/${ns}/roles", "rbac.authorization.k8s.io/v1", "Role", `"rules":[{"apiGroups":
		[""],"resources":["pods"],"verbs":["get"]}]`, "", ""},
	{"/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding",
		`"roleRef":{
		"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}`, "", ""},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole",
		`"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]`, "", ""},
	{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding",
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"}`, "", ""},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClass", `"value":1`, "", ""},
	{"/apis/storage.k8s.io/v1/csidrivers", "storage.k8s.io/v1", "CSIDriver", `"spec":{"attachRequired":false}`, "", ""},
	{"/apis/storage.k8s.io/v1/csinodes", "storage.k8s.io/v1", "CSINode",
		`"spec":{"drivers":[{"name":"d","nodeID":"n"}]}`, "", ""},
	{"/apis/storage.k8s.io/v1/${ns}/csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity",
		`"storageClassName":"s","capacity":"1Gi"`, "", ""},
	{"/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClass", `"provisioner":"a.b/c"`, "", ""},
	{"/apis/storage.k8s.io/v1/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment", `"spec":{"attacher":"a",
		"nodeName":"n","source":{"persistentVolumeName":"p"}}`, "", ""},
	{"/apis/resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1", "DeviceClass", `"spec":{}`, "", ""},
	{"/apis/resource.k8s.io/v1/${ns}/resourceclaims", "resource.k8s.io/v1", "ResourceClaim", `"spec":{"devices":{}}`, "", ""},
	{"/apis/resource.k8s.io/v1/${ns}/resourceclaimtemplates", "resource.k8s.io/v1", "ResourceClaimTemplate",
		`"spec":{"spec":{"devices":{}}}`, "", ""},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io/v1",
		"PriorityLevelConfiguration", `"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}`, "", ""},
	{"/apis/skiff.dev/v1alpha1/${ns}/webservers", "skiff.dev/v1alpha1", "WebServer", `"spec":{"image":"nginx:1"}`, "", ""},
	{"/api/v1/persistentvolumes", "v1", "PersistentVolume", `"spec":{"capacity":{"storage":"1Gi"},"accessModes":
		["ReadWriteOnce"],"hostPath":{"path":"/a"}}`, "", ""},
	{"/api/v1/${ns}/persistentvolumeclaims", "v1", "PersistentVolumeClaim", `"spec":{"accessModes":["ReadWriteOnce"],
		"resources":{"requests":{"storage":"1Gi"}}}`, "", ""},
	{"/api/v1/${ns}/pods", "v1", "Pod", onePod, "", ""},
	{"/api/v1/namespaces", "v1", "Namespace", `"spec":{}`, "life", ""},
	{"/api/v1/${ns}/events", "v1", "Event", `"involvedObject":{"namespace":"${NS}","name":"x","kind":"Pod"},
		"reason":"R","message":"m","type":"Normal","firstTimestamp":"2026-01-01T00:00:00Z","count":1`, "", ""},
	{"/apis/events.k8s.io/v1/${ns}/events", "events.k8s.io/v1", "Event", `"eventTime":"2026-01-01T00:00:00.000000Z",
		"reportingController":"a.b/c","reportingInstance":"i","action":"A","reason":"R","type":"Normal","regarding":{
		"namespace":"${NS}","name":"x","kind":"Pod"}`, "", ""},
	{"/apis/batch/v1/${ns}/jobs", "batch/v1", "Job", `"spec":{"suspend":true,` + podTemplateOnce + `}`, "", ""},
	{"/apis/certificates.k8s.io/v1/certificatesigningrequests", "certificates.k8s.io/v1", "CertificateSigningRequest",
		`"spec":{"signerName":"example.com/life","request":"` + csrPEM + `","usages":["client auth"]}`, "", ""},
	{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition",
		`"spec":{"group":"life.example.com","scope":"Namespaced","names":{"plural":"lives","kind":"Life"},"versions":[{
		"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}`,
		"lives.life.example.com",
		"InitialNamesAccepted"},
	{registrationPath + "validatingwebhookconfigurations", registration, "ValidatingWebhookConfiguration",
		`"webhooks":[` + unusedWebhook + `]`, "", ""},
	{registrationPath + "mutatingwebhookconfigurations", registration, "MutatingWebhookConfiguration",
		`"webhooks":[` + unusedWebhook + `]`, "", ""},
	{policiesPath, registration, "ValidatingAdmissionPolicy", `"spec":{` + rulesFor("life", "") + `,
		"validations":[{"expression":"true"}]}`, "", ""},
	{bindingsPath, registration, "ValidatingAdmissionPolicyBinding", `"spec":{"policyName":"none",
		"validationActions":["Deny"]}`, "", ""},
	{mutatingPath, registration, "MutatingAdmissionPolicy", `"spec":{` + rulesFor("life", "") + `,
		"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/data'}]"}}]}`, "", ""},
	{registrationPath + "mutatingadmissionpolicybindings", registration, "MutatingAdmissionPolicyBinding",
		`"spec":{"policyName":"none"}`, "", ""},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "flowcontrol.apiserver.k8s.io/v1", "FlowSchema",
		`"spec":{"matchingPrecedence":9000,"priorityLevelConfiguration":{"name":"none"}}`, "", ""},
	{"/apis/networking.k8s.io/v1/ipaddresses", "networking.k8s.io/v1", "IPAddress",
		`"spec":{"parentRef":{"resource":"services","namespace":"a","name":"b"}}`, "192.0.2.77", ""},
	{"/apis/networking.k8s.io/v1/servicecidrs", "networking.k8s.io/v1", "ServiceCIDR",
		`"spec":{"cidrs":["192.0.2.0/24"]}`, "", ""},
	{"/apis/resource.k8s.io/v1/resourceslices", "resource.k8s.io/v1", "ResourceSlice", `"spec":{"driver":"d.example.com",
		"pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n","devices":[]}`, "", ""},
	{"/apis/storage.k8s.io/v1/volumeattributesclasses", "storage.k8s.io/v1", "VolumeAttributesClass",
		`"driverName":"a.b","parameters":{"a":"b"}`, "", ""},
}

const (
	registration  = "admissionregistration.k8s.io/v1"
	unusedWebhook = `{"name":"a.life.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{
		"url":"https://127.0.0.1:1/"},"rules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":
		["CREATE"],"resources":["none"]}]}`
)
