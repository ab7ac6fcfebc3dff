package e2e

import (
	"encoding/json"
	"maps"
	"slices"
)

// refusal makes a script of what is refused of a kind: creates and updates are merge patches of base, by the names of
// their steps. An update is tried as a PUT and as a PATCH. Only base is stored; all else is a dry run.
type refusal struct {
	name, path, base string
	creates, updates map[string]string
}

func (k refusal) script() Script {
	merged := func(change string) string { return encoded(merge(parsed(k.base), parsed(change))) }
	name := Object(parsed(k.base).(map[string]any)).Str("metadata", "name")
	dry := "?dryRun=All"
	var steps []Step
	for _, step := range slices.Sorted(maps.Keys(k.creates)) {
		steps = append(steps, Step{Name: step, Method: "POST", Path: k.path + dry, Body: merged(k.creates[step])})
	}
	if len(k.updates) > 0 {
		steps = append(steps, Step{Name: "create", Method: "POST", Path: k.path, Body: k.base})
	}
	for _, step := range slices.Sorted(maps.Keys(k.updates)) {
		steps = append(steps,
			Step{Name: step + ", by PATCH", Method: "PATCH", Type: mergePatch, Path: k.path + "/" + name + dry,
				Body: k.updates[step]},
			Step{Name: step + ", by PUT", Method: "PUT", Path: k.path + "/" + name + dry,
				Body: merged(k.updates[step])})
	}
	return Script{Name: "refused-" + k.name, Steps: steps}
}

