package e2e

import "strings"

const (
	claimsPath = "/api/v1/${ns}/persistentvolumeclaims"
	quotasPath = "/api/v1/${ns}/resourcequotas"
)

// limitScripts: what LimitRanges, ResourceQuotas and evictions make of pods, claims and Services.
var limitScripts = []Script{
	limitRange("defaults", `{"type":"Container","default":{"cpu":"500m","memory":"1Gi"},
		"defaultRequest":{"cpu":"0.1"},"max":{"ephemeral-storage":"2Gi"}}`,
		created("nothing is asked for", podsPath, podWith("a", `{"name":"c","image":"i"}`)),
		created("some is asked for", podsPath, podWith("b", `{"name":"c","image":"i","resources":{"requests":{"cpu":"200m"},
			"limits":{"memory":"64Mi"}}},{"name":"d","image":"i","resources":{"limits":{"cpu":"1","memory":"1Gi",
			"ephemeral-storage":"1Gi"}}}`)),
		created("init containers", podsPath, `{"metadata":{"name":"i","annotations":{"a":"b"}},"spec":{"containers":[
			{"name":"c","image":"i"}],"initContainers":[{"name":"d","image":"i"},{"name":"s","image":"i",
			"restartPolicy":"Always"}]}}`),
		created("a request above the default limit", podsPath, podWith("x", `{"name":"c","image":"i","resources":{
			"requests":{"cpu":"1"}}}`)),
		Step{Name: "apply", Method: "PATCH", Path: podsPath + "/applied?fieldManager=m", Type: applyPatch,
			Body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"applied"},"spec":{"containers":[{"name":"c",
			"image":"i"}]}}`},
		Step{Name: "a change of the image", Method: "PATCH", Path: podsPath + "/a", Type: mergePatch,
			Body: `{"metadata":{"labels":{"a":"b"}}}`},
		created("a template is left alone", "/api/v1/${ns}/podtemplates", `{"metadata":{"name":"t"},`+template+`}`),
		resizeOf("within", "a", `{"limits":{"cpu":"700m"}}`),
	),
	limitRange("containers", `{"type":"Container","min":{"cpu":"100m","memory":"32Mi"},"max":{"cpu":"2"},
		"maxLimitRequestRatio":{"memory":"2"},"default":{"cpu":"1"}}`,
		created("no memory", podsPath, podWith("x", `{"name":"c","image":"i"}`)),
		created("too little of all", podsPath, podWith("x", resources("50m", "1Mi", "60m", "1Mi"))),
		created("too much cpu", podsPath, podWith("x", resources("1", "32Mi", "3", "64Mi"))),
		created("ratio too high", podsPath, podWith("x", resources("1", "32Mi", "2", "100Mi"))),
		created("no limit for the ratio", podsPath, podWith("x", `{"name":"c","image":"i","resources":{"requests":{"cpu":"1",
			"memory":"64Mi"}}}`)),
		created("two containers", podsPath, podWith("x", resources("1", "1Mi", "1", "1Mi")+`,{"name":"d","image":"i"}`)),
		created("within", podsPath, podWith("p", resources("1", "32Mi", "1500m", "64Mi"))),
		resizeOf("too high", "p", `{"limits":{"cpu":"3"}}`),
		resizeOf("too low", "p", `{"requests":{"cpu":"1m"}}`),
		resizeOf("within", "p", `{"requests":{"cpu":"500m"}}`),
		created("through a name that is generated", podsPath+"?dryRun=All", `{"metadata":{"generateName":"generated-"},
			"spec":{"containers":[{"name":"c","image":"i"}]}}`),
	),
	limitRange("pods", `{"type":"Pod","min":{"cpu":"100m"},"max":{"cpu":"2","memory":"1Gi"},
		"maxLimitRequestRatio":{"cpu":"1500m"}}`,
		created("nothing", podsPath, podWith("x", `{"name":"c","image":"i"}`)),
		created("too much together", podsPath, podWith("x", resources("1", "1Gi", "1", "1Gi")+
			`,{"name":"d","image":"i","resources":{"limits":{"cpu":"1500m","memory":"1Mi"}}}`)),
		created("ratio", podsPath, podWith("x", resources("100m", "1Mi", "1", "1Mi"))),
		created("an init container", podsPath, `{"metadata":{"name":"x"},"spec":{"containers":[`+
			resources("1", "1Mi", "1", "1Mi")+`],"initContainers":[{"name":"s","image":"i","restartPolicy":"Always",
			"resources":{"limits":{"cpu":"500m","memory":"1Mi"}}},{"name":"i","image":"i","resources":{"limits":{
			"cpu":"1600m","memory":"1Mi"}}}]}}`),
		created("of the pod itself", podsPath, `{"metadata":{"name":"l"},"spec":{"resources":{"limits":{"cpu":"3",
			"memory":"1Mi"}},"containers":[{"name":"c","image":"i"}]}}`),
		created("of the pod and its containers", podsPath, `{"metadata":{"name":"m"},"spec":{"resources":{"limits":{"cpu":"1",
			"memory":"1Gi"}},"containers":[`+resources("100m", "1Mi", "100m", "1Mi")+`,`+
			`{"name":"d","image":"i","resources":{"requests":{"cpu":"700m"}}}]}}`),
		created("within", podsPath, podWith("p", resources("1", "1Gi", "1", "1Gi"))),
	),
	limitRange("claims", `{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"10Gi"}}`,
		created("too small", claimsPath, claimOf("x", "500Mi")),
		created("too large", claimsPath, claimOf("x", "1Ti")),
		created("within", claimsPath+"?dryRun=All", claimOf("c", "10Gi")),
		created("pods are free", podsPath, podWith("p", `{"name":"c","image":"i"}`)),
	),
	{Name: "quota-updates", Steps: []Step{
		quotaOf("q", `"services":"5","services.nodeports":"2","services.loadbalancers":"0","requests.storage":"5Gi",
			"persistentvolumeclaims":"2","requests.cpu":"2","limits.cpu":"3"`),
		quotaUsed("q", `"services":"5","services.nodeports":"2","services.loadbalancers":"0","requests.storage":"5Gi",
			"persistentvolumeclaims":"2","requests.cpu":"2","limits.cpu":"3"`, `"services":"0","services.nodeports":"0",
			"services.loadbalancers":"0","requests.storage":"0","persistentvolumeclaims":"0","requests.cpu":"0",
			"limits.cpu":"0"`),
		{Name: "in force", Method: "POST", Path: claimsPath + "?dryRun=All", Body: claimOf("x", "6Gi"),
			Until: "exceeded quota"},
		created("Service", services, serviceWith("s", "ClusterIP", `{"name":"a","port":1},{"name":"b","port":2},
			{"name":"c","port":3}`)),
		changed("too many node ports", services+"/s", `{"spec":{"type":"NodePort"}}`),
		changed("no load balancer", services+"/s", `{"spec":{"type":"LoadBalancer","ports":null,"ports":[{"port":1}]}}`),
		changed("as many as there may be", services+"/s", `{"spec":{"type":"NodePort","ports":[{"name":"a","port":1},
			{"name":"b","port":2}]}}`),
		{Name: "what is left", Path: quotasPath + "/q"},
		changed("another label", services+"/s", `{"metadata":{"labels":{"a":"b"}}}`),
		changed("one more", services+"/s", `{"spec":{"ports":[{"name":"a","port":1},{"name":"b","port":2},{"name":"c",
			"port":3}]}}`),
		created("claim", claimsPath, claimOf("c", "1Gi")),
		changed("grow, unbound", claimsPath+"/c", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`),
		changed("bind", claimsPath+"/c/status", `{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`),
		changed("grow without a class", claimsPath+"/c", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`),
		created("class", "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"of-${NS}"},
			"provisioner":"a.b/c","allowVolumeExpansion":true}`),
		created("claim of the class", claimsPath, strings.Replace(claimOf("d", "1Gi"), `"s"`, `"of-${NS}"`, 1)),
		changed("bind it", claimsPath+"/d/status", `{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`),
		{Name: "grow too much", Method: "PATCH", Path: claimsPath + "/d", Type: mergePatch, Until: "exceeded quota",
			Body: `{"spec":{"resources":{"requests":{"storage":"5Gi"}}}}`},
		changed("grow", claimsPath+"/d", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`),
		changed("shrink", claimsPath+"/d", `{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}`),
		changed("shrink a little", claimsPath+"/d", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`),
		changed("another class", claimsPath+"/d", `{"spec":{"storageClassName":"other"}}`),
		created("pod", podsPath, podWith("p", resources("1", "1Mi", "2", "1Mi"))),
		resizeOf("more than there is", "p", `{"limits":{"cpu":"4"}}`),
		resizeOf("to the end", "p", `{"requests":{"cpu":"2"},"limits":{"cpu":"3"}}`),
		{Name: "nothing is left", Path: quotasPath + "/q"},
		resizeOf("less again", "p", `{"requests":{"cpu":"1"}}`),
	}},
	{Name: "evicted-pods", Steps: []Step{
		created("pod", podsPath, `{"metadata":{"name":"p","finalizers":["a.b/c"]},"spec":{"containers":[{"name":"c",
			"image":"i"}],"automountServiceAccountToken":false}}`),
		evicted("dry run", "?dryRun=All", "p"), {Name: "untouched", Path: podsPath + "/p"},
		evicted("waits for a finalizer", "", "p"), {Name: "says why it goes", Path: podsPath + "/p"},
		evicted("again", "", "p"),
		{Name: "let go", Method: "PATCH", Path: podsPath + "/p", Type: mergePatch, Body: `{"metadata":{"finalizers":null}}`},
	}},
	{Name: "quota-scopes", Steps: []Step{
		{Name: "quota", Method: "POST", Path: quotasPath, Body: `{"metadata":{"name":"t"},"spec":{"scopes":["Terminating"],
			"hard":{"pods":"0"}}}`},
		quotaUsed("t", `"pods":"0"`, `"pods":"0"`),
		{Name: "in force", Method: "POST", Path: podsPath + "?dryRun=All", Body: `{"metadata":{"name":"x"},"spec":{
			"activeDeadlineSeconds":5,"containers":[{"name":"c","image":"i"}]}}`, Until: "exceeded quota"},
		created("not Terminating", podsPath, podWith("p", `{"name":"c","image":"i"}`)),
		changed("becomes Terminating", podsPath+"/p", `{"spec":{"activeDeadlineSeconds":5}}`),
	}},
}

