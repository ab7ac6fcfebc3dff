package e2e

import "slices"

// moreKindScripts: the kinds that people use less often.
var moreKindScripts = slices.Concat(
	object("volume", "/api/v1/persistentvolumes", "v1", "PersistentVolume",
		`"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/tmp"},
			"storageClassName":"slow"}`, map[string]string{
			"no capacity":  `"spec":{"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/tmp"}}`,
			"no modes":     `"spec":{"capacity":{"storage":"1Gi"},"hostPath":{"path":"/tmp"}}`,
			"no source":    `"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany"]}`,
			"unknown mode": `"spec":{"capacity":{"storage":"1Gi"},"accessModes":["Any"],"hostPath":{"path":"/tmp"}}`,
			"block, by CSI": `"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadOnlyMany"],"volumeMode":"Block",
				"csi":{"driver":"d.example","volumeHandle":"v"}}`,
		}, "", ""),
	object("storage-class", "/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClass",
		`"provisioner":"example.com/disk","parameters":{"type":"ssd"},"allowVolumeExpansion":true`,
		map[string]string{
			"no provisioner": `"parameters":{"type":"ssd"}`,
			"unknown mode":   `"provisioner":"example.com/disk","volumeBindingMode":"Later"`,
			"unknown policy": `"provisioner":"example.com/disk","reclaimPolicy":"Forget"`,
		}, `{"allowVolumeExpansion":false}`, `{"parameters":{"type":"hdd"}}`),
	object("csi-driver", "/apis/storage.k8s.io/v1/csidrivers", "storage.k8s.io/v1", "CSIDriver",
		`"spec":{"podInfoOnMount":true}`, nil, "", ""),
	object("csi-node", "/apis/storage.k8s.io/v1/csinodes", "storage.k8s.io/v1", "CSINode",
		`"spec":{"drivers":[{"name":"d.example","nodeID":"n","topologyKeys":["zone"]}]}`, nil, "", ""),
	object("csi-capacity", "/apis/storage.k8s.io/v1/${ns}/csistoragecapacities", "storage.k8s.io/v1",
		"CSIStorageCapacity", `"storageClassName":"slow","capacity":"10Gi","nodeTopology":{"matchLabels":{"a":"b"}}`,
		nil, "", ""),
	object("attachment", "/apis/storage.k8s.io/v1/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment",
		`"spec":{"attacher":"d.example","nodeName":"n","source":{"persistentVolumeName":"v"}}`,
		nil, "", ""),
	object("attributes-class", "/apis/storage.k8s.io/v1/volumeattributesclasses", "storage.k8s.io/v1",
		"VolumeAttributesClass", `"driverName":"d.example","parameters":{"iops":"10"}`, nil, "", ""),
	object("limit-range", "/api/v1/${ns}/limitranges", "v1", "LimitRange",
		`"spec":{"limits":[{"type":"Container","max":{"cpu":"2"},"min":{"memory":"1Mi"},"default":{"memory":"1Gi"}}]}`,
		map[string]string{
			"twice": `"spec":{"limits":[{"type":"Pod","max":{"cpu":"2"}},{"type":"Pod","max":{"cpu":"2"}}]}`,
			"min above max": `"spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"min":{"cpu":"2"},` +
				`"default":{"cpu":"1"},"defaultRequest":{"cpu":"1"}}]}`,
		}, `{"metadata":{"labels":{"a":"b"}}}`,
		`{"spec":{"limits":[{"type":"Pod","max":{"cpu":"2"},"default":{"cpu":"1"}}]}}`),
	object("quota", "/api/v1/${ns}/resourcequotas", "v1", "ResourceQuota",
		`"spec":{"hard":{"pods":"10","requests.cpu":"2","limits.memory":"1Gi"}}`, map[string]string{
			"negative": `"spec":{"hard":{"pods":"-1"}}`,
		}, "", ""),
	object("pod-template", "/api/v1/${ns}/podtemplates", "v1", "PodTemplate",
		`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		map[string]string{"no containers": `"template":{"spec":{}}`},
		`{"template":{"metadata":{"labels":{"app":"api"}}}}`, `{"template":{"spec":{"containers":null}}}`),
	object("replication-controller", "/api/v1/${ns}/replicationcontrollers", "v1", "ReplicationController",
		`"spec":{"replicas":0,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c",
			"image":"i"}]}}}`, map[string]string{
			"no template": `"spec":{"selector":{"app":"web"}}`,
			"negative": `"spec":{"replicas":-1,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[
				{"name":"c","image":"i"}]}}}`,
			"other labels": `"spec":{"selector":{"app":"api"},"template":{"metadata":{"labels":{"app":"web"}},
				"spec":{"containers":[{"name":"c","image":"i"}]}}}`,
		}, "", ""),
	object("priority-class", "/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClass",
		`"value":100,"description":"important"`, map[string]string{
			"too high":       `"value":2000000000`,
			"unknown policy": `"value":1,"preemptionPolicy":"Maybe"`,
		}, `{"description":"less important"}`, `{"value":7}`),
	object("runtime-class", "/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass",
		`"handler":"fast"`, map[string]string{"no handler": `"scheduling":{"nodeSelector":{"a":"b"}}`,
			"bad handler": `"handler":"A_B"`}, `{"metadata":{"labels":{"a":"b"}}}`, `{"handler":"slow"}`),
	object("endpoint-slice", "/apis/discovery.k8s.io/v1/${ns}/endpointslices", "discovery.k8s.io/v1", "EndpointSlice",
		`"addressType":"IPv4","ports":[{"port":80},{"name":"m","port":9090}],
			"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}},{"addresses":["10.0.0.2"]}]`,
		map[string]string{
			"no type":        `"endpoints":[]`,
			"unknown type":   `"addressType":"Post","endpoints":[]`,
			"no address":     `"addressType":"IPv4","endpoints":[{"addresses":[]}]`,
			"another family": `"addressType":"IPv6","endpoints":[{"addresses":["10.0.0.1"]}]`,
			"no ports":       `"addressType":"FQDN","endpoints":[{"addresses":["a.example"]}]`,
		}, `{"ports":null}`, `{"addressType":"IPv6"}`),
	object("cidr", "/apis/networking.k8s.io/v1/servicecidrs", "networking.k8s.io/v1", "ServiceCIDR",
		`"spec":{"cidrs":["10.200.0.0/24"]}`, map[string]string{
			"none":   `"spec":{"cidrs":[]}`,
			"broken": `"spec":{"cidrs":["10.200.0.0"]}`,
		}, "", ""),
	object("device-class", "/apis/resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1", "DeviceClass",
		`"spec":{"selectors":[{"cel":{"expression":"true"}}]}`, nil, `{"metadata":{"labels":{"a":"b"}}}`, ""),
	object("resource-claim", "/apis/resource.k8s.io/v1/${ns}/resourceclaims", "resource.k8s.io/v1", "ResourceClaim",
		`"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.example"}}]}}`, nil, "", ""),
	object("resource-claim-template", "/apis/resource.k8s.io/v1/${ns}/resourceclaimtemplates", "resource.k8s.io/v1",
		"ResourceClaimTemplate", `"spec":{"spec":{"devices":{"requests":[{"name":"gpu",
			"exactly":{"deviceClassName":"gpu.example"}}]}}}`, nil, `{"metadata":{"labels":{"a":"b"}}}`, ""),
	object("flow-schema", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "flowcontrol.apiserver.k8s.io/v1",
		"FlowSchema", `"spec":{"priorityLevelConfiguration":{"name":"catch-all"},"distinguisherMethod":{"type":"ByUser"}}`,
		map[string]string{"no level": `"spec":{}`}, "", ""),
	object("priority-level", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
		"flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration",
		`"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{}}}}`, nil, "", ""),
	[]Script{{Name: "eviction", Steps: []Step{
		{Name: "pod", Method: "POST", Path: "/api/v1/${ns}/pods", Body: `{"metadata":{"name":"p",
			"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}],
			"automountServiceAccountToken":false}}`},
		{Name: "runs", Method: "PATCH", Type: mergePatch, Path: "/api/v1/${ns}/pods/p/status",
			Body: `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`},
		{Name: "budget", Method: "POST", Path: budgetsPath, Body: `{"metadata":{"name":"b"},"spec":{"minAvailable":1,
			"selector":{"matchLabels":{"app":"web"}}}}`},
		evicted("not yet", "", "p"),
		budgetStatus("none left", `"observedGeneration":1,"desiredHealthy":1,"currentHealthy":1`),
		evicted("none left", "", "p"), evicted("another name", "", "q"),
		budgetStatus("one", `"disruptionsAllowed":1,"currentHealthy":2`),
		evicted("dry run", "?dryRun=All", "p"), evicted("allowed", "", "p"),
		{Name: "counted", Path: budgetsPath + "/b"}, {Name: "gone", Path: "/api/v1/${ns}/pods/p"},
		evicted("again", "", "p"),
	}}, {Name: "debug", Steps: []Step{
		{Name: "pod", Method: "POST", Path: "/api/v1/${ns}/pods", Body: `{"metadata":{"name":"p"},"spec":{
			"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}}`},
		debugged("add", strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"d","image":"busybox",
			"targetContainerName":"c","stdin":true}]}}`),
		debugged("again", strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"d","image":"busybox",
			"targetContainerName":"c","stdin":true}]}}`),
		debugged("remove", mergePatch, `{"spec":{"ephemeralContainers":null}}`),
		debugged("of no container", strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"e","image":"busybox",
			"targetContainerName":"nobody"}]}}`),
		debugged("with ports", strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"e","image":"busybox",
			"ports":[{"containerPort":80}]}]}}`),
		debugged("name in use", strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"c","image":"busybox"}]}}`),
		debugged("all else is ignored", strategicPatch, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[
			{"name":"c","image":"other"}],"ephemeralContainers":[{"name":"e","image":"busybox"}]}}`),
		{Name: "on create", Method: "POST", Path: "/api/v1/${ns}/pods", Body: `{"metadata":{"name":"q"},"spec":{
			"containers":[{"name":"c","image":"i"}],"ephemeralContainers":[{"name":"d","image":"i"}]}}`},
	}}, {Name: "csr", Steps: []Step{
		{Name: "create", Method: "POST", Path: csrs, Body: csrBody("scripted", csrPEM, `"usages":["client auth"]`)},
		{Name: "no request", Method: "POST", Path: csrs, Body: csrBody("bad", "", `"usages":["client auth"]`)},
		{Name: "no usages", Method: "POST", Path: csrs, Body: csrBody("bad", csrPEM, `"usages":[]`)},
		{Name: "unknown usage", Method: "POST", Path: csrs, Body: csrBody("bad", csrPEM, `"usages":["fun"]`)},
		{Name: "table", Path: csrs + "/scripted", Accept: asTable},
		{Name: "approve", Method: "PATCH", Type: mergePatch, Path: csrs + "/scripted/approval", Body: `{"status":{
			"conditions":[{"type":"Approved","status":"True","reason":"Scripted","message":"yes"}]}}`},
		{Name: "sign", Method: "PATCH", Type: mergePatch, Path: csrs + "/scripted/status", Body: `{"status":{
			"conditions":[{"type":"Failed","status":"True","reason":"Scripted","message":"no"}]}}`},
		{Name: "spec is kept", Method: "PATCH", Type: mergePatch, Path: csrs + "/scripted",
			Body: `{"metadata":{"labels":{"a":"b"}},"spec":{"usages":["server auth"]}}`},
		{Name: "approved table", Path: csrs + "/scripted", Accept: asTable},
		{Name: "delete", Method: "DELETE", Path: csrs + "/scripted"},
	}}},
)