func parsed(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(text + ": " + err.Error())
	}
	return v
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// merge is a merge patch (RFC 7386).
func merge(into, change any) any {
	c, ok := change.(map[string]any)
	if !ok {
		return change
	}
	out, ok := into.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for k, v := range c {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}

// podOf is a pod's spec with one container that has these members besides its name and image.
func podOf(container string) string {
	return `{"spec":{"containers":[{"name":"c","image":"i",` + container + `}]}}`
}

// badPods have mistakes in containers and the volumes and settings around them.
var badPods = map[string]string{
	"mount of an unknown volume": podOf(`"volumeMounts":[{"name":"v","mountPath":"/v"}]`),
	"mount without path": `{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","image":"i",
		"volumeMounts":[{"name":"v"}]}]}}`,
	"two mounts at a path": `{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","image":"i",
		"volumeMounts":[{"name":"v","mountPath":"/v"},{"name":"v","mountPath":"/v"}]}]}}`,
	"empty probe":         podOf(`"livenessProbe":{}`),
	"two handlers":        podOf(`"readinessProbe":{"httpGet":{"port":80},"tcpSocket":{"port":80}}`),
	"negative probe":      podOf(`"startupProbe":{"periodSeconds":-1,"tcpSocket":{"port":80}}`),
	"liveness successes":  podOf(`"livenessProbe":{"successThreshold":2,"tcpSocket":{"port":80}}`),
	"probe of port 0":     podOf(`"livenessProbe":{"tcpSocket":{"port":0}}`),
	"exec of nothing":     podOf(`"livenessProbe":{"exec":{}}`),
	"request above limit": podOf(`"resources":{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}`),
	"negative request":    podOf(`"resources":{"requests":{"memory":"-1"}}`),
	"unknown pull policy": podOf(`"imagePullPolicy":"Sometimes"`),
	"unknown protocol":    podOf(`"ports":[{"containerPort":80,"protocol":"HTTP"}]`),
	"port name twice":     podOf(`"ports":[{"name":"a","containerPort":80},{"name":"a","containerPort":81}]`),
	"bad env name":        podOf(`"env":[{"name":"a=b","value":"x"}]`),
	"value and source": podOf(`"env":[{"name":"A","value":"x",
		"valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`),
	"volume without name":    `{"spec":{"volumes":[{"emptyDir":{}}]}}`,
	"volume with bad name":   `{"spec":{"volumes":[{"name":"A_B","emptyDir":{}}]}}`,
	"volume twice":           `{"spec":{"volumes":[{"name":"v","emptyDir":{}},{"name":"v","emptyDir":{}}]}}`,
	"volume without source":  `{"spec":{"volumes":[{"name":"v"}]}}`,
	"volume of two sources":  `{"spec":{"volumes":[{"name":"v","emptyDir":{},"configMap":{"name":"c"}}]}}`,
	"secret without name":    `{"spec":{"volumes":[{"name":"v","secret":{}}]}}`,
	"claim without name":     `{"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{}}]}}`,
	"unknown restart policy": `{"spec":{"restartPolicy":"Sometimes"}}`,
	"unknown DNS policy":     `{"spec":{"dnsPolicy":"None at all"}}`,
	"deadline of 0":          `{"spec":{"activeDeadlineSeconds":0}}`,
	"bad node selector":      `{"spec":{"nodeSelector":{"a b":"c"}}}`,
	"bad toleration":         `{"spec":{"tolerations":[{"key":"a","operator":"Exists","value":"b"}]}}`,
	"unknown toleration":     `{"spec":{"tolerations":[{"key":"a","operator":"Likes"}]}}`,
	"bad account":            `{"spec":{"serviceAccountName":"A_B"}}`,
	"bad hostname":           `{"spec":{"hostname":"a.b"}}`,
	"no containers":          `{"spec":{"containers":null}}`,
}

// inTemplates are bad pods as templates.
func inTemplates(more map[string]string) map[string]string {
	out := maps.Clone(more)
	for name, pod := range badPods {
		out["template: "+name] = `{"spec":{"template":` + pod + `}}`
	}
	return out
}

const plainPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"automountServiceAccountToken":false,
	"containers":[{"name":"c","image":"i"}]}}`

func workloadOf(kind, spec string) string {
	return `{"apiVersion":"apps/v1","kind":"` + kind + `","metadata":{"name":"w"},"spec":{` + spec +
		`"selector":{"matchLabels":{"app":"w"}},"template":{"metadata":{"labels":{"app":"w"}},
		"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
}

// refusedScripts: what a real server refuses.
var refusedScripts = scriptsOf(
	refusal{"secret", "/api/v1/${ns}/secrets",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k":"dg=="}}`,
		map[string]string{
			"TLS without keys":        `{"type":"kubernetes.io/tls"}`,
			"TLS without a key":       `{"type":"kubernetes.io/tls","data":{"tls.crt":"dg=="}}`,
			"TLS":                     `{"type":"kubernetes.io/tls","data":{"tls.crt":"dg==","tls.key":"dg=="}}`,
			"empty key":               `{"data":{"":"dg=="}}`,
			"bad key":                 `{"data":{"a b":"dg==","..":"dg==","..a":"dg=="}}`,
			"key in plain":            `{"stringData":{"a/b":"c"}}`,
			"basic auth without":      `{"type":"kubernetes.io/basic-auth"}`,
			"SSH without":             `{"type":"kubernetes.io/ssh-auth"}`,
			"docker without":          `{"type":"kubernetes.io/dockerconfigjson"}`,
			"docker of no JSON":       `{"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"dg=="}}`,
			"old docker without":      `{"type":"kubernetes.io/dockercfg"}`,
			"token of no account":     `{"type":"kubernetes.io/service-account-token"}`,
			"type of our own":         `{"type":"example.com/anything"}`,
			"with a resource version": `{"metadata":{"resourceVersion":"1"}}`,
		}, map[string]string{"type": `{"type":"kubernetes.io/basic-auth","data":{"username":"dg=="}}`,
			"empty key": `{"data":{"":"dg=="}}`}},
	refusal{"config-map", "/api/v1/${ns}/configmaps",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"},"immutable":true}`,
		map[string]string{"empty key": `{"data":{"":"v"}}`, "bad key": `{"data":{"a b":"v"}}`,
			"key twice":               `{"binaryData":{"k":"dg=="}}`,
			"bad binary key":          `{"binaryData":{"a b":"dg=="}}`,
			"with a resource version": `{"metadata":{"resourceVersion":"1"}}`},
		map[string]string{"data": `{"data":{"k":"w"}}`, "mutable again": `{"immutable":false}`}},
	refusal{"pod", "/api/v1/${ns}/pods", plainPod, badPods, nil},
	refusal{"grace", "/api/v1/${ns}/pods", plainPod,
		map[string]string{"negative": `{"spec":{"terminationGracePeriodSeconds":-5}}`}, nil},
	refusal{"deployment", "/apis/apps/v1/${ns}/deployments", workloadOf("Deployment", `"replicas":0,`),
		inTemplates(map[string]string{
			"Recreate with rollingUpdate": `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":{"maxSurge":1}}}}`,
			"unknown strategy":            `{"spec":{"strategy":{"type":"Sudden"}}}`,
			"no progress possible":        `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0}}}}`,
			"more than all":               `{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"101%"}}}}`,
			"no percentage":               `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"many"}}}}`,
			"negative":                    `{"spec":{"replicas":-1,"minReadySeconds":-1,"revisionHistoryLimit":-1}}`,
			"deadline before ready":       `{"spec":{"minReadySeconds":5,"progressDeadlineSeconds":5}}`,
			"never restarted":             `{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}`,
			"deadline of pods":            `{"spec":{"template":{"spec":{"activeDeadlineSeconds":5}}}}`,
			"empty selector":              `{"spec":{"selector":{"matchLabels":null}}}`,
			"no selector":                 `{"spec":{"selector":null}}`,
			"unknown operator":            `{"spec":{"selector":{"matchExpressions":[{"key":"app","operator":"Like"}]}}}`,
			"bad label":                   `{"spec":{"template":{"metadata":{"labels":{"a b":"c"}}}}}`,
			"with a resource version":     `{"metadata":{"resourceVersion":"1"}}`,
		}), map[string]string{"selector": `{"spec":{"selector":{"matchLabels":{"app":"w","b":"c"}},
			"template":{"metadata":{"labels":{"b":"c"}}}}}`}},
	refusal{"replica-set", "/apis/apps/v1/${ns}/replicasets", workloadOf("ReplicaSet", `"replicas":0,`),
		map[string]string{
			"negative":        `{"spec":{"replicas":-1,"minReadySeconds":-1}}`,
			"never restarted": `{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}`,
			"empty selector":  `{"spec":{"selector":{"matchLabels":null}}}`,
		}, map[string]string{"selector": `{"spec":{"selector":{"matchLabels":{"app":"w","b":"c"}},
			"template":{"metadata":{"labels":{"b":"c"}}}}}`}},
	refusal{"stateful-set", "/apis/apps/v1/${ns}/statefulsets",
		workloadOf("StatefulSet", `"replicas":0,"serviceName":"w",`),
		map[string]string{
			"negative":           `{"spec":{"replicas":-1,"minReadySeconds":-1,"revisionHistoryLimit":-1}}`,
			"unknown management": `{"spec":{"podManagementPolicy":"Any"}}`,
			"unknown strategy":   `{"spec":{"updateStrategy":{"type":"Sudden"}}}`,
			"OnDelete with rollingUpdate": `{"spec":{"updateStrategy":{"type":"OnDelete",
				"rollingUpdate":{"partition":1}}}}`,
			"negative partition": `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":-1}}}}`,
			"never restarted":    `{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}`,
			"unknown retention":  `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Burn"}}}`,
			"empty selector":     `{"spec":{"selector":{"matchLabels":null}}}`,
			"negative start":     `{"spec":{"ordinals":{"start":-1}}}`,
		}, map[string]string{"service": `{"spec":{"serviceName":"x"}}`,
			"management": `{"spec":{"podManagementPolicy":"Parallel"}}`,
			"selector": `{"spec":{"selector":{"matchLabels":{"app":"w","b":"c"}},
				"template":{"metadata":{"labels":{"b":"c"}}}}}`,
			"claims": `{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],
				"resources":{"requests":{"storage":"1Gi"}}}}]}}`,
			"replicas": `{"spec":{"replicas":1}}`}},
	refusal{"daemon-set", "/apis/apps/v1/${ns}/daemonsets", workloadOf("DaemonSet", ""),
		map[string]string{
			"negative":         `{"spec":{"minReadySeconds":-1,"revisionHistoryLimit":-1}}`,
			"unknown strategy": `{"spec":{"updateStrategy":{"type":"Sudden"}}}`,
			"no progress":      `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0}}}}`,
			"both":             `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"maxSurge":1}}}}`,
			"never restarted":  `{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}`,
			"empty selector":   `{"spec":{"selector":{"matchLabels":null}}}`,
		}, map[string]string{"selector": `{"spec":{"selector":{"matchLabels":{"app":"w","b":"c"}},
			"template":{"metadata":{"labels":{"b":"c"}}}}}`}},
	refusal{"scaler", "/apis/autoscaling/v2/${ns}/horizontalpodautoscalers",
		`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{
			"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"w"},"maxReplicas":3}}`,
		map[string]string{
			"min above max":    `{"spec":{"minReplicas":5}}`,
			"min of 0":         `{"spec":{"minReplicas":0}}`,
			"max of 0":         `{"spec":{"maxReplicas":0}}`,
			"no max":           `{"spec":{"maxReplicas":null}}`,
			"no max, min of 2": `{"spec":{"maxReplicas":null,"minReplicas":2}}`,
			"no target":        `{"spec":{"scaleTargetRef":null}}`,
			"bad target":       `{"spec":{"scaleTargetRef":{"kind":"a/b","name":"c/d"}}}`,
			"bad version":      `{"spec":{"scaleTargetRef":{"apiVersion":"a/b/c"}}}`,
			"metric of nobody": `{"spec":{"metrics":[{"type":"Moon"}]}}`,
			"no metric source": `{"spec":{"metrics":[{"type":"Resource"}]}}`,
			"no metric name": `{"spec":{"metrics":[{"type":"Resource","resource":{"target":{
				"type":"Utilization","averageUtilization":50}}}]}}`,
			"utilization of 0": `{"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{
				"type":"Utilization","averageUtilization":0}}}]}}`,
			"target without value": `{"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{
				"type":"Utilization"}}}]}}`,
		}, map[string]string{"min above max": `{"spec":{"minReplicas":5}}`}},
	refusal{"lease", "/apis/coordination.k8s.io/v1/${ns}/leases",
		`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},"spec":{
			"holderIdentity":"a","leaseDurationSeconds":15}}`,
		map[string]string{
			"negative duration":    `{"spec":{"leaseDurationSeconds":-1}}`,
			"duration of 0":        `{"spec":{"leaseDurationSeconds":0}}`,
			"negative transitions": `{"spec":{"leaseTransitions":-1}}`,
			"no holder":            `{"spec":{"holderIdentity":""}}`,
			"preferred holder":     `{"spec":{"preferredHolder":"b"}}`,
			"unknown strategy":     `{"spec":{"strategy":"a b"}}`,
		}, map[string]string{"negative duration": `{"spec":{"leaseDurationSeconds":-1}}`}},
	refusal{"service", "/api/v1/${ns}/services",
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`,
		map[string]string{
			"unknown type":        `{"spec":{"type":"Any"}}`,
			"no ports":            `{"spec":{"ports":null}}`,
			"port of 0":           `{"spec":{"ports":[{"port":0}]}}`,
			"unnamed ports":       `{"spec":{"ports":[{"port":80},{"port":81}]}}`,
			"port twice":          `{"spec":{"ports":[{"name":"a","port":80},{"name":"b","port":80}]}}`,
			"name twice":          `{"spec":{"ports":[{"name":"a","port":80},{"name":"a","port":81}]}}`,
			"unknown protocol":    `{"spec":{"ports":[{"port":80,"protocol":"HTTP"}]}}`,
			"bad target":          `{"spec":{"ports":[{"port":80,"targetPort":"A_B"}]}}`,
			"bad selector":        `{"spec":{"selector":{"a b":"c"}}}`,
			"unknown affinity":    `{"spec":{"sessionAffinity":"Forever"}}`,
			"external of no name": `{"spec":{"type":"ExternalName"}}`,
			"no address":          `{"spec":{"clusterIP":"nothing"}}`,
			"node port of inner":  `{"spec":{"ports":[{"port":80,"nodePort":30001}]}}`,
			"bad name":            `{"metadata":{"name":"1s"}}`,
		}, map[string]string{"cluster IP": `{"spec":{"clusterIP":"10.96.7.7","clusterIPs":["10.96.7.7"]}}`}},
	refusal{"job", "/apis/batch/v1/${ns}/jobs", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},
		"spec":{"managedBy":"skiff.dev/nobody","template":{"spec":{"restartPolicy":"Never",
		"containers":[{"name":"c","image":"i"}]}}}}`,
		map[string]string{
			"unknown mode":        `{"spec":{"completionMode":"Any"}}`,
			"own selector":        `{"spec":{"selector":{"matchLabels":{"a":"b"}}}}`,
			"index limit":         `{"spec":{"backoffLimitPerIndex":1}}`,
			"indexed by too many": `{"spec":{"completionMode":"Indexed","completions":200000,"parallelism":200000}}`,
		}, nil},
	refusal{"cron-job", "/apis/batch/v1/${ns}/cronjobs", `{"apiVersion":"batch/v1","kind":"CronJob",
		"metadata":{"name":"j"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{
		"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`,
		map[string]string{
			"minute 60":       `{"spec":{"schedule":"60 * * * *"}}`,
			"month 13":        `{"spec":{"schedule":"* * * 13 *"}}`,
			"no number":       `{"spec":{"schedule":"x * * * *"}}`,
			"step of 0":       `{"spec":{"schedule":"*/0 * * * *"}}`,
			"backwards":       `{"spec":{"schedule":"5-3 * * * *"}}`,
			"names":           `{"spec":{"schedule":"0 0 1 jan-mar MON-FRI"}}`,
			"unknown word":    `{"spec":{"schedule":"@sometimes"}}`,
			"zone in it":      `{"spec":{"schedule":"TZ=UTC * * * * *"}}`,
			"unknown zone":    `{"spec":{"timeZone":"Moon/Crater"}}`,
			"negative limits": `{"spec":{"successfulJobsHistoryLimit":-1,"startingDeadlineSeconds":-1}}`,
			"long name":       `{"metadata":{"name":"a-name-of-more-than-fifty-two-characters-is-too-long-for-jobs"}}`,
		}, nil},
	refusal{"namespace", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"refused-n"}}`,
		map[string]string{"bad name": `{"metadata":{"name":"a.b"}}`, "no name": `{"metadata":{"name":null}}`,
			"with a resource version": `{"metadata":{"resourceVersion":"1"}}`}, nil},
	refusal{"custom", webServers, webServerBody, map[string]string{
		"with a resource version": `{"metadata":{"resourceVersion":"1"}}`,
		"bad label":               `{"metadata":{"labels":{"a b":"c"}}}`,
		"wrong type":              `{"spec":{"replicas":"many"}}`}, nil},
	refusal{"service-account", "/api/v1/${ns}/serviceaccounts",
		`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"}}`,
		map[string]string{"bad name": `{"metadata":{"name":"A"}}`, "bad label": `{"metadata":{"labels":{"a b":"c"}}}`,
			"bad annotation": `{"metadata":{"annotations":{"a b":"c"}}}`,
			"bad finalizer":  `{"metadata":{"finalizers":["none"]}}`,
			"secrets by map": `{"secrets":{"name":"s"}}`}, nil},
	refusal{"claim", "/api/v1/${ns}/persistentvolumeclaims",
		`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"},"spec":{
			"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
		map[string]string{
			"no modes":     `{"spec":{"accessModes":null}}`,
			"unknown mode": `{"spec":{"accessModes":["Any"]}}`,
			"no request":   `{"spec":{"resources":null}}`,
			"bad name":     `{"metadata":{"name":"A_B"}}`,
		}, nil},
	refusal{"volume", "/api/v1/persistentvolumes",
		`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"refused-v"},"spec":{
			"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/a"}}}`,
		map[string]string{
			"no modes":       `{"spec":{"accessModes":null}}`,
			"no capacity":    `{"spec":{"capacity":null}}`,
			"no source":      `{"spec":{"hostPath":null}}`,
			"two sources":    `{"spec":{"nfs":{"server":"s","path":"/a"}}}`,
			"unknown policy": `{"spec":{"persistentVolumeReclaimPolicy":"Any"}}`,
		}, nil},
	refusal{"role", "/apis/rbac.authorization.k8s.io/v1/${ns}/roles",
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"},"rules":[
			{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`,
		map[string]string{
			"no verbs":     `{"rules":[{"apiGroups":[""],"resources":["pods"]}]}`,
			"no groups":    `{"rules":[{"resources":["pods"],"verbs":["get"]}]}`,
			"no resources": `{"rules":[{"apiGroups":[""],"verbs":["get"]}]}`,
			"URLs":         `{"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]}`,
		}, nil},
	refusal{"cluster-role", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"refused-r"},"rules":[]}`,
		map[string]string{
			"no verbs":          `{"rules":[{"apiGroups":[""],"resources":["pods"]}]}`,
			"URLs and resource": `{"rules":[{"nonResourceURLs":["/x"],"resources":["pods"],"verbs":["get"]}]}`,
		}, nil},
	refusal{"role-binding", "/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings",
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}`,
		map[string]string{
			"account of no namespace": `{"subjects":[{"kind":"ServiceAccount","name":"a"}]}`,
			"subject of no name":      `{"subjects":[{"kind":"User"}]}`,
			"unknown subject":         `{"subjects":[{"kind":"Robot","name":"a"}]}`,
			"unknown group":           `{"roleRef":{"apiGroup":"x"}}`,
		}, nil},
)

