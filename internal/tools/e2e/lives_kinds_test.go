package e2e

import "strings"

const (
	onePod   = `"spec":{"containers":[{"name":"c","image":"i"}]}`
	template = `"template":{"metadata":{"labels":{"a":"b"}},` + onePod + `}`
	selected = `"selector":{"matchLabels":{"a":"b"}}`
)

// living is a kind whose objects can be created, changed and deleted. All texts are members of a JSON object.
type living struct {
	path, kind string
	body       string // what an object has besides apiVersion, kind and metadata
	change     string // a merge patch that one would send, whether the kind takes it or not
	bad        string // a merge patch that makes it an object that is refused
	name       string // of the object, where the kind asks for a certain one; # is the number of the script
	settled    string // in its status when the server's own controllers have written what they write for a new object
}

// version is the apiVersion of the kind.
func (k living) version() string {
	parts := strings.Split(k.path, "/")
	if parts[1] == "api" {
		return parts[2]
	}
	return parts[2] + "/" + parts[3]
}

// kindsWithLives are all kinds that the embedded server stores.
var kindsWithLives = []living{
	{path: "/api/v1/${ns}/configmaps", kind: "ConfigMap", body: `"data":{"a":"b"}`, change: `"data":{"a":"c"}`,
		bad: `"data":{"a b":"c"}`},
	{path: "/api/v1/${ns}/secrets", kind: "Secret", body: `"stringData":{"a":"b"}`, change: `"data":{"c":"ZA=="}`,
		bad: `"data":{"a":"?"}`},
	{path: "/api/v1/${ns}/serviceaccounts", kind: "ServiceAccount", body: `"automountServiceAccountToken":false`,
		change: `"imagePullSecrets":[{"name":"s"}]`, bad: `"automountServiceAccountToken":"no"`},
	{path: "/api/v1/${ns}/services", kind: "Service", body: `"spec":{"clusterIP":"None","selector":{"a":"b"}}`,
		change: `"spec":{"selector":{"c":"d"},"ports":[{"port":80}]}`, bad: `"spec":{"ports":[{"port":-1}]}`},
	{path: "/api/v1/${ns}/endpoints", kind: "Endpoints",
		body:   `"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":1}]}]`,
		change: `"subsets":[{"notReadyAddresses":[{"ip":"192.0.2.2"}]}]`, bad: `"subsets":[{"addresses":[{"ip":"a"}]}]`},
	{path: "/api/v1/${ns}/limitranges", kind: "LimitRange", body: `"spec":{"limits":[{"type":"Pod","max":{"cpu":"1"}}]}`,
		change: `"spec":{"limits":[{"type":"Container","default":{"cpu":"1"}}]}`,
		bad:    `"spec":{"limits":[{"type":"Pod","min":{"cpu":"2"},"max":{"cpu":"1"}}]}`},
	{path: "/api/v1/${ns}/resourcequotas", kind: "ResourceQuota", body: `"spec":{"hard":{"configmaps":"100"}}`,
		change: `"spec":{"hard":{"configmaps":"50","cpu":"2"}}`, bad: `"spec":{"hard":{"configmaps":"1.5"}}`},
	{path: "/api/v1/${ns}/podtemplates", kind: "PodTemplate", body: template,
		change: `"template":{"metadata":{"labels":{"c":"d"}}}`, bad: `"template":{"spec":{"restartPolicy":"Often"}}`},
	{path: "/api/v1/${ns}/replicationcontrollers", kind: "ReplicationController",
		body: `"spec":{"replicas":0,` + template + `}`, change: `"spec":{"minReadySeconds":5}`, bad: `"spec":{"replicas":-1}`},
	{path: "/api/v1/nodes", kind: "Node", body: `"spec":{"unschedulable":true}`,
		change: `"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}`,
		bad:    `"spec":{"taints":[{"key":"a","effect":"Never"}]}`},
	{path: "/apis/apps/v1/${ns}/controllerrevisions", kind: "ControllerRevision", body: `"revision":1,"data":{"a":"b"}`,
		change: `"revision":2`, bad: `"revision":-1`},
	{path: "/apis/apps/v1/${ns}/deployments", kind: "Deployment",
		body:   `"spec":{"replicas":0,` + selected + `,` + template + `}`,
		change: `"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}`, bad: `"spec":{"replicas":-1}`},
	{path: "/apis/apps/v1/${ns}/replicasets", kind: "ReplicaSet",
		body:   `"spec":{"replicas":0,` + selected + `,` + template + `}`,
		change: `"spec":{"minReadySeconds":5}`, bad: `"spec":{"selector":{"matchLabels":{"c":"d"}}}`},
	{path: "/apis/apps/v1/${ns}/statefulsets", kind: "StatefulSet",
		body:   `"spec":{"replicas":0,"serviceName":"s",` + selected + `,` + template + `}`,
		change: `"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}`,
		bad:    `"spec":{"podManagementPolicy":"Random"}`},
	{path: "/apis/apps/v1/${ns}/daemonsets", kind: "DaemonSet", body: `"spec":{` + selected + `,` + template + `}`,
		change: `"spec":{"minReadySeconds":5}`, bad: `"spec":{"minReadySeconds":-5}`},
	{path: "/apis/autoscaling/v2/${ns}/horizontalpodautoscalers", kind: "HorizontalPodAutoscaler",
		body:   `"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}`,
		change: `"spec":{"minReplicas":2,"behavior":{"scaleDown":{"stabilizationWindowSeconds":60}}}`,
		bad:    `"spec":{"minReplicas":4}`},
	{path: "/apis/autoscaling/v1/${ns}/horizontalpodautoscalers", kind: "HorizontalPodAutoscaler",
		body:   `"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}`,
		change: `"spec":{"targetCPUUtilizationPercentage":50}`, bad: `"spec":{"maxReplicas":0}`},
	{path: "/apis/batch/v1/${ns}/cronjobs", kind: "CronJob",
		body:   `"spec":{"schedule":"@daily","suspend":true,"jobTemplate":{"spec":{` + podTemplateOnce + `}}}`,
		change: `"spec":{"schedule":"*/5 * * * *","timeZone":"Etc/UTC"}`, bad: `"spec":{"schedule":"daily"}`},
	{path: "/apis/coordination.k8s.io/v1/${ns}/leases", kind: "Lease", body: `"spec":{"holderIdentity":"a"}`,
		change: `"spec":{"holderIdentity":"b","leaseTransitions":1}`, bad: `"spec":{"leaseDurationSeconds":0}`},
	{path: "/apis/discovery.k8s.io/v1/${ns}/endpointslices", kind: "EndpointSlice",
		body:   `"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.1"]}]`,
		change: `"endpoints":[{"addresses":["192.0.2.2"],"conditions":{"ready":false}}]`, bad: `"addressType":"IPv5"`},
	{path: "/apis/networking.k8s.io/v1/${ns}/ingresses", kind: "Ingress",
		body:   `"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}`,
		change: `"spec":{"ingressClassName":"c","tls":[{"hosts":["a.example.com"]}]}`,
		bad:    `"spec":{"ingressClassName":"A_B"}`},
	{path: "/apis/networking.k8s.io/v1/ingressclasses", kind: "IngressClass", body: `"spec":{"controller":"a.b/c"}`,
		change: `"spec":{"parameters":{"kind":"K","name":"n"}}`, bad: `"spec":{"controller":"c"}`},
	{path: "/apis/networking.k8s.io/v1/${ns}/networkpolicies", kind: "NetworkPolicy", body: `"spec":{"podSelector":{}}`,
		change: `"spec":{"egress":[{}],"policyTypes":["Egress"]}`, bad: `"spec":{"policyTypes":["Sideways"]}`},
	{path: "/apis/node.k8s.io/v1/runtimeclasses", kind: "RuntimeClass", body: `"handler":"h"`,
		change: `"overhead":{"podFixed":{"cpu":"1m"}}`, bad: `"handler":"H"`},
	{path: "/apis/policy/v1/${ns}/poddisruptionbudgets", kind: "PodDisruptionBudget",
		body: `"spec":{"minAvailable":1,` + selected + `}`, change: `"spec":{"minAvailable":"50%"}`,
		bad: `"spec":{"minAvailable":"half"}`},
	{path: "/apis/rbac.authorization.k8s.io/v1/${ns}/roles", kind: "Role",
		body:   `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`,
		change: `"rules":[{"apiGroups":["apps"],"resources":["*"],"verbs":["*"]}]`,
		bad:    `"rules":[{"apiGroups":[""],"resources":["pods"]}]`},
	{path: "/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings", kind: "RoleBinding",
		body:   `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}`,
		change: `"subjects":[{"kind":"User","name":"u"}]`, bad: `"roleRef":{"kind":"User"}`},
	{path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", kind: "ClusterRole",
		body:   `"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]`,
		change: `"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}`,
		bad:    `"rules":[{"nonResourceURLs":["/x"]}]`},
	{path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", kind: "ClusterRoleBinding",
		body:   `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"}`,
		change: `"subjects":[{"kind":"ServiceAccount","name":"u","namespace":"n"}]`, bad: `"subjects":[{"kind":"Pod"}]`},
	{path: "/apis/scheduling.k8s.io/v1/priorityclasses", kind: "PriorityClass", body: `"value":1`,
		change: `"description":"d"`, bad: `"value":2000000000`},
	{path: "/apis/storage.k8s.io/v1/csidrivers", kind: "CSIDriver", body: `"spec":{"attachRequired":false}`,
		change: `"spec":{"podInfoOnMount":true}`, bad: `"spec":{"volumeLifecycleModes":["Eternal"]}`},
	{path: "/apis/storage.k8s.io/v1/csinodes", kind: "CSINode", body: `"spec":{"drivers":[{"name":"d","nodeID":"n"}]}`,
		change: `"spec":{"drivers":[{"name":"d","nodeID":"n"},{"name":"e","nodeID":"n"}]}`, bad: `"spec":{"drivers":[{"name":"d"}]}`},
	{path: "/apis/storage.k8s.io/v1/${ns}/csistoragecapacities", kind: "CSIStorageCapacity",
		body: `"storageClassName":"s","capacity":"1Gi"`, change: `"capacity":"2Gi"`, bad: `"capacity":"-1"`},
	{path: "/apis/storage.k8s.io/v1/storageclasses", kind: "StorageClass", body: `"provisioner":"a.b/c"`,
		change: `"allowVolumeExpansion":true`, bad: `"reclaimPolicy":"Burn"`},
	{path: "/apis/storage.k8s.io/v1/volumeattachments", kind: "VolumeAttachment",
		body:   `"spec":{"attacher":"a","nodeName":"n","source":{"persistentVolumeName":"p"}}`,
		change: `"spec":{"nodeName":"m"}`, bad: `"spec":{"source":null}`},
	{path: "/apis/resource.k8s.io/v1/deviceclasses", kind: "DeviceClass", body: `"spec":{}`,
		change: `"spec":{"extendedResourceName":"a.b/c"}`, bad: `"spec":{"selectors":[{}]}`},
	{path: "/apis/resource.k8s.io/v1/${ns}/resourceclaims", kind: "ResourceClaim", body: `"spec":{"devices":{}}`,
		change: `"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}`,
		bad:    `"spec":{"devices":{"requests":[{"name":"r"}]}}`},
	{path: "/apis/resource.k8s.io/v1/${ns}/resourceclaimtemplates", kind: "ResourceClaimTemplate",
		body: `"spec":{"spec":{"devices":{}}}`, change: `"spec":{"metadata":{"labels":{"a":"b"}}}`,
		bad: `"spec":{"spec":{"devices":{"requests":[{"name":"r"}]}}}`},
	{path: "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", kind: "PriorityLevelConfiguration",
		body:   `"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}`,
		change: `"spec":{"limited":{"nominalConcurrencyShares":5}}`, bad: `"spec":{"type":"Exempt"}`},
	{path: "/apis/skiff.dev/v1alpha1/${ns}/webservers", kind: "WebServer", body: `"spec":{"image":"nginx:1"}`,
		change: `"spec":{"replicas":2}`, bad: `"spec":{"replicas":"many"}`},
	{path: "/api/v1/persistentvolumes", kind: "PersistentVolume", body: `"spec":{"capacity":{"storage":"1Gi"},
		"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}`, change: `"spec":{"storageClassName":"s"}`,
		bad: `"spec":{"persistentVolumeReclaimPolicy":"Burn"}`},
	{path: "/api/v1/${ns}/persistentvolumeclaims", kind: "PersistentVolumeClaim",
		body:   `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`,
		change: `"spec":{"volumeName":"v"}`, bad: `"spec":{"accessModes":["Write"]}`},
	{path: "/api/v1/${ns}/pods", kind: "Pod", body: onePod, change: `"spec":{"activeDeadlineSeconds":60}`,
		bad: `"spec":{"dnsPolicy":"Never"}`},
	{path: "/api/v1/namespaces", kind: "Namespace", name: "${NS}-2", body: `"spec":{}`,
		change: `"metadata":{"annotations":{"a":"b"}}`, bad: `"metadata":{"labels":{"a":"?"}}`},
	{path: "/api/v1/${ns}/events", kind: "Event", body: `"involvedObject":{"namespace":"${NS}","name":"x","kind":"Pod"},
		"reason":"R","message":"m","type":"Normal","firstTimestamp":"2026-01-01T00:00:00Z","count":1`,
		change: `"count":2`, bad: `"involvedObject":{"namespace":"other"}`},
	{path: "/apis/events.k8s.io/v1/${ns}/events", kind: "Event", body: `"eventTime":"2026-01-01T00:00:00.000000Z",
		"reportingController":"a.b/c","reportingInstance":"i","action":"A","reason":"R","type":"Normal","regarding":{
		"namespace":"${NS}","name":"x","kind":"Pod"}`, change: `"series":{"count":2,
		"lastObservedTime":"2026-01-01T00:00:01.000000Z"}`, bad: `"type":"Odd"`},
	{path: "/apis/batch/v1/${ns}/jobs", kind: "Job", body: `"spec":{"suspend":true,` + podTemplateOnce + `}`,
		change: `"spec":{"parallelism":2}`, bad: `"spec":{"completions":-1}`},
	{path: "/apis/certificates.k8s.io/v1/certificatesigningrequests", kind: "CertificateSigningRequest",
		body:   `"spec":{"signerName":"example.com/life","request":"` + csrPEM + `","usages":["client auth"]}`,
		change: `"spec":{"usages":["server auth"]}`, bad: `"spec":{"signerName":"life"}`},
	{path: definitions, kind: "CustomResourceDefinition", name: "lives.${NS}.example.com",
		settled: "InitialNamesAccepted",
		body: `"spec":{"group":"${NS}.example.com","scope":"Namespaced","names":{"plural":"lives","kind":"Life"},"versions":[{
		"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}`,
		change: `"spec":{"versions":[{"name":"v1","served":true,"storage":true,"deprecated":true,"schema":{"openAPIV3Schema":{
		"type":"object"}}}]}`, bad: `"spec":{"scope":"World"}`},
	{path: registrationPath + "validatingwebhookconfigurations", kind: "ValidatingWebhookConfiguration",
		body: `"webhooks":[` + unusedWebhook + `]`, change: `"webhooks":null`, bad: `"webhooks":[{"name":"a"}]`},
	{path: registrationPath + "mutatingwebhookconfigurations", kind: "MutatingWebhookConfiguration",
		body: `"webhooks":[` + unusedWebhook + `]`, change: `"webhooks":null`, bad: `"webhooks":[{"name":"a"}]`},
	{path: policiesPath, kind: "ValidatingAdmissionPolicy", body: `"spec":{` + rulesFor("life", "") + `,
		"validations":[{"expression":"true"}]}`, change: `"spec":{"failurePolicy":"Ignore"}`,
		bad: `"spec":{"validations":[{"expression":"true +"}]}`},
	{path: bindingsPath, kind: "ValidatingAdmissionPolicyBinding", body: `"spec":{"policyName":"none",
		"validationActions":["Deny"]}`, change: `"spec":{"validationActions":["Warn"]}`,
		bad: `"spec":{"validationActions":["Deny","Warn"]}`},
	{path: mutatingPath, kind: "MutatingAdmissionPolicy", body: `"spec":{` + rulesFor("life", "") + `,
		"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/data'}]"}}]}`,
		change: `"spec":{"reinvocationPolicy":"IfNeeded"}`, bad: `"spec":{"reinvocationPolicy":"Always"}`},
	{path: registrationPath + "mutatingadmissionpolicybindings", kind: "MutatingAdmissionPolicyBinding",
		body: `"spec":{"policyName":"none"}`, change: `"spec":{"matchResources":{"matchPolicy":"Exact"}}`,
		bad: `"spec":{"policyName":"A_B"}`},
	{path: "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", kind: "FlowSchema",
		body:   `"spec":{"matchingPrecedence":9000,"priorityLevelConfiguration":{"name":"none"}}`,
		change: `"spec":{"distinguisherMethod":{"type":"ByUser"}}`, bad: `"spec":{"matchingPrecedence":10001}`},
	{path: "/apis/networking.k8s.io/v1/ipaddresses", kind: "IPAddress", name: "192.0.2.#",
		body:   `"spec":{"parentRef":{"resource":"services","namespace":"a","name":"b"}}`,
		change: `"spec":{"parentRef":{"name":"c"}}`, bad: `"spec":{"parentRef":null}`},
	{path: "/apis/networking.k8s.io/v1/servicecidrs", kind: "ServiceCIDR", body: `"spec":{"cidrs":["192.0.2.0/24"]}`,
		change: `"spec":{"cidrs":["192.0.2.0/25"]}`, bad: `"spec":{"cidrs":["192.0.2.1/24"]}`},
	{path: "/apis/resource.k8s.io/v1/resourceslices", kind: "ResourceSlice", body: `"spec":{"driver":"d.example.com",
		"pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n","devices":[]}`,
		change: `"spec":{"pool":{"generation":2}}`, bad: `"spec":{"pool":{"resourceSliceCount":0}}`},
	{path: "/apis/storage.k8s.io/v1/volumeattributesclasses", kind: "VolumeAttributesClass",
		body: `"driverName":"a.b","parameters":{"a":"b"}`, change: `"parameters":{"a":"c"}`, bad: `"driverName":"a b"`},
}

const unusedWebhook = `{"name":"a.life.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{
		"url":"https://127.0.0.1:1/"},"rules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":
		["CREATE"],"resources":["none"]}]}`