// object is an objectScript that tries an unknown field beside all others.
func object(name, path, apiVersion, kind, rest string, variants map[string]string, change, refused string) []Script {
	return objectScript{kindScript: kindScript{name, path, apiVersion, kind, rest, variants, change, refused},
		typo: rest + `,"typo":1`}.steps()
}

const budgetsPath = "/apis/policy/v1/${ns}/poddisruptionbudgets"

// evicted evicts the pod p, in the name of name.
func evicted(step, query, name string) Step {
	return Step{Name: "evict: " + step, Method: "POST", Path: "/api/v1/${ns}/pods/p/eviction" + query,
		Body: `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + name + `"}}`}
}

// debugged patches the ephemeral containers of the pod p.
func debugged(step, kind, body string) Step {
	return Step{Name: step, Method: "PATCH", Type: kind, Path: "/api/v1/${ns}/pods/p/ephemeralcontainers", Body: body}
}

func budgetStatus(step, status string) Step {
	return Step{Name: "status: " + step, Method: "PATCH", Type: mergePatch, Path: budgetsPath + "/b/status",
		Body: `{"status":{` + status + `}}`}
}

const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func csrBody(name, request, more string) string {
	return `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"` + name +
		`"},"spec":{"signerName":"example.com/scripted","request":"` + request + `",` + more + `}}`
}

// csrPEM is a request for CN=u.
const csrPEM = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIR01HNENBUUF3RERFS01BZ0dBMVVFQXd3QmRUQlpNQk1HQnlx" +
	"R1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCTGhBYTZQUklNRjFkRnBYZnRsSHNvaE1XaGtURHhSM2MrZkp0UDhERGhSSXh0K3B0" +
	"cXhZbmVnNldvd3BSck05CmZkQkY3dElUUGVFeWdvNlAzSlZBS3dTZ0FEQUtCZ2dxaGtqT1BRUURBZ05JQURCRkFpQWVxVSsyNGxK" +
	"bEJpYlQKMitLQzlqOHFTeGduTHdHY0tJNEY5YWZpeWN1bUZBSWhBTkRiUzBVVGEreWd5WnpKTEUvZVgwYmVlbTluYllEeApOd29E" +
	"ZjNFTWhyL3kKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="