func scriptsOf(all ...refusal) []Script {
	out := []Script{strictScript}
	for _, k := range all {
		out = append(out, k.script())
	}
	return out
}

const asYAML = "application/yaml"

// strictScript: all that strict decoding finds is told at once.
var strictScript = Script{Name: "strict", Steps: []Step{
	{Name: "YAML: twice and unknown", Method: "POST", Path: configMaps + "?fieldValidation=Strict", Type: asYAML,
		Body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  typo: 1\n  name: b\ndata:\n  k: v\n  k: w\n" +
			"more: 1\n"},
	{Name: "YAML: warnings", Method: "POST", Path: configMaps + "?dryRun=All", Type: asYAML,
		Body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  typo: 1\n  name: b\ndata:\n  k: v\n  k: w\n" +
			"more: 1\n"},
	{Name: "JSON: twice", Method: "POST", Path: configMaps + "?fieldValidation=Strict",
		Body: `{"metadata":{"name":"a","name":"b"},"data":{"k":"v","k":"w"}}`},
	{Name: "JSON: unknown", Method: "POST", Path: configMaps + "?fieldValidation=Strict",
		Body: `{"metadata":{"name":"a","typo":1},"more":1}`},
	{Name: "JSON: warnings", Method: "POST", Path: configMaps + "?dryRun=All",
		Body: `{"metadata":{"name":"a","name":"b"},"data":{"k":"v","k":"w"},"more":1}`},
	{Name: "YAML: custom", Method: "POST", Path: webServers + "?fieldValidation=Strict", Type: asYAML,
		Body: "apiVersion: skiff.dev/v1alpha1\n" +
			"kind: WebServer\nmetadata:\n  name: a\n  typo: 1\nspec:\n  image: a\n  image: b\n" +
			"  more: 1\n"},
	{Name: "applied: twice and unknown", Method: "PATCH", Type: applyPatch,
		Path: configMaps + "/a?fieldManager=skiff&fieldValidation=Strict",
		Body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n  k: w\n"},
	{Name: "applied: warnings", Method: "PATCH", Type: applyPatch,
		Path: configMaps + "/a?fieldManager=skiff&dryRun=All",
		Body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n  k: w\n"},
	{Name: "YAML: in a list", Method: "POST", Path: services + "?fieldValidation=Strict", Type: asYAML,
		Body: "kind: Service\napiVersion: v1\n" +
			"metadata: {name: s}\nspec:\n  ports:\n  - port: 80\n    prot: TCP\n    port: 81\n"},
	{Name: "wrong type and unknown", Method: "POST", Path: services + "?fieldValidation=Strict",
		Body: `{"metadata":{"name":"s"},"spec":{"ports":"none","typo":1}}`},
	{Name: "name that is invalid, of another namespace", Method: "POST", Path: configMaps,
		Body: `{"metadata":{"name":"A_B","namespace":"elsewhere"}}`},
	{Name: "invalid, in a namespace that is not there", Method: "POST", Path: "/api/v1/namespaces/nowhere/configmaps",
		Body: `{"metadata":{"name":"A_B"}}`},
	{Name: "invalid and a resource version", Method: "POST", Path: configMaps,
		Body: `{"metadata":{"name":"A_B","resourceVersion":"1"}}`},
	{Name: "create", Method: "POST", Path: configMaps, Body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`},
	{Name: "invalid and there already", Method: "POST", Path: configMaps,
		Body: `{"metadata":{"name":"a"},"data":{"a b":"v"}}`},
	{Name: "there already, dry run", Method: "POST", Path: configMaps + "?dryRun=All", Body: `{"metadata":{"name":"a"}}`},
	{Name: "invalid and outdated", Method: "PUT", Path: configMaps + "/a",
		Body: `{"metadata":{"name":"a","resourceVersion":"1"},"data":{"a b":"v"}}`},
	{Name: "invalid and of another uid", Method: "PUT", Path: configMaps + "/a",
		Body: `{"metadata":{"name":"a","uid":"1"},"data":{"a b":"v"}}`},
	{Name: "unknown dry run and invalid", Method: "POST", Path: configMaps + "?dryRun=Some",
		Body: `{"metadata":{"name":"A_B"}}`},
	{Name: "unknown validation and unknown field", Method: "POST", Path: configMaps + "?fieldValidation=Some",
		Body: `{"metadata":{"name":"A_B"},"typo":1}`},
}}