func limitRange(name, limit string, steps ...Step) Script {
	body := `{"metadata":{"name":"l"},"spec":{"limits":[` + limit + `]}}`
	return Script{Name: "limits-of-" + name, Steps: append([]Step{
		created("LimitRange", "/api/v1/${ns}/limitranges", body)}, steps...)}
}

func created(step, path, body string) Step {
	return Step{Name: step, Method: "POST", Path: path, Body: body}
}

func changed(step, path, body string) Step {
	return Step{Name: step, Method: "PATCH", Path: path, Type: mergePatch, Body: body}
}

func resizeOf(step, pod, resources string) Step {
	return Step{Name: "resize: " + step, Method: "PATCH", Path: podsPath + "/" + pod + "/resize", Type: strategicPatch,
		Body: `{"spec":{"containers":[{"name":"c","resources":` + resources + `}]}}`}
}

func podWith(name, containers string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"containers":[` + containers + `]}}`
}

// resources is the container c with these requests and limits of cpu and memory.
func resources(cpu, memory, maxCPU, maxMemory string) string {
	return `{"name":"c","image":"i","resources":{"requests":{"cpu":"` + cpu + `","memory":"` + memory +
		`"},"limits":{"cpu":"` + maxCPU + `","memory":"` + maxMemory + `"}}}`
}

func claimOf(name, storage string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"s","resources":{
		"requests":{"storage":"` + storage + `"}}}}`
}

func serviceWith(name, kind, ports string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"type":"` + kind + `","ports":[` + ports + `]}}`
}

func quotaOf(name, hard string) Step {
	return created("quota", quotasPath, `{"metadata":{"name":"`+name+`"},"spec":{"hard":{`+hard+`}}}`)
}

// quotaUsed does what the controller of quotas does: there is none on either side.
func quotaUsed(name, hard, used string) Step {
	return changed("status", quotasPath+"/"+name+"/status", `{"status":{"hard":{`+hard+`},"used":{`+used+`}}}`)
}
